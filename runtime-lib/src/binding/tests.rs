//! Mounted folders that change, as the kubelet and as other people change them.

mod folders;
mod logins;
mod sources;

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;

use super::mounted::MountedSecret;
use super::{Binding, Credentials};
use crate::clock::Clock;

/// Must be in nothing that is printed.
const CANARY: &str = "canary-5f1e";

/// The files of a Postgres binding under this login.
fn postgres(login: &str) -> Vec<(&'static str, Vec<u8>)> {
    let uri = format!("postgresql://{login}:{CANARY}-{login}@db.example:5433/orders");
    let text = [
        ("type", "postgresql"),
        ("provider", "leasehold"),
        ("host", "db.example"),
        ("port", "5433"),
        ("username", login),
        ("password", &format!("{CANARY}-{login}")),
        ("database", "orders"),
        ("uri", &uri),
        ("sslmode", "disable"),
    ];
    text.map(|(name, text)| (name, text.as_bytes().to_vec()))
        .to_vec()
}

/// The same with other contents of one file; none removes it.
fn with(
    files: &[(&'static str, Vec<u8>)],
    name: &'static str,
    content: Option<&[u8]>,
) -> Vec<(&'static str, Vec<u8>)> {
    let mut files = files.to_vec();
    files.retain(|(other, _)| *other != name);
    files.extend(content.map(|content| (name, content.to_vec())));
    files
}

fn put(mount: &mut MountedSecret, files: &[(&'static str, Vec<u8>)]) {
    let files = files.iter().map(|(name, content)| (*name, &content[..]));
    mount.put(files).unwrap();
}

fn mounted(folder: &Path, files: &[(&'static str, Vec<u8>)]) -> MountedSecret {
    let mut mount = MountedSecret::new(folder.join("binding")).unwrap();
    put(&mut mount, files);
    mount
}

async fn watched(mount: &MountedSecret) -> Binding {
    let path = mount.path().to_owned();
    Binding::watched(path, None, Clock::test()).await.unwrap()
}

async fn next(news: &mut watch::Receiver<Arc<Credentials>>) -> Arc<Credentials> {
    news.changed().await.unwrap();
    news.borrow_and_update().clone()
}
