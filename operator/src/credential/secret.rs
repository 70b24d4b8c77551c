//! The Secret of a service: what the machine of the core reads in it, and what its steps make of it.
//!
//! Everything here is pure; who asks the API server holds a [`SecretObject`], whose Debug shows no
//! data, and replaces the version that it has read (C3).
//!
//! | Part | Does |
//! | --- | --- |
//! | [`object`] | the Kubernetes object, wrapped as it arrives |
//! | [`owner`] | whose it is (C7) |
//! | [`binding`] | for whom it is made, and the keys that follow from that |
//! | [`mod@password`] | passwords and their verifiers |
//! | [`mod@read`] | from the object to [`Stored`](leasehold_core::credential::Stored) |
//! | [`mod@write`] | from a [`Step`](leasehold_core::credential::Step) to the object |

pub mod binding;
pub mod object;
pub mod owner;
pub mod password;
pub mod read;
#[cfg(test)]
mod tests;
pub mod write;

pub use binding::{Binding, Endpoint};
pub use object::SecretObject;
pub use owner::{Whose, whose};
pub use password::Made;
pub use read::{password, stored, verifier};
pub use write::{repaired, write};
