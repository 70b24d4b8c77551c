//! How the login of a service is made, changed and ended on a server, and how a crash is survived.

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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_take_turns_at_the_two_logins() {
        let slots: Vec<_> = (1..=4).map(Slot::of_generation).collect();
        assert_eq!(slots, [Slot::A, Slot::B, Slot::A, Slot::B]);
        assert_eq!(Slot::A.other().other(), Slot::A);
    }
}
