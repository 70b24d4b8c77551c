//! From members to owners: who gets which partition, with the fewest possible moves (`minimal-moves`).
//!
//! A function of the members alone cannot move little: of one partition and the members a and b it
//! gives the partition to a, say; then a joins b, and it moves although everything was balanced. So
//! the previous owners are an input, and they keep what balance allows.
//!
//! 1. Each member's fair share of the partitions by weight, rounded down or up. Rounded
//!    up are those first that hold that much already.
//! 2. Who holds more sheds what has the least affinity to it; everything else stays.
//! 3. Homeless partitions go, in their order, where their affinity is highest among the members
//!    with room. Without a history that is rendezvous hashing with bounded capacity.
//!
//! The result is total (`planner-is-total`), deterministic, the same for every order of the members,
//! and never an error: wishes that cannot be met are reported beside it.

mod place;
mod quota;
#[cfg(test)]
mod tests;
mod wishes;

use core::fmt;

use super::layout::Partition;
use place::Draft;
use wishes::Wishes;

/// What to decide on. Members are named by their index in [`Request::members`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// Of each partition the present owner; `None`, or an index that no candidate has, for an orphan.
    pub previous: &'a [Option<usize>],
    /// Everyone who may own something.
    pub members: &'a [Candidate<'a>],
    /// What people asked for; of two that contradict each other the first counts.
    pub wishes: &'a [Wish],
    /// Of each partition where it should go if it has to move and there is room; may be shorter.
    pub prefer: &'a [Option<usize>],
    /// Nothing is taken from anyone for the sake of balance: only orphans move.
    pub only_orphans: bool,
}

/// A member that may own partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Its name; the affinity of partitions depends on nothing else.
    pub name: &'a str,
    /// Its share relative to others; 0 counts as 1.
    pub weight: u32,
    /// Its zone. Among members that are equally entitled to one partition more, the zone with the
    /// lightest load goes first; balance between members is never given up for it.
    pub zone: Option<&'a str>,
    /// It may receive partitions. Without that it keeps what it holds up to its fair share; if nobody
    /// may receive any, everyone may.
    pub takes: bool,
    /// Nothing is taken from it for the sake of balance.
    pub keeps: bool,
}

impl<'a> Candidate<'a> {
    /// A candidate of weight 1 and no zone that takes partitions.
    pub const fn new(name: &'a str) -> Self {
        Self {
            name,
            weight: 1,
            zone: None,
            takes: true,
            keeps: false,
        }
    }
}

/// What people ask for. Wishes go before balance, and balance before few moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wish {
    /// This partition belongs to this member.
    Pin {
        /// Which.
        partition: Partition,
        /// Where.
        member: usize,
    },
    /// This partition belongs to anyone but this member.
    Exclude {
        /// Which.
        partition: Partition,
        /// Where not.
        member: usize,
    },
}

/// Who should own what.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Plan {
    /// Of each partition the owner; `None` only if there is no candidate.
    pub owners: Vec<Option<usize>>,
    /// Partitions whose owner changes, orphans included.
    pub moves: u16,
    /// The least number of moves of any plan that is as balanced: equal to [`Plan::moves`], except
    /// that with exclusions it is a guess from below.
    pub least: u16,
    /// What could not be met.
    pub impossible: Vec<Impossible>,
}

/// What could not be met, and what happened instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// A wish was passed over.
    Wish {
        /// Which.
        wish: Wish,
        /// Why.
        why: Why,
    },
    /// No candidate takes partitions: all were treated as if they did.
    NobodyTakes,
}

/// Why a wish cannot be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The layout has no such partition.
    NoSuchPartition,
    /// There is no such member now.
    NoSuchMember,
    /// It is pinned by an earlier wish.
    Pinned,
    /// The member takes no partitions now.
    NotTaking,
    /// Nobody would be left.
    NobodyLeft,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchPartition => "the layout has no such partition",
            Self::NoSuchMember => "there is no such member now",
            Self::Pinned => "an earlier wish pins the partition",
            Self::NotTaking => "the member takes no partitions now",
            Self::NobodyLeft => "nobody would be left for the partition",
        })
    }
}

/// Decides who owns what.
pub fn assign(request: &Request<'_>) -> Plan {
    let wishes = Wishes::read(request);
    let mut draft = Draft::new(request, &wishes);
    let least = draft.least();
    draft.shed();
    draft.place();
    let owners = draft.into_owners();
    let moves = owners
        .iter()
        .zip(request.previous)
        .filter(|(owner, previous)| owner.is_some() && owner != previous)
        .count();
    // What exclusions keep from being balanced does not move either.
    let least = if wishes.exclude() {
        least.min(moves)
    } else {
        least
    };
    Plan {
        owners,
        moves: number(moves),
        least: number(least),
        impossible: wishes.into_impossible(),
    }
}

fn number(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}
