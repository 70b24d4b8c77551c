//! The decision: serve first, then go on with what was begun, then clean up, then begin anew.
//!
//! | Found | Done |
//! | --- | --- |
//! | no Secret, nothing on the server | a new password from generation 1 |
//! | no Secret, or an emptied one, and logins on the server | a new password in the slot of the older login; the newer one stays as `previous`, so that those who know its password go on through the grace |
//! | password or verifier edited, Secret put back from long ago | the same at once, also during a grace, which the older login then loses |
//! | annotations lost, edited, or dated beyond now | written anew; a grace then counts from now |
//! | current login dropped, out of shape, older than the Secret | set again with the same verifier (C6) |
//! | staged password that the server refuses for good (C5) | another one, of a later generation |
//! | former login dropped during its grace | set again if its password is known, else forgotten |
//! | former login dropped after its grace | forgotten |
//! | login that the Secret does not know | kept as `previous` without a password, for one grace |
//! | Redis: another password than the Secret's | the Secret's is set: a server that was restarted with older users, or a new replica, looks the same as one that was edited |
//! | login or shared part that is not ours | left alone, and said; what works goes on working |
//! | a new password is due while a former login lives | waits, and is said |
//! | a clock that was set back | times beyond now become now |
//!
//! Not decided here: derived keys of the Secret, which are compared with what they should be and
//! written back; a Secret that is not ours; a server that cannot be reached, of which there is no
//! [`ServerState`] to decide about.

mod former;
mod spare;

use self::former::Former;
use super::Slot;
use super::judge::{Judged, Standing};
use super::plan::{Conflict, Deletion, Policy, Step, Which, Why};
use super::server::{LoginState, ServerState, SharedState, Tried};
use super::stored::Stored;
use crate::time::{Duration, WallTime};

/// Clocks of two machines may differ by this much; a time further ahead is a mistake.
pub const SKEW: Duration = Duration::from_mins(5);
/// How often open sessions of a former login are counted, once nothing else keeps it.
pub const COUNT_EVERY: Duration = Duration::from_secs(10);

/// The next thing to do for a service whose server answers.
pub fn step(
    stored: &Stored,
    server: &ServerState,
    policy: &Policy,
    tried: &Tried,
    now: WallTime,
) -> Step {
    if let Some(deletion) = policy.deletion {
        return end(stored, deletion, tried);
    }
    let judged = |entry| Judged::new(entry, stored, server, policy.counts);
    let view = View {
        stored,
        server,
        policy,
        tried,
        now,
        current: stored.current.as_ref().map(judged),
        next: stored.next.as_ref().map(judged),
        previous: stored.previous.as_ref().map(judged),
    };
    view.step()
}

/// The next thing to do for a service that is being deleted. It needs nothing of the server but the
/// answer to [`Step::Remove`], which is repeated until it succeeded: after a crash once more.
pub fn end(stored: &Stored, deletion: Deletion, tried: &Tried) -> Step {
    match deletion {
        Deletion::Delete { with_shared } if !tried.is_removed() => Step::Remove { with_shared },
        Deletion::Delete { .. } | Deletion::Abandon if stored.exists => Step::DeleteSecret,
        Deletion::Delete { .. } | Deletion::Abandon | Deletion::Retain => Step::Release,
    }
}

struct View<'a> {
    stored: &'a Stored,
    server: &'a ServerState,
    policy: &'a Policy,
    tried: &'a Tried,
    now: WallTime,
    current: Option<Judged<'a>>,
    next: Option<Judged<'a>>,
    previous: Option<Judged<'a>>,
}

