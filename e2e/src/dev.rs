//! The programs behind `make demo`, `make demo-partitions`, `make demo-credentials`, `make up` and `make down`.

pub mod credentials;
pub mod demo;
mod leader;
mod narrator;
pub mod partitions;
mod stage;
mod state;
pub mod up;

pub use state::state_folder;
