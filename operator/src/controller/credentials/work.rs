//! Asks the machine for the next step and does it, until nothing is to be done now. Keeps nothing: after
//! a crash between any two steps the next pass goes on from what Secret and server show (C3).

use std::time::Duration;

use leasehold_core::{
    credential::{Conflict, Slot, Step, Tried, Waiting, Which, Why, step},
    time::WallTime,
};
use leasehold_crds::ClusterService;

use super::{
    account::Account,
    planned::{planned, repairs},
    say::Trouble,
    secret,
};
use crate::{
    backend::BackendError,
    belief::key,
    context::Context,
    credential::{
        secret::{Made, SecretObject, password, repaired, stored, verifier, write},
        state::Whom,
    },
    object::credential_event::News,
};

/// No path from anything to rest is longer; a longer one would be a circle.
const STEPS_MAX: usize = 40;

/// Nothing is to be done now.
#[derive(Debug)]
pub struct Rest {
    /// Name of the Secret.
    pub secret_name: String,
    /// Where the login was tried, for people.
    pub server: String,
    /// The login in force.
    pub username: String,
    /// Its password.
    pub generation: u64,
    /// Since when.
    pub rotated_at: Option<WallTime>,
    /// Why a former login still lives.
    pub waiting: Option<(Waiting, Slot)>,
    /// The name of that login.
    pub former: Option<String>,
    /// A new password has to wait for that.
    pub queued: Option<Why>,
    /// What would be done if it were not forbidden, and why it is.
    pub planned: Option<Planned>,
    /// When to look again.
    pub look_again: Option<Duration>,
}

/// What is said instead of done.
#[derive(Debug)]
pub struct Planned {
    /// Why nothing is changed.
    pub because: String,
    /// What would be done next; none if all is as it should be.
    pub next: Option<String>,
    /// The login in force works all the same, as far as is known.
    pub works: bool,
}

/// Works until nothing is to be done.
pub async fn settle(
    service: &ClusterService,
    context: &Context,
    account: &Account,
) -> Result<Rest, Trouble> {
    let whom = Whom::new(service, account.kind);
    let mut tried = context.credentials.tried(&whom);
    let worked = Work {
        service,
        context,
        account,
        refused: None,
    };
    let result = worked.run(&mut tried).await;
    context.credentials.remember_tried(whom, tried);
    if result.is_ok() {
        let names = account.survey_names();
        context
            .credentials
            .rests(&account.class, &key(service), names);
    }
    result
}

struct Work<'a> {
    service: &'a ClusterService,
    context: &'a Context,
    account: &'a Account,
    /// A login that the server refused in this pass.
    refused: Option<BackendError>,
}

