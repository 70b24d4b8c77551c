//! How the login of a service is made, changed and ended on a server, and how a crash is survived.
//!
//! [`step`] reads what the Secret shows and what the server shows, and names the one thing to do next.
//! It keeps nothing in mind: the phase is the Secret (C3), so whoever comes after a crash goes on where
//! the last one stopped. Creating is a rotation from nothing: a password stands in `next-*`, is set on
//! the server and tried there, and only then does one write make it the current one (C1, C2). So the
//! current login of a Secret works at every instant.
//!
//! | Part | Holds |
//! | --- | --- |
//! | [`stored`] | what the Secret shows |
//! | [`server`] | what the server shows, and what this process has tried there |
//! | [`decide`] | the decision, case by case |
//! | [`plan`] | what it can be, and by which policy |

pub mod decide;
mod judge;
pub mod plan;
pub mod server;
pub mod stored;

pub use decide::{end, step};
pub use plan::{Conflict, Deletion, Keep, Marks, Policy, Step, Waiting, Which, Why};
pub use server::{LoginState, ServerState, SharedState, Tried};
pub use stored::{Entry, Stored};

/// One of the two logins of a service on a server. They take turns, so that the one in use is never
/// changed (C2, C8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// Passwords of odd generations.
    A,
    /// Passwords of even generations.
    B,
}

impl Slot {
    /// Both.
    pub const ALL: [Self; 2] = [Self::A, Self::B];

    /// The last letter of the login's name.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }

    /// The login whose turn it is with the password of this generation; the first generation is 1.
    pub const fn of_generation(generation: u64) -> Self {
        if generation.is_multiple_of(2) {
            Self::B
        } else {
            Self::A
        }
    }

    /// The one that rests.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// The first generation of this login above another.
    pub const fn generation_above(self, generation: u64) -> u64 {
        let next = generation.saturating_add(1);
        match (self, Self::of_generation(next)) {
            (Self::A, Self::A) | (Self::B, Self::B) => next,
            _ => next.saturating_add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_take_turns_at_the_two_logins() {
        let slots: Vec<_> = (1..=4).map(Slot::of_generation).collect();
        assert_eq!(slots, [Slot::A, Slot::B, Slot::A, Slot::B]);
        assert_eq!(Slot::A.other(), Slot::B);
        assert_eq!(Slot::ALL.map(Slot::suffix), ["a", "b"]);
    }

    #[test]
    fn the_next_generation_of_a_login_is_its_own() {
        assert_eq!(Slot::A.generation_above(0), 1);
        assert_eq!(Slot::A.generation_above(1), 3);
        assert_eq!(Slot::B.generation_above(1), 2);
        assert_eq!(Slot::B.generation_above(2), 4);
    }
}
