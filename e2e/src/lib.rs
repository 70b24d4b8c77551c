//! The cluster harness: a real control plane without containers, a node that
//! runs pods as local processes, and what tests, demo, chaos and benchmarks
//! share on top of them. `e2e/README.md` has the API in ten lines.

pub mod audit;
pub mod bench;
pub mod chaos;
pub mod check;
pub mod cluster;
pub mod control_plane;
pub mod dev;
pub mod error;
pub mod history;
pub mod kubectl;
pub mod ledger;
pub mod logins;
pub mod needle;
pub mod node;
pub mod partitions;
pub mod process;
pub mod programs;
pub mod proxy;
pub mod servers;
pub mod wait;
pub mod workload;

pub use cluster::{Cluster, TestNamespace};
pub use control_plane::{Component, ControlPlane};
pub use error::{Error, Result, Step};
pub use node::ProcessNode;