impl Work<'_> {
    async fn run(mut self, tried: &mut Tried) -> Result<Rest, Trouble> {
        let (context, account) = (self.context, self.account);
        let mut secret = secret::read(self.service, context, account).await?;
        let mut server = account.look().await?;
        for _ in 0..STEPS_MAX {
            let shown = stored(secret.as_ref(), &account.binding);
            let now = now();
            let step = step(&shown, &server, &account.policy, tried, now);
            tracing::debug!(
                namespace = account.binding.names.namespace,
                service = account.binding.names.service,
                ?step,
                "the next step"
            );
            if account.plans_only.is_some()
                && let Some(next) = planned(&step, account)
            {
                return Ok(self.rest(&shown, &step, Some(next), now));
            }
            match &step {
                Step::WriteNext { .. }
                | Step::Turn { .. }
                | Step::Annotate(_)
                | Step::KeepStray { .. }
                | Step::ForgetPrevious => {
                    let is_first = shown.current.is_none();
                    secret = Some(self.write(secret, &step, is_first, now).await?);
                }
                Step::Provision => {
                    self.begins_to_change()?;
                    let provisioned = account.provision().await;
                    context.credentials.effects.done();
                    provisioned?;
                    server = account.look().await?;
                }
                Step::SetLogin { which, generation } => {
                    let verifier = secret.as_ref().and_then(|it| verifier(it, *which));
                    let verifier = verifier.ok_or(Trouble::Restless)?;
                    self.begins_to_change()?;
                    tried.changed(Slot::of_generation(*generation));
                    let outcome = account.set_login(*generation, &verifier).await;
                    context.credentials.effects.done();
                    match outcome {
                        // Whoever was faster is seen by the next look (C5).
                        Ok(()) | Err(BackendError::Newer { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                    self.set(*which, *generation);
                    server = account.look().await?;
                }
                Step::Verify { which, slot } => {
                    let fingerprint = shown_fingerprint(&shown, *which);
                    let was_let_in = self.verify(secret.as_ref(), *which, *slot).await?;
                    tried.logged_in(*slot, &fingerprint.ok_or(Trouble::Restless)?, was_let_in);
                }
                Step::EndPrevious { slot, generation } => {
                    self.begins_to_change()?;
                    tried.changed(*slot);
                    let outcome = account.end_previous(*slot, *generation).await;
                    context.credentials.effects.done();
                    match outcome {
                        Ok(()) | Err(BackendError::Newer { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                    server = account.look().await?;
                }
                Step::Wait { .. } | Step::Settled { .. } => {
                    let current = shown.current.as_ref().map(|it| it.slot);
                    let old = secret.as_ref().ok_or(Trouble::Restless)?;
                    let next = match repaired(old, current, &account.binding) {
                        Some(_) if account.plans_only.is_some() => Some(repairs(account)),
                        Some(mended) => {
                            secret = Some(secret::write(context, account, false, &mended).await?);
                            continue;
                        }
                        None => None,
                    };
                    return Ok(self.rest(&shown, &step, next, now));
                }
                Step::Conflict(conflict) => return Err(self.conflict(conflict)),
                // Of a deletion alone.
                Step::Remove { .. } | Step::DeleteSecret | Step::Release => {
                    return Err(Trouble::Restless);
                }
            }
        }
        Err(self.refused.map_or(Trouble::Restless, Trouble::Backend))
    }

    /// Asked right before every change on the server: whoever lost the leadership changes nothing more.
    fn begins_to_change(&self) -> Result<(), Trouble> {
        self.context.gate.check()?;
        let key = key(self.service);
        self.context.credentials.moves(&self.account.class, &key);
        Ok(())
    }

    async fn write(
        &self,
        old: Option<SecretObject>,
        step: &Step,
        is_first: bool,
        now: WallTime,
    ) -> Result<SecretObject, Trouble> {
        let made = match step {
            Step::WriteNext { .. } => {
                Some(Made::new(self.account.kind).map_err(|_| Trouble::NoRandom)?)
            }
            _ => None,
        };
        let trigger = self.account.policy.trigger.as_deref();
        let new = write(
            old.as_ref(),
            step,
            made.as_ref(),
            &self.account.binding,
            trigger,
            now,
        );
        let new = new.ok_or(Trouble::Restless)?;
        let written = secret::write(self.context, self.account, old.is_none(), &new).await?;
        self.announce(step, is_first).await;
        Ok(written)
    }

    /// Whether the server lets the password in; whatever else goes wrong is trouble.
    async fn verify(
        &mut self,
        secret: Option<&SecretObject>,
        which: Which,
        slot: Slot,
    ) -> Result<bool, Trouble> {
        let password = secret.and_then(|it| password(it, which));
        let password = password.ok_or(Trouble::Restless)?;
        self.context.gate.check()?;
        match self.account.verify(slot, &password).await {
            Ok(()) => Ok(true),
            Err(error @ BackendError::LoginRefused { .. }) => match self.refused.replace(error) {
                // It was set again since, and does not help.
                Some(again) => Err(again.into()),
                None => Ok(false),
            },
            Err(error) => Err(error.into()),
        }
    }

    fn set(&self, which: Which, generation: u64) {
        let (names, which) = (&self.account.binding.names, format!("{which:?}"));
        tracing::info!(
            key = "credentials.set",
            namespace = names.namespace,
            cluster_service = names.service,
            login = names.login(Slot::of_generation(generation)),
            generation,
            which,
            "a login was set on the server"
        );
    }

    async fn announce(&self, step: &Step, is_first: bool) {
        let names = &self.account.binding.names;
        let secret = self.account.binding.secret_name();
        let (generation, reason, is_warning, note) = match step {
            Step::Turn { generation, .. } => {
                let login = names.login(Slot::of_generation(*generation));
                let (reason, what) = if is_first {
                    ("CredentialCreated", "a login")
                } else {
                    ("CredentialRotated", "a new login")
                };
                let note =
                    format!("Secret {secret} has {what}, with password {generation}: {login}.");
                (*generation, reason, false, note)
            }
            Step::WriteNext {
                generation,
                why: Why::Overwritten,
                ..
            } => {
                let note = format!(
                    "The login in Secret {secret} was changed by somebody else; a new password, number \
                     {generation}, replaces it."
                );
                (*generation, "SecretOverwritten", true, note)
            }
            Step::WriteNext {
                generation,
                why: Why::Lost,
                ..
            } => {
                let note = format!(
                    "Secret {secret} was deleted or emptied by somebody else; a new password, number \
                     {generation}, is made."
                );
                (*generation, "SecretLost", true, note)
            }
            _ => return,
        };
        let news = News {
            kind: self.account.kind,
            generation,
            reason,
            is_warning,
            note,
        };
        super::say::announce(self.context, self.service, &news).await;
    }

    fn conflict(&self, conflict: &Conflict) -> Trouble {
        let (what, owner) = match conflict {
            Conflict::Shared { what } => (what.clone(), String::new()),
            Conflict::Login { slot, owner } => {
                let login = self.account.binding.names.login(*slot);
                (format!("login {login}"), owner.clone())
            }
        };
        Trouble::Conflict { what, owner }
    }

    fn rest(
        &self,
        shown: &leasehold_core::credential::Stored,
        step: &Step,
        next: Option<String>,
        now: WallTime,
    ) -> Rest {
        let names = &self.account.binding.names;
        let current = shown.current.as_ref();
        let slot = current.map_or(Slot::A, |it| it.slot);
        let (waiting, queued, look_again) = match step {
            Step::Wait {
                waiting,
                look_again,
                queued,
            } => (Some((*waiting, slot.other())), *queued, Some(*look_again)),
            Step::Settled { look_again } => (None, None, *look_again),
            _ => (None, None, None),
        };
        let wait = |until: WallTime| {
            let seconds = until.as_seconds().saturating_sub(now.as_seconds());
            Duration::from_secs(seconds)
        };
        Rest {
            secret_name: self.account.binding.secret_name(),
            server: self.account.address.clone(),
            username: names.login(slot),
            generation: current.and_then(|it| it.generation).unwrap_or_default(),
            rotated_at: shown.rotated_at,
            former: waiting.map(|(_, slot)| names.login(slot)),
            waiting,
            queued,
            planned: self.account.plans_only.clone().map(|because| Planned {
                because,
                works: current.is_some() && !concerns_current(step),
                next,
            }),
            look_again: look_again.map(wait),
        }
    }
}

/// Whether the login in force does not work before this is done.
fn concerns_current(step: &Step) -> bool {
    match step {
        Step::Provision
        | Step::SetLogin {
            which: Which::Current,
            ..
        } => true,
        Step::WriteNext { why, .. } => !matches!(why, Why::Interval | Why::Trigger),
        _ => false,
    }
}

fn shown_fingerprint(shown: &leasehold_core::credential::Stored, which: Which) -> Option<String> {
    let entry = match which {
        Which::Current => &shown.current,
        Which::Next => &shown.next,
        Which::Previous => &shown.previous,
    };
    entry.as_ref()?.fingerprint.clone()
}

/// The time that dates passwords.
pub fn now() -> WallTime {
    let seconds = jiff::Timestamp::now().as_second();
    WallTime::from_seconds(u64::try_from(seconds).unwrap_or_default())
}
