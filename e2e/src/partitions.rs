//! Partitions under observation: pods that write under their keys into guarded
//! stores, the tables as the API server showed them, and the judgement on both.
//!
//! ```text
//!   pods ──▶ history ───────┐
//!     └────▶ stores ────────┼──▶ run ──▶ tenures, gaps, moves, violations
//!   API server ──▶ tables ──┘
//! ```
//!
//! What judges knows the guarantees and the public formats only: it hashes keys
//! and counts moves by code of its own.

pub mod check;
pub mod crew;
pub mod follow;
pub mod keys;
pub mod ledger;
pub mod moves;
pub mod stores;
pub mod tables;
pub mod tenures;
