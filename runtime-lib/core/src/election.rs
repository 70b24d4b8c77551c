//! Election of one leader for one lease key.
//!
//! ```text
//!               vacancy reached, claim stored
//!   ┌───────────┐ ─────────────────────────────▶ ┌────────┐   StepDown / Shutdown   ┌──────────┐
//!   │ Candidate │                                │ Leader │ ──────────────────────▶ │ Draining │
//!   └───────────┘ ◀──────┐                       └────────┘                         └──────────┘
//!         │              │ work ended                 │ trust expired, foreign holder,  │ work ended:
//!         │ Shutdown     │ (released, if it           │ emptied, deleted, unhealthy     │ End, release
//!         ▼              │  still is ours)            ▼                                 │
//!   ┌───────────┐        └───────────────────── ┌────────┐ ◀────────────────────────────┘
//!   │  Stopped  │ ◀──────────────────────────── │ Ending │     or the drain overran: End, no release
//!   └───────────┘     after a Shutdown          └────────┘
//! ```
//!
//! - A leader is **authoritative** only for what its own successful writes say, counted from their
//!   send (E2). A candidate is authoritative for nothing; it waits on its own clock (E3).
//! - Draining is leading: renewals go on (E10). Ending is not: the guard is invalid already, and
//!   the machine only waits for the work's end before it releases or campaigns again
//!   (`release-after-drain`, lost and regained is two terms: E6).
//! - At most one request is under way, so a release can never race a renewal of the same process.
//!
//! | Failure | What happens |
//! | --- | --- |
//! | store down while leading | retries every A/4 after each attempt; ends at `trusted_until` |
//! | store down while waiting | retries with back-off up to the heartbeat; never gives up |
//! | answer to a claim lost | reads; if the record carries the attempt's stamp it leads, with trust from that send |
//! | answer to a renewal lost | renews again on the same revision; a conflict leads to the read above |
//! | process paused or suspended | the first step after waking ends the term (E9) |
//! | record deleted, emptied, overwritten | the term ends at once; candidates that saw it held wait its duration |
//! | watch dead | the wait ends in a conflict, which reads and restarts it; never two leaders |

pub mod check;
mod effect;
mod input;
mod machine;
pub mod observer;

pub use effect::{Effect, EndReason, Notice, Purpose, Target, Write};
pub use input::{Input, WriteOutcome};
pub use machine::{Config, Election, View, Waiting};
