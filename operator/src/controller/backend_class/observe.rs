//! Observe: who uses a class, and what its server shows. A server is looked at when class or Secrets
//! changed, after a back-off while something is wrong, and slowly otherwise.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use kube::ResourceExt;
use leasehold_crds::{BackendClass, condition::reason};
use tokio::time::Instant;

use crate::{
    belief::classes::SecretSighting,
    context::Context,
    credential::{
        permission::selector_problem,
        servers::{ClassProblem, Look, Unusable},
    },
};

/// All that one pass needs to know.
#[derive(Debug)]
pub struct Facts {
    /// The object itself.
    pub class: BackendClass,
    /// (namespace, name) of the ClusterServices that name it and may, or may have.
    pub users: BTreeSet<(String, String)>,
    /// What the server showed, or why there is none.
    pub look: Result<Look, Problem>,
    /// What is wrong with `allowedNamespaces`.
    pub selector_problem: Option<String>,
    /// Another operator has its Secret.
    pub is_elsewhere: bool,
    /// Its server can be used since this look, or no longer, or is another one.
    pub is_changed: bool,
}

/// Why a class has no server, in words for its own status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Reason of the condition.
    pub reason: &'static str,
    /// Message of the condition.
    pub message: String,
}

impl Facts {
    /// metadata.name.
    pub fn name(&self) -> String {
        self.class.name_any()
    }

    /// The server showed nothing that needs another look soon.
    pub fn is_well(&self) -> bool {
        self.look.as_ref().is_ok_and(|look| {
            let is_met = |condition| {
                let found = look.findings.iter().find(|it| it.condition == condition);
                found.is_none_or(|it| it.is_met == Some(true))
            };
            look.refused.is_none() && super::status::NEEDED.into_iter().all(is_met)
        })
    }
}

/// The last look at each class, so that news about its services costs no question to its server.
#[derive(Debug, Default)]
pub struct Looks(Mutex<BTreeMap<String, Kept>>);

#[derive(Clone, Debug)]
struct Kept {
    what: What,
    look: Result<Look, Problem>,
    at: Instant,
    is_well: bool,
}

/// A look is old when one of these changed.
#[derive(Clone, Debug, PartialEq)]
struct What {
    uid: Option<String>,
    generation: Option<i64>,
    secrets: [SecretSighting; 2],
}

impl Looks {
    /// A class is gone.
    pub fn forget(&self, class: &str) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(class);
    }

    fn get(&self, class: &str) -> Option<Kept> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(class).cloned()
    }

    fn keep(&self, class: String, look: Kept) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(class, look);
    }
}

/// Collects the facts about one class.
pub async fn observe(context: &Context, looks: &Looks, class: &BackendClass) -> Facts {
    let name = class.name_any();
    let (look, before) = look(context, looks, class).await;
    let is_absent = matches!(
        &look,
        Err(Wrong {
            is_absent: true,
            ..
        })
    );
    let look = look.map_err(|wrong| wrong.problem);
    let mut facts = Facts {
        class: class.clone(),
        users: users(context, class).await,
        look,
        selector_problem: class
            .spec
            .allowed_namespaces
            .as_ref()
            .and_then(selector_problem),
        is_elsewhere: is_absent && !context.serves_all && !context.servers.is_known(&name),
        is_changed: false,
    };
    let is_usable = facts.look.is_ok();
    let is_well = facts.is_well();
    facts.is_changed = before.is_none_or(|before| {
        before.what != what(context, class)
            || before.look.is_ok() != is_usable
            || before.is_well != is_well
    });
    if let Some(mut kept) = looks.get(&name) {
        kept.is_well = is_well;
        looks.keep(name, kept);
    }
    facts
}

struct Wrong {
    problem: Problem,
    is_absent: bool,
}

/// The newest look, and the one before it.
async fn look(
    context: &Context,
    looks: &Looks,
    class: &BackendClass,
) -> (Result<Look, Wrong>, Option<Kept>) {
    let name = class.name_any();
    let before = looks.get(&name);
    let what = what(context, class);
    if let Some(kept) = before.clone().filter(|it| is_fresh(context, it, &what)) {
        let is_absent = what.secrets[0] == SecretSighting::Absent;
        let look = kept.look.map_err(|problem| Wrong { problem, is_absent });
        return (look, before);
    }
    let at = Instant::now();
    let look = context.servers.look(class).await.map_err(wrong);
    let kept = Kept {
        what,
        look: match &look {
            Ok(look) => Ok(look.clone()),
            Err(wrong) => Err(wrong.problem.clone()),
        },
        at,
        is_well: false,
    };
    looks.keep(name, kept);
    (look, before)
}

fn is_fresh(context: &Context, kept: &Kept, what: &What) -> bool {
    let timers = &context.timers;
    // The jitter of its own wake-up must not make it come too early for this.
    let lifetime = if kept.is_well {
        timers.class_look.mul_f64(0.75)
    } else {
        timers.backoff.0.mul_f64(0.75)
    };
    kept.what == *what && kept.at.elapsed() < lifetime
}

fn what(context: &Context, class: &BackendClass) -> What {
    let sighting = |name: Option<&str>| {
        let seen = name.map(|name| context.beliefs.classes().secret(name));
        seen.unwrap_or(SecretSighting::Unwatched)
    };
    What {
        uid: class.uid(),
        generation: class.metadata.generation,
        secrets: [
            sighting(class.spec.admin_secret()),
            sighting(class.spec.ca_secret()),
        ],
    }
}

fn wrong(problem: ClassProblem) -> Wrong {
    let is_absent = matches!(
        &problem,
        ClassProblem::Unusable {
            why: Unusable::SecretAbsent { .. },
            ..
        }
    );
    let problem = match problem {
        ClassProblem::Unusable { why, .. } => Problem {
            reason: match why {
                Unusable::SecretAbsent { .. } | Unusable::SecretInvalid { .. } => {
                    reason::SECRET_INVALID
                }
                Unusable::SpecInvalid(_) => reason::SPEC_INVALID,
            },
            message: why.to_string(),
        },
        other => Problem {
            reason: other.reason(),
            message: other.to_string(),
        },
    };
    Wrong { problem, is_absent }
}

/// Those that may use it, or have credentials from it; others cannot hold it back.
async fn users(context: &Context, class: &BackendClass) -> BTreeSet<(String, String)> {
    let mut users = BTreeSet::new();
    for (namespace, name) in context.beliefs.classes().users(&class.name_any()) {
        let permitted = context.servers.is_permitted(class, &namespace).await;
        // If that cannot be told, it is held back rather than lost.
        if permitted.unwrap_or(true) || context.beliefs.has_credentials(&namespace, &name) {
            users.insert((namespace, name));
        }
    }
    users
}
