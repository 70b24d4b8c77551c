//! Logins on a real Postgres and a real Redis, made by the operator: they work, rotate without a failing
//! request, are mended, and end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "credentials/crash.rs"]
mod crash;
#[path = "credentials/deletion.rs"]
mod deletion;
#[path = "credentials/drift.rs"]
mod drift;
#[path = "credentials/failover.rs"]
mod failover;
#[path = "credentials/five_hundred.rs"]
mod five_hundred;
#[path = "credentials/ground.rs"]
mod ground;
#[path = "credentials/leaks.rs"]
mod leaks;
#[path = "credentials/left.rs"]
mod left;
#[path = "credentials/load.rs"]
mod load;
#[path = "credentials/making.rs"]
mod making;
#[path = "credentials/planned.rs"]
mod planned;
#[path = "credentials/rotation.rs"]
mod rotation;
#[path = "operator_behaviour/stage.rs"]
#[allow(dead_code)] // shared with the tests of the operator
mod stage;
#[path = "credentials/trouble.rs"]
mod trouble;
