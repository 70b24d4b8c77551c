//! Partitions: every partition of a cluster id with exactly one owner.
//!
//! ```text
//!   key ──hash──▶ partition ──table──▶ member (pod and incarnation)
//!
//!   member Leases ──▶ ┌─────────┐ publish (compare-and-set) ┌───────┐      ┌─────────┐ start, drain
//!   (leader watches)  │ planner │ ────────────────────────▶ │ table │ ───▶ │ handoff │ ─────────────▶ work
//!                     └─────────┘ fence (compare-and-set)   └───────┘      └─────────┘
//!                          ▲                                                   │ acknowledged epoch,
//!                          └──────────────── member Lease ◀────────────────────┘ owned bitmap
//! ```
//!
//! - The **planner** of the elected leader is authoritative for the table, by compare-and-set (H2).
//! - Each member's **handoff** machine is authoritative for what runs on it, and says so in its own
//!   member Lease; nobody else may say it (H3).
//! - A partition's next owner starts when every earlier one is released, not when it is told to.
//! - Without a leader, owners go on.

pub mod assign;
pub mod check;
pub mod handoff;
pub mod hash;
pub mod layout;
pub mod listing;
pub mod member;
pub mod planner;
pub mod shard;
pub mod table;

pub use assign::{Candidate, Plan, Request, Wish, assign};
pub use check::{Violation, check_plan};
pub use handoff::{Handoff, Slot};
pub use hash::shard_ranges;
pub use layout::{HashId, InvalidLayout, Layout, PARTITIONS_MAX, Partition};
pub use listing::Listing;
pub use member::{Bitmap, Member, MemberRecord, MemberState};
pub use planner::Planner;
pub use shard::{NoSelector, Shard};
pub use table::{Part, Rebalance, Table};
