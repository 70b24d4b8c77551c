//! Pure builders of the objects that the operator makes, one kind per file.

pub mod credential_event;
pub mod event;
pub mod partition_event;
pub mod settings_lease;
