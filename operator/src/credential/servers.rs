//! The one registry of servers, by class: whoever needs a server asks here.
//!
//! A handle is kept as long as class and Secrets stay what they were. A changed admin credential is tried
//! by logging in before the old one is given up, so an administrator may change Secret and server in
//! either order. A namespace that a class does not allow learns nothing but that.

mod connect;
mod problem;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use kube_runtime::reflector::{ObjectRef, Store};
use leasehold_crds::{BackendClass, BackendClassSpec, condition, condition::reason};
use tokio::time::Instant;

pub use problem::{ClassProblem, Unusable};

use super::{
    admin::{AdminCredential, admin_of, authority_of},
    permission::is_allowed,
    tenants::Tenants,
};
use crate::{
    backend::{Finding, postgres, redis},
    belief::{
        Beliefs,
        classes::{GuardedClass, SecretSighting},
    },
    error::{Action, Error},
    watch,
};

const GET_SECRET: Action = Action {
    verb: "get",
    group: "",
    resource: "secrets",
};
/// Longest look at a server; its drivers have shorter limits of their own.
const LOOK_MAX: Duration = Duration::from_mins(1);

/// A server, as the operator works with it.
#[derive(Debug)]
pub enum Server {
    /// Postgres.
    Postgres(postgres::Server),
    /// Redis or Valkey.
    Redis(redis::Server),
}

impl Server {
    /// Looks at everything that logins need; changes nothing.
    pub async fn preflight(&self) -> Vec<Finding> {
        match self {
            Self::Postgres(server) => server.preflight().await,
            Self::Redis(server) => server.preflight().await,
        }
    }
}

/// A server with what its class says of it.
#[derive(Debug)]
pub struct Served {
    /// The server, under the admin credential in force.
    pub server: Server,
    /// What the class says; services are told host, port and TLS from it.
    pub spec: BackendClassSpec,
    /// The certificate authority that services are to trust, as PEM.
    pub authority: Option<String>,
    made_from: MadeFrom,
}

/// A handle is good as long as these stay the same.
#[derive(Clone, Debug, PartialEq)]
struct MadeFrom {
    uid: String,
    /// Without who may use it, which is asked each time.
    endpoint: BackendClassSpec,
    /// resourceVersions of the admin's Secret and of the authority's.
    revisions: [String; 2],
}

/// What a look at a class found.
#[derive(Clone, Debug)]
pub struct Look {
    /// What the server showed.
    pub findings: Vec<Finding>,
    /// A changed credential that the server refuses, while the one before still works.
    pub refused: Option<String>,
}

/// See the module.
pub struct Servers {
    client: Client,
    beliefs: Arc<Beliefs>,
    tenants: Arc<Tenants>,
    store: Store<GuardedClass>,
    namespace: String,
    limits: Limits,
    kept: Mutex<BTreeMap<String, Arc<Kept>>>,
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// One request to the API server.
    pub request: Duration,
    /// How old a Secret that is not watched may be.
    pub unwatched: Duration,
    /// How often a refused credential is tried again.
    pub again: Duration,
}

/// What is kept of one class.
#[derive(Default)]
struct Kept {
    /// Held while Secrets are read and a new credential is tried.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Clone, Default)]
struct State {
    served: Option<Arc<Served>>,
    /// When the Secrets were read.
    read: Option<Instant>,
    refused: Option<Refused>,
}

/// A changed credential that did not work.
#[derive(Clone)]
struct Refused {
    made_from: MadeFrom,
    problem: String,
    at: Instant,
}

impl Servers {
    /// Of the classes in `store`, whose Secrets are in `namespace`.
    pub fn new(
        client: Client,
        beliefs: Arc<Beliefs>,
        tenants: Arc<Tenants>,
        store: Store<GuardedClass>,
        namespace: String,
        limits: Limits,
    ) -> Self {
        Self {
            client,
            beliefs,
            tenants,
            store,
            namespace,
            limits,
            kept: Mutex::default(),
        }
    }

    /// The server of a class, for a service in `namespace`. Asks the API server only if something
    /// changed, and the server only to try a changed admin credential.
    pub async fn get(&self, class: &str, namespace: &str) -> Result<Arc<Served>, ClassProblem> {
        let found = self.class(class)?;
        if !self.is_permitted(&found, namespace).await? {
            return Err(ClassProblem::NotPermitted {
                namespace: namespace.to_owned(),
                class: class.to_owned(),
            });
        }
        self.current(&found).await
    }

