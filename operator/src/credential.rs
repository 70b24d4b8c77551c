//! Credentials of a service: its names on a server, its Secret, and how they are made.

pub mod names;
pub mod reports;
pub mod secret;
