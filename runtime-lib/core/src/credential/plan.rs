//! What a rotation can need next, and by which rules it is decided.

use super::Slot;
use crate::time::{Duration, WallTime};

/// What is wanted for the login of a service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// A new password after this long; never by itself if none.
    pub interval: Option<Duration>,
    /// How long a former login is kept at least.
    pub grace: Duration,
    /// How long a former login is kept at most, whoever uses it. Not below `grace`: that is then it.
    pub max_grace: Duration,
    /// The server keeps the generation of each login, and refuses an older one, and a second password
    /// of the same one (C5). Redis does not.
    pub counts: bool,
    /// Behind a pooler: open sessions prove nothing, the former login stays for `max_grace` (C6).
    pub pooled: bool,
    /// Any other text than the last one asks for a new password.
    pub trigger: Option<String>,
    /// The service is being deleted.
    pub deletion: Option<Deletion>,
}

/// What becomes of a login when its service is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deletion {
    /// Everything stays; the server is not needed.
    Retain,
    /// Everything goes, the server first: its Secret is the evidence that something is left.
    Delete {
        /// No other service shares the cluster id (C4).
        with_shared: bool,
    },
    /// The Secret goes, the server is given up: the way out when it is gone for good.
    Abandon,
}

/// The next thing to do. Each is one effect, except that [`Step::Provision`] may take several
/// statements; whatever the outcome, look again and ask for the next one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Make a password, and write it into the `next-*` keys, creating the Secret if need be. The
    /// current login stays as it is. Replaces what stood there, and notes the trigger as handled.
    WriteNext {
        /// Its generation.
        generation: u64,
        /// What `previous-*` becomes.
        previous: Keep,
        /// For logs and Events.
        why: Why,
    },
    /// Make or mend the shared part.
    Provision,
    /// Give a login the verifier that stands in the Secret.
    SetLogin {
        /// Whose.
        which: Which,
        /// For the server to compare (C5); also names the login.
        generation: u64,
    },
    /// Log in as clients do, and tell [`Tried`](super::Tried) what came of it.
    Verify {
        /// With whose password.
        which: Which,
        /// As whom.
        slot: Slot,
    },
    /// One write: next becomes current, and `rotated-at` now (C2). `previous-since` goes: a process
    /// that sleeps in front of this write would date it too early. [`Step::Annotate`] dates it, once
    /// the turn was seen.
    Turn {
        /// Of the password that becomes the current one.
        generation: u64,
        /// What `previous-*` becomes.
        previous: Keep,
    },
    /// Write the annotations that are missing, were edited, or lie ahead of all clocks.
    Annotate(Marks),
    /// A login is alive of which the Secret says nothing: it becomes `previous`, without a password,
    /// and ends like any other. What `next-*` or `previous-*` said about that login goes, and so does
    /// `previous-since`, as in [`Step::Turn`].
    KeepStray {
        /// Its generation; also names the login.
        generation: u64,
    },
    /// End the former login on the server, and its sessions.
    EndPrevious {
        /// Which.
        slot: Slot,
        /// A later one than this is not ended (C5).
        generation: u64,
    },
    /// Remove the `previous-*` keys.
    ForgetPrevious,
    /// The former login is still needed. Nothing else is to be done.
    Wait {
        /// For what.
        waiting: Waiting,
        /// When to look again.
        look_again: WallTime,
        /// A new password is due, and has to wait as well.
        queued: Option<Why>,
    },
    /// Nothing is to be done.
    Settled {
        /// When to look again, if time alone changes anything.
        look_again: Option<WallTime>,
    },
    /// Something on the server is not ours; it is left alone, and nothing goes on until it is gone.
    Conflict(Conflict),
    /// End both logins on the server, and the shared part if asked to.
    Remove {
        /// Nobody else needs it.
        with_shared: bool,
    },
    /// Delete the Secret.
    DeleteSecret,
    /// Nothing of the service needs us any more: the finalizer goes.
    Release,
}

/// One of the entries of a Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Which {
    /// The keys that clients read.
    Current,
    /// `next-*`.
    Next,
    /// `previous-*`.
    Previous,
}

/// What the `previous-*` keys become with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keep {
    /// They are removed.
    Nothing,
    /// They stay.
    AsItIs,
    /// They name a login that is alive, and whose password is not known; `previous-since` goes.
    Bare {
        /// Its generation; also names the login.
        generation: u64,
    },
    /// They are what was current so far.
    Current,
}

/// Why a new password is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// There was none, neither in a Secret nor on the server.
    Created,
    /// There was no Secret for the login on the server: somebody deleted or emptied it.
    Lost,
    /// Somebody edited the password in the Secret, or it was put back from long ago.
    Overwritten,
    /// The staged password cannot be used.
    Superseded,
    /// The interval has passed.
    Interval,
    /// The trigger has changed.
    Trigger,
}

/// What the annotations should say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Marks {
    /// Of the current password.
    pub generation: u64,
    /// Generation of the former login, and from when on its grace counts.
    pub previous: Option<(u64, WallTime)>,
    /// When the current password became current.
    pub rotated_at: WallTime,
    /// The trigger that was handled.
    pub trigger: Option<String>,
}

/// For what a former login is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Waiting {
    /// The grace period.
    Grace {
        /// Its end.
        until: WallTime,
    },
    /// Sessions that are still open under it.
    Sessions {
        /// How many.
        open: u64,
        /// Then it ends anyway.
        until: WallTime,
    },
    /// Nobody can see the clients behind the pooler (C6).
    Pooled {
        /// Their connections must not live longer.
        until: WallTime,
    },
}

/// What is in the way on the server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Conflict {
    /// Something of the shared part.
    Shared {
        /// What, and who owns it.
        what: String,
    },
    /// A login.
    Login {
        /// Which.
        slot: Slot,
        /// Who owns it.
        owner: String,
    },
}