impl View<'_> {
    fn step(&self) -> Step {
        if let SharedState::Foreign(what) = &self.server.shared {
            return Step::Conflict(Conflict::Shared { what: what.clone() });
        }
        if let Some(generation) = self.later_than_staged() {
            return Step::KeepStray { generation };
        }
        if let Some(why) = self.has_no_password() {
            return self.begin(why); // the Secret before the server (C1)
        }
        if self.server.shared == SharedState::Drifted {
            return Step::Provision;
        }
        match self.current {
            Some(current) if current.standing == Standing::Foreign => {
                self.conflict(current.entry.slot)
            }
            Some(current) if current.is_sound() && self.must_be_set(&current) => {
                set(Which::Current, &current)
            }
            _ => match self.next {
                Some(next) => self.go_on(&next),
                None => self.rest(),
            },
        }
    }

    /// Is a new password needed before anything else can be done?
    fn has_no_password(&self) -> Option<Why> {
        match (self.current, self.next) {
            (None, None) => Some(self.why_without_secret()),
            (Some(current), None) => {
                (current.standing == Standing::Dead).then_some(Why::Overwritten)
            }
            (current, Some(next)) => {
                // Setting it would change the login that clients use.
                let collides = current.is_some_and(|current| {
                    current.is_sound() && current.entry.slot == next.entry.slot
                });
                (collides || next.standing == Standing::Dead).then_some(Why::Superseded)
            }
        }
    }

    fn why_without_secret(&self) -> Why {
        let none = |login: &LoginState| !matches!(login, LoginState::Ours { .. });
        if !self.stored.exists && self.server.logins.iter().all(none) {
            return Why::Created;
        }
        Why::Lost
    }

    fn go_on(&self, next: &Judged<'_>) -> Step {
        let slot = next.entry.slot;
        match (next.standing, next.generation) {
            (Standing::Foreign, _) | (_, None) => self.conflict(slot),
            _ if self.must_be_set(next) => set(Which::Next, next),
            _ if !self.has_logged_in(next) => Step::Verify {
                which: Which::Next,
                slot,
            },
            (_, Some(generation)) => Step::Turn {
                generation,
                previous: self.kept_in_the_turn(slot),
            },
        }
    }

    /// Nothing is staged, and the current login is on the server.
    fn rest(&self) -> Step {
        let Some(current) = self.current else {
            return self.begin(Why::Lost);
        };
        if !self.has_logged_in(&current) {
            let (which, slot) = (Which::Current, current.entry.slot);
            return Step::Verify { which, slot };
        }
        if let Some(marks) = self.marks(&current) {
            return Step::Annotate(marks);
        }
        let due = self.due();
        match self.former(current.entry.slot) {
            Former::Needs(step) => step,
            Former::Waits(waiting, look_again) => Step::Wait {
                waiting,
                look_again,
                queued: due,
            },
            Former::Gone => match due {
                Some(why) => self.begin(why),
                None => self.settled(),
            },
        }
    }

    fn settled(&self) -> Step {
        for slot in Slot::ALL {
            if let LoginState::Foreign(_) = self.server.login(slot) {
                return self.conflict(slot);
            }
        }
        let at = self.stored.rotated_at;
        let look_again = self
            .policy
            .interval
            .zip(at)
            .map(|(interval, at)| at.after(interval));
        Step::Settled { look_again }
    }

    fn due(&self) -> Option<Why> {
        let asked = self.policy.trigger.is_some() && self.policy.trigger != self.stored.trigger;
        let passed = self.policy.interval.zip(self.stored.rotated_at);
        match passed {
            _ if asked => Some(Why::Trigger),
            Some((interval, at)) if self.now >= at.after(interval) => Some(Why::Interval),
            _ => None,
        }
    }

    fn must_be_set(&self, judged: &Judged<'_>) -> bool {
        judged.standing == Standing::Unset || self.was_let_in(judged) == Some(false)
    }

    fn has_logged_in(&self, judged: &Judged<'_>) -> bool {
        self.was_let_in(judged) == Some(true)
    }

    fn was_let_in(&self, judged: &Judged<'_>) -> Option<bool> {
        let fingerprint = judged.entry.fingerprint.as_ref()?;
        self.tried.was_let_in(judged.entry.slot, fingerprint)
    }

    fn is_alive(&self, slot: Slot) -> bool {
        matches!(self.server.login(slot), LoginState::Ours { .. })
    }

    fn conflict(&self, slot: Slot) -> Step {
        let owner = match self.server.login(slot) {
            LoginState::Foreign(owner) => owner.clone(),
            LoginState::Absent | LoginState::Ours { .. } => String::new(),
        };
        Step::Conflict(Conflict::Login { slot, owner })
    }
}

/// Sets a login to what stands in the Secret. A sound entry has a generation.
fn set(which: Which, judged: &Judged<'_>) -> Step {
    let first = judged.entry.slot.generation_above(0);
    Step::SetLogin {
        which,
        generation: judged.generation.unwrap_or(first),
    }
}
