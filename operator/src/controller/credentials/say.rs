//! What is told of credentials: reports for status, and Events. Never a password.

use std::sync::Arc;

use k8s_openapi::{api::events::v1::Event, apimachinery::pkg::apis::meta::v1::Time};
use kube::{Api, ResourceExt as _};
use leasehold_core::{
    credential::{Waiting, Why},
    time::WallTime,
};
use leasehold_crds::{
    ClusterService,
    cluster_service::{BackendKind, CredentialStatus},
    condition::reason,
};

use super::work::{Planned, Rest};
use crate::{
    backend::BackendError,
    belief::key,
    context::Context,
    controller::cluster_service::apply::create_event,
    credential::{
        reports::{Report, Said},
        servers::ClassProblem,
    },
    error::Error,
    object::credential_event::{News, build_credential_event},
};

/// Why a login is not as it should be.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Trouble {
    /// Of the API server.
    #[error(transparent)]
    Api(Arc<Error>),
    /// Of the store.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// Of the class.
    #[error("{message}")]
    Class {
        /// Of the condition.
        reason: &'static str,
        /// In words.
        message: String,
    },
    /// The Secret is not ours to write.
    #[error("Secret {name} is left alone: {why}")]
    Secret {
        /// Its name.
        name: String,
        /// And what to do.
        why: String,
    },
    /// Something on the server is not ours.
    #[error(
        "{what} on the server is not ours ({owner}); it is left alone. Rename or drop it there"
    )]
    Conflict {
        /// Kind and name.
        what: String,
        /// As far as the server says.
        owner: String,
    },
    /// The spec cannot be used.
    #[error("{0}")]
    Spec(String),
    /// An older ClusterService of the same id decides.
    #[error("{0}")]
    Peers(String),
    /// Names on servers are not known.
    #[error(
        "the installation id is not known: {0}; give --installation-id, or the right to read it"
    )]
    Installation(String),
    /// Something on the server keeps what was made from being removed.
    #[error("{0}")]
    Held(String),
    /// It may only be said what would be done.
    #[error("{0}")]
    PlanOnly(String),
    /// The operating system has no random numbers.
    #[error("the operating system gives no random numbers, so no password can be made")]
    NoRandom,
    /// The steps lead nowhere: a mistake of ours, or somebody changes things as fast.
    #[error("Secret and server do not come to rest; somebody else may be changing them too")]
    Restless,
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Api(Arc::new(error))
    }
}

impl From<ClassProblem> for Trouble {
    fn from(problem: ClassProblem) -> Self {
        match problem {
            ClassProblem::Api(error) => error.into(),
            other => Self::Class {
                reason: other.reason(),
                message: other.to_string(),
            },
        }
    }
}

impl Trouble {
    /// Another replica may lead by now.
    pub fn is_not_leading(&self) -> bool {
        matches!(self, Self::Api(error) if matches!(**error, Error::NotLeading))
    }

    /// The news of it is on its way.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Api(error) if matches!(**error, Error::Conflict { .. }))
    }

    /// The server refuses a login, be it the admin's or the one that was made.
    pub fn is_refused_login(&self) -> bool {
        matches!(self, Self::Backend(BackendError::LoginRefused { .. }))
    }

    /// It may pass by itself soon.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Backend(error) => error.is_passing(),
            Self::Class { reason, .. } => *reason == reason::CLASS_NOT_READY,
            _ => false,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Api(error) => error.reason(),
            Self::Backend(error) => match error {
                BackendError::Unreachable { .. } => reason::BACKEND_UNREACHABLE,
                BackendError::LoginRefused { .. } => reason::LOGIN_REFUSED,
                BackendError::NotAllowed { .. } => reason::PERMISSION_MISSING,
                BackendError::Foreign { .. } => reason::ROLE_CONFLICT,
                BackendError::Newer { .. }
                | BackendError::Anew { .. }
                | BackendError::Refused { .. } => reason::BACKEND_REFUSED,
                BackendError::Invalid { .. } => reason::SPEC_INVALID,
            },
            Self::Class { reason, .. } => reason,
            Self::Secret { .. } => reason::SECRET_CONFLICT,
            Self::Conflict { .. } => reason::ROLE_CONFLICT,
            Self::Spec(_) => reason::SPEC_INVALID,
            Self::Peers(_) => reason::CLUSTER_ID_CONFLICT,
            Self::Installation(_) => reason::INSTALLATION_UNKNOWN,
            Self::Held(_) => reason::HELD_BACK,
            Self::PlanOnly(_) => reason::PLAN_ONLY,
            Self::NoRandom | Self::Restless => reason::WRITE_FAILED,
        }
    }
}

