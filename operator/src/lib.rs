//! The operator: hands declared settings to running pods, shows who leads, announces every change.
//!
//! It is never on the path of an election: Leases decide, and an operator that is away only delays
//! what people see. One direction: [`watch`] feeds [`belief`]; [`controller`] compares beliefs with
//! what is declared and writes the difference, while its [`context::WriteGate`] lets it.
//!
//! | Module | Is |
//! | --- | --- |
//! | [`args`] | flags and environment |
//! | [`run`] | the only wiring |
//! | [`command`] | what the program prints instead of running |
//! | [`watch`], [`belief`] | what is seen of Leases and ClusterServices |
//! | [`controller`] | observe, plan, apply, status |
//! | [`backend`], [`credential`] | logins on the servers of others |
//! | [`object`] | builders of what is written |
//! | [`context`], [`error`], [`metrics`], [`admin`] | what all of them share |

pub mod admin;
pub mod args;
pub mod backend;
pub mod belief;
pub mod command;
pub mod context;
pub mod controller;
pub mod credential;
pub mod error;
pub mod metrics;
pub mod object;
pub mod run;
pub mod watch;
