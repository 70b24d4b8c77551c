//! Leases: what is stored, when we saw it, and how long anyone may trust it.
//!
//! A lease is an exclusive right that lapses unless renewed. The store never expires it: expiry is
//! what everyone concludes from their own clock. So the module keeps three things apart:
//! [`record`] (what the store holds), [`observation`] (what we saw of it, and when, by our clock)
//! and [`timing`] (the arithmetic that makes a leader stop before others may start).

pub mod observation;
pub mod record;
pub mod timing;

pub use observation::{Observation, Vacancy, Vacant};
pub use record::{AttemptStamp, Contents, LeaseRecord, ReleaseStamp, Versioned};
pub use timing::{InvalidTiming, LeaseTiming};
