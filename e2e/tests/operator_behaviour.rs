//! The operator against a real API server: what it shows, announces, refuses and survives.
//!
//! Leases are written here by hand, as candidates would write them, so that every case is exact; that
//! real candidates are shown the same way is tested with the election.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "operator_behaviour/backend_classes.rs"]
mod backend_classes;
#[path = "operator_behaviour/crash.rs"]
mod crash;
#[path = "operator_behaviour/events.rs"]
mod events;
#[path = "operator_behaviour/handoffs.rs"]
mod handoffs;
#[path = "operator_behaviour/malformed.rs"]
mod malformed;
#[path = "operator_behaviour/members.rs"]
mod members;
#[path = "operator_behaviour/partitions.rs"]
mod partitions;
#[path = "operator_behaviour/quiet.rs"]
mod quiet;
#[path = "operator_behaviour/rights.rs"]
mod rights;
#[path = "operator_behaviour/schema.rs"]
mod schema;
#[path = "operator_behaviour/sharing.rs"]
mod sharing;
#[path = "operator_behaviour/stage.rs"]
mod stage;
#[path = "operator_behaviour/start.rs"]
mod start;
#[path = "operator_behaviour/status.rs"]
mod status;
#[path = "operator_behaviour/table.rs"]
mod table;
#[path = "operator_behaviour/thousand.rs"]
mod thousand;