/// The report of a login that is as it should be.
pub fn rest(service: &ClusterService, kind: BackendKind, rest: &Rest) -> Option<Report> {
    let Rest {
        secret_name,
        server,
        username,
        generation,
        ..
    } = rest;
    let ready =
        format!("Logging in to {server} as {username} works; Secret {secret_name} holds it.");
    if let Some(planned) = &rest.planned
        && !planned.works
    {
        let said = Said::no(reason::PLAN_ONLY, plan(planned));
        let stored = service.status.iter().flat_map(|status| &status.credentials);
        return Some(Report {
            ready: said.clone(),
            current: said,
            credential: stored.into_iter().find(|it| it.backend == kind).cloned(),
        });
    }
    let credential = CredentialStatus {
        backend: kind,
        secret_name: secret_name.clone(),
        username: username.clone(),
        generation: i64::try_from(*generation).unwrap_or(i64::MAX),
        rotated_at: rest.rotated_at.and_then(as_time),
        previous_until: rest
            .waiting
            .and_then(|(waiting, _)| as_time(until(service, waiting, rest))),
    };
    Some(Report {
        ready: Said::yes(reason::PROVISIONED, ready),
        current: current(rest),
        credential: Some(credential),
    })
}

/// At the latest.
fn until(service: &ClusterService, waiting: Waiting, rest: &Rest) -> WallTime {
    match waiting {
        Waiting::Sessions { until, .. } | Waiting::Pooled { until } => until,
        Waiting::Grace { until } => {
            let durations = service.spec.rotation.durations().ok();
            let latest = rest.rotated_at.zip(durations);
            latest.map_or(until, |(since, it)| since.after(it.max_grace).max(until))
        }
    }
}

/// What would be done, and why it is not.
fn plan(planned: &Planned) -> String {
    match &planned.next {
        Some(next) => format!("{} Next would be: {next}.", planned.because),
        None => format!("{} Nothing is to be done now.", planned.because),
    }
}

fn current(rest: &Rest) -> Said {
    if let Some(planned) = &rest.planned {
        let message = plan(planned);
        return match planned.next {
            Some(_) => Said::no(reason::PLAN_ONLY, message),
            None => Said::yes(reason::PLAN_ONLY, message),
        };
    }
    let Some((waiting, _)) = rest.waiting else {
        let since = rest.rotated_at.map(shown).unwrap_or_default();
        let message = format!("Password {} is in force since {since}.", rest.generation);
        return Said::yes(reason::CURRENT, message);
    };
    let former = rest.former.as_deref().unwrap_or_default();
    let queued = match rest.queued {
        None => "",
        Some(Why::Trigger) => " A new password was asked for, and waits for that.",
        Some(_) => " A new password is due, and waits for that.",
    };
    match waiting {
        Waiting::Grace { until } => {
            let until = shown(until);
            let message = format!(
                "The login before, {former}, stays valid until {until}, the grace period.{queued}"
            );
            Said::no(reason::ROTATING, message)
        }
        Waiting::Sessions { open, until } => {
            let (until, sessions) = (shown(until), sessions(open));
            let message = format!(
                "{sessions} still open under the login before, {former}; it ends when they have closed, at \
                 the latest at {until} (maxGrace). Restart whoever never reconnects.{queued}"
            );
            Said::no(reason::WAITING_FOR_SESSIONS, message)
        }
        Waiting::Pooled { until } => {
            let until = shown(until);
            let message = format!(
                "Behind a pooler nobody can see who still uses the login before, {former}; it stays valid \
                 until {until} (maxGrace), which must be longer than any client keeps a connection.{queued}"
            );
            Said::no(reason::WAITING_FOR_SESSIONS, message)
        }
    }
}

fn sessions(open: u64) -> String {
    match open {
        1 => "1 session is".to_owned(),
        many => format!("{many} sessions are"),
    }
}

/// The report of trouble; none if the news of it is on its way.
pub fn trouble(
    service: &ClusterService,
    context: &Context,
    kind: BackendKind,
    trouble: &Trouble,
) -> Option<Report> {
    if trouble.is_conflict() {
        return None;
    }
    let known = context.credentials.reports.of(&key(service)).remove(&kind);
    let stored = service.status.iter().flat_map(|status| &status.credentials);
    let stored = stored.into_iter().find(|it| it.backend == kind).cloned();
    let message = trouble.to_string();
    Some(Report {
        ready: Said::no(trouble.reason(), message),
        current: match known.as_ref() {
            Some(known) => known.current.clone(),
            None => Said::unknown(reason::NOT_CHECKED, "It could not be looked at yet."),
        },
        credential: known.and_then(|it| it.credential).or(stored),
    })
}

/// Tells people; a failure to tell is logged, and holds nothing up.
pub async fn announce(context: &Context, service: &ClusterService, news: &News) {
    let namespace = service.namespace().unwrap_or_default();
    tracing::info!(
        key = "credentials.event",
        namespace,
        cluster_service = service.name_any(),
        reason = news.reason,
        generation = news.generation,
        "{}",
        news.note
    );
    let api: Api<Event> = Api::namespaced(context.client.clone(), &namespace);
    let now = jiff::Timestamp::now();
    let event = build_credential_event(service, news, &context.instance, now);
    if let Err(error) = create_event(context, &api, &namespace, &event).await {
        tracing::warn!(key = "credentials.untold", namespace, %error, "an Event could not be written");
    }
}

fn as_time(time: WallTime) -> Option<Time> {
    let seconds = i64::try_from(time.as_seconds()).ok()?;
    jiff::Timestamp::from_second(seconds).ok().map(Time)
}

fn shown(time: WallTime) -> String {
    as_time(time).map(|it| it.0.to_string()).unwrap_or_default()
}