    /// Whether a class allows a namespace; one that does not exist is not allowed.
    pub async fn is_permitted(
        &self,
        class: &BackendClass,
        namespace: &str,
    ) -> Result<bool, ClassProblem> {
        let allowed = class.spec.allowed_namespaces.as_ref();
        if allowed.is_none() {
            return Ok(false);
        }
        let tenant = self.tenants.get(namespace).await?;
        Ok(tenant.is_some_and(|it| is_allowed(allowed, &it.labels)))
    }

    /// Looks at the server of a class, whoever may use it, and at its Secrets, which are not watched.
    pub async fn look(&self, class: &BackendClass) -> Result<Look, ClassProblem> {
        let kept = self.kept(&class.name_any());
        self.doubt(&class.name_any());
        let served = self.current(class).await?;
        // If somebody tries a new credential in this moment, its outcome is what people want to know.
        drop(kept.turn.lock().await);
        let findings = look_at(&served.server).await;
        let state = kept.state();
        Ok(Look {
            findings,
            refused: state.refused.map(|it| it.problem),
        })
    }

    /// Whatever is known of the Secrets of a class is read again when it is next needed.
    pub fn doubt(&self, class: &str) {
        let kept = self.kept(class);
        kept.change(|state| state.read = None);
    }

    /// A class is gone: its connections are closed when their last user is done.
    pub fn forget(&self, class: &str) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(class);
    }

    /// Whether this class was ever served here.
    pub fn is_known(&self, class: &str) -> bool {
        self.kept(class).state().served.is_some()
    }

    /// Namespace of the Secrets that classes name.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    fn class(&self, name: &str) -> Result<Arc<BackendClass>, ClassProblem> {
        match self.store.get(&ObjectRef::new(name)) {
            Some(found) => match &found.0 {
                Ok(class) => Ok(Arc::new(class.clone())),
                Err(invalid) => Err(ClassProblem::Unusable {
                    class: name.to_owned(),
                    why: Unusable::SpecInvalid(invalid.error.clone()),
                }),
            },
            None => Err(self.absent(name)),
        }
    }

    /// There is no class, or it was not listed yet.
    fn absent(&self, name: &str) -> ClassProblem {
        let watches = self.beliefs.watches();
        let Some(state) = watches.get(watch::classes::CLASSES) else {
            return ClassProblem::Unseen("they are not watched".to_owned());
        };
        match &state.problem {
            Some(problem) => ClassProblem::Unseen(problem.clone()),
            None if !state.is_synced => ClassProblem::Unseen("they are being listed".to_owned()),
            None => ClassProblem::Missing(name.to_owned()),
        }
    }

    fn kept(&self, class: &str) -> Arc<Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.entry(class.to_owned()).or_default().clone()
    }

    async fn current(&self, class: &BackendClass) -> Result<Arc<Served>, ClassProblem> {
        let kept = self.kept(&class.name_any());
        if let Some(served) = self.still_good(class, &kept.state()) {
            return Ok(served);
        }
        let _turn = match (kept.turn.try_lock(), kept.state().served) {
            (Ok(turn), _) => turn,
            // Somebody tries the new one; the old one is good until then.
            (Err(_), Some(old)) if old.made_from.is_of(class) => return Ok(old),
            (Err(_), _) => kept.turn.lock().await,
        };
        if let Some(served) = self.still_good(class, &kept.state()) {
            return Ok(served);
        }
        let read = Instant::now();
        let (made_from, admin, authority) = self.read(class).await?;
        let old = kept.state().served;
        let old = old.filter(|old| old.made_from.is_of(class));
        if let Some(old) = old.clone().filter(|old| old.made_from == made_from) {
            kept.change(|state| {
                state.read = Some(read);
                state.refused = None;
            });
            return Ok(old);
        }
        let server = connect::server(&class.spec, &admin, authority.clone());
        let server = server.map_err(|error| ClassProblem::Unusable {
            class: class.name_any(),
            why: Unusable::SpecInvalid(error.to_string()),
        })?;
        let served = Arc::new(Served {
            server,
            spec: class.spec.clone(),
            authority,
            made_from,
        });
        let Some(old) = old else {
            kept.change(|state| state.install(served.clone(), read));
            return Ok(served);
        };
        let problem = refusal(&look_at(&served.server).await);
        let chosen = if problem.is_some() {
            old
        } else {
            served.clone()
        };
        kept.change(|state| match problem {
            None => state.install(served.clone(), read),
            Some(problem) => {
                state.read = Some(read);
                state.refused = Some(Refused {
                    made_from: served.made_from.clone(),
                    problem,
                    at: read,
                });
            }
        });
        Ok(chosen)
    }

    /// The kept handle, if nothing changed since.
    fn still_good(&self, class: &BackendClass, state: &State) -> Option<Arc<Served>> {
        let served = state.served.as_ref()?;
        let read = state.read?;
        if !served.made_from.is_of(class) {
            return None;
        }
        let waiting = state.refused.as_ref();
        if waiting.is_some_and(|it| it.at.elapsed() >= self.limits.again) {
            return None;
        }
        // What was refused is not tried again by everybody who asks.
        let made_from = waiting.map_or(&served.made_from, |it| &it.made_from);
        let secrets = [class.spec.admin_secret(), class.spec.ca_secret()];
        let is_same = secrets.iter().zip(&made_from.revisions).all(|(name, had)| {
            let Some(name) = name else {
                return had.is_empty();
            };
            match self.beliefs.classes().secret(name) {
                SecretSighting::Present(revision) => revision == *had,
                SecretSighting::Absent => false,
                SecretSighting::Unwatched => read.elapsed() < self.limits.unwatched,
            }
        });
        is_same.then(|| served.clone())
    }

    async fn read(
        &self,
        class: &BackendClass,
    ) -> Result<(MadeFrom, AdminCredential, Option<String>), ClassProblem> {
        let unusable = |why| ClassProblem::Unusable {
            class: class.name_any(),
            why,
        };
        let invalid = |name: &str, problem| {
            unusable(Unusable::SecretInvalid {
                name: name.to_owned(),
                namespace: self.namespace.clone(),
                problem,
            })
        };
        let Some(name) = class.spec.admin_secret() else {
            let problem = "exactly one of postgres and redis is needed".to_owned();
            return Err(unusable(Unusable::SpecInvalid(problem)));
        };
        let secret = self.secret(class, name).await?;
        let admin = admin_of(&secret).map_err(|problem| invalid(name, problem))?;
        let mut revisions = [secret.resource_version().unwrap_or_default(), String::new()];
        let mut authority = None;
        if let Some(name) = class.spec.ca_secret() {
            let secret = self.secret(class, name).await?;
            let read = authority_of(&secret).map_err(|problem| invalid(name, problem))?;
            authority = Some(read);
            revisions[1] = secret.resource_version().unwrap_or_default();
        }
        let made_from = MadeFrom {
            uid: class.uid().unwrap_or_default(),
            endpoint: endpoint_of(&class.spec),
            revisions,
        };
        Ok((made_from, admin, authority))
    }

    async fn secret(&self, class: &BackendClass, name: &str) -> Result<Secret, ClassProblem> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let limit = self.limits.request;
        let read = tokio::time::timeout(limit, api.get_opt(name)).await;
        let found = read
            .map_err(|_elapsed| Error::Timeout {
                action: GET_SECRET,
                limit,
            })?
            .map_err(|error| Error::from_kube(GET_SECRET, &self.namespace, error))?;
        found.ok_or_else(|| ClassProblem::Unusable {
            class: class.name_any(),
            why: Unusable::SecretAbsent {
                name: name.to_owned(),
                namespace: self.namespace.clone(),
            },
        })
    }
}

