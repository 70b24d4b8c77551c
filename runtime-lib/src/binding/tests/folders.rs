//! What is read of a folder, what is refused, and when a change is noticed.

use std::collections::BTreeSet;
use std::fs;
use std::sync::mpsc;

use secrecy::ExposeSecret as _;

use super::super::folder;
use super::super::watcher::EVERY;
use super::{Binding, CANARY, mounted, next, postgres, put, watched, with};
use crate::clock::Clock;

#[tokio::test(start_paused = true)]
async fn every_file_of_a_mounted_secret_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let mount = mounted(folder.path(), &postgres("orders_a"));
    let current = watched(&mount).await.current();
    assert_eq!((current.host(), current.port()), ("db.example", 5433));
    assert_eq!(current.username(), Some("orders_a"));
    assert_eq!(current.database(), Some("orders"));
    let password = current.password().unwrap().expose_secret();
    assert_eq!(password, format!("{CANARY}-orders_a"));
}

#[tokio::test(start_paused = true)]
async fn a_swap_is_published_and_what_a_rotation_prepares_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut mount = mounted(folder.path(), &postgres("orders_a"));
    let binding = watched(&mount).await;
    let mut news = binding.watch();
    let prepared = with(&postgres("orders_a"), "next-username", Some(b"orders_b"));
    put(&mut mount, &prepared);
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < EVERY * 5 {
        tokio::time::sleep(EVERY).await; // of a clock that stands: five looks
    }
    assert!(!news.has_changed().unwrap());
    put(&mut mount, &postgres("orders_b"));
    assert_eq!(next(&mut news).await.username(), Some("orders_b"));
    assert_eq!(binding.current().username(), Some("orders_b"));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_used_is_named_and_never_repeated() {
    let large = vec![b'x'; 5 << 20];
    let key = "-----BEGIN PRIVATE KEY-----\ncanary-5f1e\n-----END PRIVATE KEY-----\n";
    let cases: [(&str, Option<&[u8]>, &str); 18] = [
        ("type", None, "is missing"),
        (
            "type",
            Some(b"canary-5f1e"),
            "allowed is postgresql or redis",
        ),
        ("host", None, "is missing"),
        (
            "host",
            Some(b"canary-5f1e@evil"),
            "a DNS name or an IP address",
        ),
        ("port", Some(b"0"), "1 to 65535"),
        ("port", Some(b"canary-5f1e"), "1 to 65535"),
        ("username", None, "is missing"),
        ("password", None, "is missing"),
        ("password", Some(b""), "is empty"),
        ("password", Some(b"canary-5f1e\n"), "ends in a newline"),
        ("password", Some(b"canary-5f1e\0x"), "control character"),
        ("password", Some(b"canary-5f1e\xff"), "is not UTF-8"),
        ("password", Some(&large), "is too large"),
        ("sslmode", Some(b"canary-5f1e"), "verify-full"),
        ("uri", Some(b"canary-5f1e"), "postgres://"),
        ("uri", Some(b"postgres://a:canary-5f1e@h/"), "another login"),
        ("ca.crt", Some(b"canary-5f1e"), "certificates in PEM"),
        ("ca.crt", Some(key.as_bytes()), "a private key"),
    ];
    for (name, content, expected) in cases {
        let folder = tempfile::tempdir().unwrap();
        let files = with(&postgres("orders_a"), name, content);
        let mount = mounted(folder.path(), &files);
        let refused = Binding::folder(mount.path()).await.unwrap_err();
        let [problem] = refused.problems() else {
            panic!("{name}: {refused}");
        };
        assert!(problem.contains(&format!("binding/{name}: ")), "{problem}");
        assert!(problem.contains(expected), "{problem}");
        assert!(!format!("{refused}{refused:?}").contains(CANARY), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_problem_is_listed_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let files = with(&postgres("orders_a"), "host", None);
    let files = with(&files, "port", Some(b"many"));
    let mount = mounted(folder.path(), &files);
    let refused = Binding::folder(mount.path()).await.unwrap_err();
    assert_eq!(refused.problems().len(), 2, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn an_unusable_change_leaves_in_force_what_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut mount = mounted(folder.path(), &postgres("orders_a"));
    let binding = watched(&mount).await;
    let mut news = binding.watch();
    put(&mut mount, &with(&postgres("orders_b"), "password", None));
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < EVERY * 3 {
        tokio::time::sleep(EVERY).await; // of a clock that stands: three looks
    }
    assert_eq!(binding.current().username(), Some("orders_a"));
    put(&mut mount, &postgres("orders_c"));
    assert_eq!(next(&mut news).await.username(), Some("orders_c"));
}

/// Which login the file of this name is of.
fn login(content: &[u8]) -> char {
    char::from(*content.last().unwrap())
}

#[test]
fn a_reader_never_sees_half_of_a_swap() {
    let folder = tempfile::tempdir().unwrap();
    let mut mount = mounted(folder.path(), &postgres("a"));
    let path = mount.path().to_owned();
    // Each read may overlap one swap; thousands of swaps in each would leave nothing to read.
    let (allow, allowed) = mpsc::sync_channel::<()>(0);
    let swapping = std::thread::spawn(move || {
        for name in ["b", "a"].into_iter().cycle() {
            if allowed.recv().is_err() {
                return;
            }
            put(&mut mount, &postgres(name));
        }
    });
    let mut seen = BTreeSet::new();
    for _ in 0..500 {
        let _ = allow.send(());
        let files = folder::read(&path).unwrap();
        let of = |name| login(files.contents[name].as_ref().unwrap());
        assert_eq!(of("username"), of("password"));
        seen.insert(of("username"));
    }
    drop(allow);
    swapping.join().unwrap();
    assert_eq!(seen.len(), 2);
}

/// The positive control: whoever reads the links one after the other does see halves.
#[test]
fn a_reader_of_the_links_sees_half_of_a_swap() {
    let folder = tempfile::tempdir().unwrap();
    let mut mount = mounted(folder.path(), &postgres("a"));
    let username = fs::read(mount.path().join("username")).unwrap();
    put(&mut mount, &postgres("b"));
    let password = fs::read(mount.path().join("password")).unwrap();
    assert_ne!(login(&username), login(&password));
}

#[tokio::test(start_paused = true)]
async fn loose_files_are_read_when_they_stand_still_and_agree() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (name, content) in postgres("a") {
        fs::write(path.join(name), content).unwrap();
    }
    let begun = Binding::watched(path.to_owned(), None, Clock::test()).await;
    let binding = begun.unwrap();
    let mut news = binding.watch();
    // Half of a change: the URL names another login than these two.
    for (name, content) in postgres("b") {
        if ["username", "password"].contains(&name) {
            fs::write(path.join(name), content).unwrap();
        }
    }
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < EVERY * 5 {
        tokio::time::sleep(EVERY).await; // of a clock that stands: five looks
    }
    assert!(!news.has_changed().unwrap());
    for (name, content) in postgres("b") {
        fs::write(path.join(name), content).unwrap();
    }
    assert_eq!(next(&mut news).await.username(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_vanishes_leaves_in_force_what_was_and_may_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let mount = mounted(folder.path(), &postgres("a"));
    let binding = watched(&mount).await;
    let mut news = binding.watch();
    let away = folder.path().join("away");
    fs::rename(mount.path(), &away).unwrap();
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < EVERY * 3 {
        tokio::time::sleep(EVERY).await; // of a clock that stands: three looks
    }
    assert_eq!(binding.current().username(), Some("a"));
    let mut back = mounted(folder.path(), &postgres("b"));
    put(&mut back, &postgres("c"));
    assert_eq!(next(&mut news).await.username(), Some("c"));
}
