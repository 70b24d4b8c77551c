//! Logins of services on a real Postgres, made by an admin who is no superuser: they work, take turns,
//! are repaired, keep apart, and end; and what is not ours is left alone.
//!
//! No control plane is started. `POSTGRES_BIN` names the programs of another version.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test reports by panicking

#[path = "postgres_logins/drift.rs"]
mod drift;
#[path = "postgres_logins/dropped.rs"]
mod dropped;
#[path = "postgres_logins/foreign.rs"]
mod foreign;
#[path = "postgres_logins/ground.rs"]
mod ground;
#[path = "postgres_logins/isolation.rs"]
mod isolation;
#[path = "postgres_logins/late.rs"]
mod late;
#[path = "postgres_logins/many.rs"]
mod many;
#[path = "postgres_logins/names.rs"]
mod names;
#[path = "postgres_logins/pooled.rs"]
mod pooled;
#[path = "postgres_logins/privileges.rs"]
mod privileges;
#[path = "postgres_logins/refusals.rs"]
mod refusals;
#[path = "postgres_logins/removal.rs"]
mod removal;
#[path = "postgres_logins/rotation.rs"]
mod rotation;
#[path = "postgres_logins/tls.rs"]
mod tls;