impl MadeFrom {
    /// It is the same server; only the credentials may be others.
    fn is_of(&self, class: &BackendClass) -> bool {
        class.uid().as_deref() == Some(&self.uid) && self.endpoint == endpoint_of(&class.spec)
    }
}

impl Kept {
    fn state(&self) -> State {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
    }
}

impl State {
    fn install(&mut self, served: Arc<Served>, read: Instant) {
        self.served = Some(served);
        self.read = Some(read);
        self.refused = None;
    }
}

fn endpoint_of(spec: &BackendClassSpec) -> BackendClassSpec {
    BackendClassSpec {
        allowed_namespaces: None,
        ..spec.clone()
    }
}

/// Why a changed credential is not taken: with it the server cannot be used.
fn refusal(findings: &[Finding]) -> Option<String> {
    let reachable = findings
        .iter()
        .find(|it| it.condition == condition::REACHABLE)?;
    // Some nodes of several may be down for reasons of their own.
    let is_partly = reachable.reason == "SomeNodes";
    (reachable.is_met == Some(false) && !is_partly).then(|| reachable.message.clone())
}

async fn look_at(server: &Server) -> Vec<Finding> {
    let looked = tokio::time::timeout(LOOK_MAX, server.preflight()).await;
    looked.unwrap_or_else(|_elapsed| {
        vec![Finding {
            condition: condition::REACHABLE,
            is_met: Some(false),
            reason: reason::BACKEND_UNREACHABLE,
            message: format!("the server did not answer within {} s", LOOK_MAX.as_secs()),
        }]
    })
}
