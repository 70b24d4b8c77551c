//! Credentials of a service: its names on a server, its Secret, and how they are made.
//!
//! | Module | Is |
//! | --- | --- |
//! | [`servers`] | the one registry of servers, by class: who may use which, and with what admin credential |
//! | [`admin`] | the Secrets that a class names |
//! | [`permission`], [`tenants`] | which namespaces a class allows, and what namespaces are |
//! | [`names`], [`installation`] | names on a server, and what they begin from |
//! | [`secret`], [`reports`] | what the Secret of a login holds, and what status says of it |
//! | [`state`] | what the controller keeps in mind between passes |

pub mod admin;
pub mod installation;
pub mod names;
pub mod permission;
pub mod reports;
pub mod secret;
pub mod servers;
pub mod state;
pub mod tenants;
