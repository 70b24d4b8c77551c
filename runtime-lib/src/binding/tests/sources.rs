//! Where a binding is found: in a variable, or among the folders of the bindings.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::ROOT;
use super::super::mounted::MountedSecret;
use super::{Binding, CANARY, postgres, with};
use crate::binding::BindingKind;
use crate::clock::Clock;
use crate::error::StartError;

async fn found(kind: BindingKind, variables: &[(&str, &str)]) -> Result<Binding, StartError> {
    let variables = variables
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()));
    let variables: BTreeMap<&str, String> = variables.collect();
    Binding::from_variables(kind, variables, Clock::test()).await
}

#[tokio::test(start_paused = true)]
async fn a_variable_is_a_binding_that_never_changes() {
    let url = "postgres://o%40a:p%2Fw@[::1]/orders?sslmode=require";
    let variables = [("LEASEHOLD_POSTGRES_URL", url)];
    let binding = found(BindingKind::Postgres, &variables).await.unwrap();
    let current = binding.current();
    assert_eq!(current.username(), Some("o@a"));
    assert_eq!((current.host(), current.port()), ("::1", 5432));
    assert_eq!(current.database(), Some("orders"));
    assert!(binding.watch().changed().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn urls_that_no_client_reads_are_refused_without_repeating_them() {
    let cases = [
        (BindingKind::Postgres, "canary-5f1e", "postgres://"),
        (
            BindingKind::Postgres,
            "redis://u:canary-5f1e@h/",
            "another scheme",
        ),
        (
            BindingKind::Postgres,
            "postgres://u:canary-5f1e@h/?sslmode=canary-5f1e",
            "parameter",
        ),
        (
            BindingKind::Postgres,
            "postgres://u:canary-5f1e@h:x/",
            "port",
        ),
        (
            BindingKind::Redis,
            "postgres://u:canary-5f1e@h/",
            "another scheme",
        ),
        (
            BindingKind::Redis,
            "redis://u:canary-5f1e@h/canary-5f1e",
            "no number",
        ),
        (BindingKind::Redis, "redis://u:%ffcanary-5f1e@h/", "UTF-8"),
        (
            BindingKind::Redis,
            "rediss://u:canary-5f1e@h/#insecure",
            "would trust any server",
        ),
        (
            BindingKind::Redis,
            "rediss://u:canary-5f1e@h/#canary-5f1e",
            "fragment",
        ),
        (BindingKind::Redis, "redis:canary-5f1e", "names no host"),
    ];
    for (kind, url, expected) in cases {
        let refused = found(kind, &[(kind.variable(), url)]).await.unwrap_err();
        let text = format!("{refused}{refused:?}");
        assert!(text.contains(expected), "{text}");
        assert!(text.contains(kind.variable()), "{text}");
        assert!(!text.contains(CANARY), "{text}");
    }
}

fn add(root: &Path, name: &str, kind: &str) {
    let files = with(&postgres("a"), "type", Some(kind.as_bytes()));
    let files = with(&files, "uri", None);
    let mut mount = MountedSecret::new(root.join(name)).unwrap();
    super::put(&mut mount, &files);
}

#[tokio::test(start_paused = true)]
async fn the_one_folder_of_its_type_is_taken() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().to_str().unwrap();
    let kind = BindingKind::Redis;
    let none = found(kind, &[(ROOT, at)]).await.unwrap_err().to_string();
    assert!(none.contains("LEASEHOLD_REDIS_URL") && none.contains("found: nothing"));
    add(root.path(), "orders-postgres", "postgresql");
    let none = found(kind, &[(ROOT, at)]).await.unwrap_err().to_string();
    assert!(none.contains("found: orders-postgres"), "{none}");
    add(root.path(), "orders-redis", "redis");
    let one = found(kind, &[(ROOT, at)]).await.unwrap();
    assert_eq!(one.kind(), BindingKind::Redis);
    add(root.path(), "cache", "redis");
    let two = found(kind, &[(ROOT, at)]).await.unwrap_err().to_string();
    assert!(two.contains("cache, orders-redis"), "{two}");
    let url = ("LEASEHOLD_REDIS_URL", "redis://h/");
    let chosen = found(kind, &[(ROOT, at), url]).await.unwrap();
    assert_eq!(chosen.current().host(), "h");
}

#[tokio::test(start_paused = true)]
async fn without_any_source_both_variables_are_named() {
    let refused = found(BindingKind::Postgres, &[]).await.unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("LEASEHOLD_POSTGRES_URL") && text.contains(ROOT),
        "{text}"
    );
}

#[cfg(all(feature = "postgres", feature = "redis"))]
#[tokio::test(start_paused = true)]
async fn a_client_of_the_other_kind_is_refused() {
    let url = ("LEASEHOLD_POSTGRES_URL", "postgres://u:canary-5f1e@h/");
    let binding = found(BindingKind::Postgres, &[url]).await.unwrap();
    let refused = binding.redis(redis::aio::ConnectionManagerConfig::new());
    let text = refused.unwrap_err().to_string();
    assert!(
        text.contains("is of postgresql, and not of redis"),
        "{text}"
    );
}

#[cfg(all(feature = "postgres", feature = "redis"))]
#[tokio::test(start_paused = true)]
async fn nothing_that_can_be_printed_prints_a_password() {
    let postgres = ("LEASEHOLD_POSTGRES_URL", "postgres://u:canary-5f1e@h/");
    let postgres = found(BindingKind::Postgres, &[postgres]).await.unwrap();
    let redis = ("LEASEHOLD_REDIS_URL", "redis://u:canary-5f1e@h/");
    let redis = found(BindingKind::Redis, &[redis]).await.unwrap();
    let pool = postgres.postgres_pool(sqlx::postgres::PgPoolOptions::new());
    let connection = redis.redis(redis::aio::ConnectionManagerConfig::new());
    let (current, word) = (redis.current(), redis.current());
    let word = word.password();
    let shown = format!(
        "{postgres:?} {redis:?} {current:?} {word:?} {:?} {:?}",
        pool.unwrap(),
        connection.unwrap()
    );
    assert!(
        shown.contains("REDACTED") && shown.contains("\"u\""),
        "{shown}"
    );
    assert!(!shown.contains(CANARY), "{shown}");
}
