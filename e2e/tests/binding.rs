//! Clients that go over to the next login while they are used: a pool and a connection of the
//! library on real servers, and a folder that changes as the kubelet changes it. No control plane is
//! needed.

#![allow(clippy::unwrap_used, clippy::panic)] // a test reports by panicking

#[path = "binding/in_postgres.rs"]
mod in_postgres;
#[path = "binding/in_redis.rs"]
mod in_redis;
#[path = "binding/load.rs"]
mod load;
