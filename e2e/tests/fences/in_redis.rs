//! What is particular to Redis: its script and its commands.

use leasehold::Fence as _;
use leasehold::fence::{Commands, FenceError, RedisFences};
use leasehold_e2e::error::Result;
use leasehold_e2e::servers::Redis;
use redis::aio::ConnectionManager;

use crate::store::{InRedis, Store as _};
use crate::stories::{claim, owners};

/// The positive control: without the check a late write is taken.
pub(crate) async fn the_check_is_needed(connection: &ConnectionManager) -> Result<()> {
    let (parent, child) = (claim(0, 20, "5"), claim(10, 30, "9"));
    for checks in [true, false] {
        let store = InRedis::new(connection, if checks { "checked" } else { "control" });
        let store = if checks { store } else { store.without_check() };
        store.raise(parent).await?;
        store.raise(child).await?;
        store.write(child, 7).await?;
        assert_eq!(store.write(parent, 8).await.is_err(), checks);
        assert_eq!(store.value().await, if checks { 7 } else { 8 });
    }
    Ok(())
}

/// The set holds the present layout, and what is left of those before until all have raised.
pub(crate) async fn edges_of_former_layouts_are_removed(
    connection: &ConnectionManager,
) -> Result<()> {
    let fences = RedisFences::new(connection.clone(), "edges")?;
    for (count, first) in [(12, 100), (18, 200), (9, 300), (1, 400), (12, 500)] {
        for owner in owners(count, first, count) {
            fences.raise(owner).await?;
        }
        let mut size = redis::cmd("ZCARD");
        let size = size.arg("leasehold:{edges}:fences");
        let found: u16 = size.query_async(&mut connection.clone()).await?;
        assert_eq!(found, count);
    }
    Ok(())
}

pub(crate) async fn commands_are_run_in_order_and_answered(server: &Redis) -> Result<()> {
    let fences = RedisFences::connect(server.url(), "orders").await?;
    assert_eq!(
        format!("{fences:?}"),
        r#"RedisFences { service: "orders", key: "leasehold:{orders}:fences", .. }"#
    );
    let owner = claim(0, 20, "5");
    fences.raise(owner).await?;
    let binary = [0, 0xff, b'\r', b'\n'];
    let commands = Commands::new()
        .command("HSET", &["{orders}:7"], &["state", "paid"])
        .command("INCRBY", &["{orders}:paid"], &["3"])
        .command("SET", &["{orders}:binary"], &[binary])
        .command("GET", &["{orders}:none"], &[""; 0])
        .command("GET", &["{orders}:binary"], &[""; 0])
        .command("DEL", &["{orders}:7", "{orders}:none"], &[""; 0]);
    let replies = fences.write(owner, &commands).await?;
    let expected = (1, 3, "OK".to_owned(), None::<String>, binary.to_vec(), 1);
    let replies: (i64, i64, String, Option<String>, Vec<u8>, i64) = replies;
    assert_eq!(replies, expected);
    // A check without a write.
    fences.write::<()>(owner, &Commands::new()).await?;
    // A command that fails says so, and which.
    let wrong = Commands::new().command("INCRBY", &["{orders}:binary"], &["1"]);
    let refused = fences.write::<i64>(owner, &wrong).await.unwrap_err();
    assert!(matches!(refused, FenceError::Store { .. }), "{refused:?}");
    let long = Commands::new().command("DEL", &vec!["{orders}:7"; 4000], &[""; 0]);
    let refused = fences.write::<i64>(owner, &long).await.unwrap_err();
    let source = std::error::Error::source(&refused).map(ToString::to_string);
    let source = source.unwrap_or_default();
    assert!(
        source.contains("a command of 4001 words, allowed are 4000"),
        "{source}"
    );
    Ok(())
}
