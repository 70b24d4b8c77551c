//! API types of Leasehold: one place for kinds, names and keys that operator, runtime and tests share.
//!
//! No client and no decisions live here. The CRD YAML beside this crate's manifest is generated from
//! these types (`cargo xtask crds`).

pub mod keys;
pub mod names;
pub mod settings;

pub use names::{ClusterId, InvalidClusterId};
pub use settings::Settings;
