//! What a server shows of a service, and what this process has tried there.

use super::Slot;

/// A server. The default is one that has nothing of the service.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ServerState {
    /// What all logins of a cluster id have in common (C4).
    pub shared: SharedState,
    /// LoginState A, login B.
    pub logins: [LoginState; 2],
}

/// The shared part.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum SharedState {
    /// It lacks something, or differs.
    #[default]
    Drifted,
    /// As wanted.
    InShape,
    /// Something of a needed name is not ours: what, and who owns it.
    Foreign(String),
}

/// One login.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum LoginState {
    /// There is none.
    #[default]
    Absent,
    /// One of that name is not ours; who owns it.
    Foreign(String),
    /// Ours.
    Ours {
        /// Of its password; Redis, which keeps none, says 1 for A and 2 for B.
        generation: u64,
        /// Of the verifier that it was given.
        fingerprint: String,
        /// Attributes and grants are as wanted.
        is_in_shape: bool,
        /// Open sessions.
        sessions: u64,
    },
}

impl ServerState {
    /// One of its logins.
    pub const fn login(&self, slot: Slot) -> &LoginState {
        match slot {
            Slot::A => &self.logins[0],
            Slot::B => &self.logins[1],
        }
    }
}

/// What one process has tried on the server. It is lost in a crash, and tried again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Tried {
    /// Fingerprint with which a login was last tried, and whether it was let in.
    logins: [Option<(String, bool)>; 2],
    removed: bool,
}

impl Tried {
    /// A password was tried by logging in as its clients do.
    pub fn logged_in(&mut self, slot: Slot, fingerprint: &str, was_let_in: bool) {
        self.logins[index(slot)] = Some((fingerprint.to_owned(), was_let_in));
    }

    /// A login was set or ended: what was tried before says nothing any more.
    pub fn changed(&mut self, slot: Slot) {
        self.logins[index(slot)] = None;
    }

    /// All that the service had on the server is gone.
    pub fn removed(&mut self) {
        self.removed = true;
    }

    /// Was it let in with this password? None if it was not tried.
    pub(super) fn was_let_in(&self, slot: Slot, fingerprint: &str) -> Option<bool> {
        let (of, was_let_in) = self.logins[index(slot)].as_ref()?;
        (of == fingerprint).then_some(*was_let_in)
    }

    pub(super) const fn is_removed(&self) -> bool {
        self.removed
    }
}

const fn index(slot: Slot) -> usize {
    match slot {
        Slot::A => 0,
        Slot::B => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_tried_counts_for_one_password_until_its_login_changes() {
        let mut tried = Tried::default();
        tried.logged_in(Slot::A, "f1", true);
        assert_eq!(tried.was_let_in(Slot::A, "f1"), Some(true));
        assert_eq!(tried.was_let_in(Slot::A, "f2"), None);
        assert_eq!(tried.was_let_in(Slot::B, "f1"), None);
        tried.changed(Slot::B);
        assert_eq!(tried.was_let_in(Slot::A, "f1"), Some(true));
        tried.changed(Slot::A);
        assert_eq!(tried.was_let_in(Slot::A, "f1"), None);
    }
}
