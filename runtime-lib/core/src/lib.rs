//! The deciding code of Leasehold.
//!
//! Every module here is a pure machine: (state, input, now) → (state, effects).
//! This crate reads no clock, draws no random number, awaits nothing and knows no store
//! (`core-is-deaf`): its manifest and its `clippy.toml` are the proof.
//! The shells in `leasehold` run the effects; tests run the same machines in simulation.
//!
//! | Module | Decides |
//! | --- | --- |
//! | [`election`] | who leads, from when, until when |
//! | [`lease`] | what a Lease record means, and how long anyone may trust it |
//! | [`partition`] | which member owns which partition, and when it may start |
//! | [`fence`] | which guarded writes a store refuses |
//! | [`credential`] | which login of a service is made, turned to or ended next |
//! | [`id`], [`time`], [`backoff`], [`rules`] | the values the machines speak in |

pub mod backoff;
pub mod credential;
pub mod election;
pub mod fence;
pub mod id;
pub mod lease;
pub mod partition;
pub mod rules;
pub mod time;
