//! Tables of planning: what happens, and what is published. A control beside each rule shows that
//! the same story ends badly without it.

mod layouts;
mod losses;
mod membership;
mod pace;
mod publishing;
mod stage;

use super::*;
use crate::election::WriteOutcome;
use crate::id::{Revision, Term};
use crate::lease::Contents;
use crate::partition::{Bitmap, HashId, MemberRecord, Partition};
#[cfg(feature = "controls")]
use crate::rules::Rule;
use crate::rules::Rules;
use crate::time::Duration;
use stage::{Stage, epoch, p, secs};
