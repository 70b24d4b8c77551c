//! The programs behind `make demo`, `make up` and `make down`.

pub mod demo;
mod leader;
mod narrator;
mod stage;
mod state;
pub mod up;

pub use state::state_folder;
