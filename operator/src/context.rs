//! What every reconcile gets: the client, the right to write, the beliefs, and where to count.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use leasehold_crds::condition::reason;

use crate::{
    belief::Beliefs,
    controller::cluster_service::observe::Blind,
    credential::{self, installation::Installation, servers::Servers, tenants::Tenants},
    error::{Action, Error},
    metrics::Metrics,
    watch,
};

/// Asked right before every write: whoever lost the leadership writes nothing more.
pub trait WriteGate: Send + Sync + 'static {
    /// Fails as soon as another replica may lead.
    fn check(&self) -> Result<(), Error>;
}

impl WriteGate for leasehold::Leadership {
    fn check(&self) -> Result<(), Error> {
        match leasehold::Leadership::check(self) {
            Ok(_token) => Ok(()),
            Err(_lost) => Err(Error::NotLeading),
        }
    }
}

/// The operator's own waits; tests run them faster.
#[derive(Clone, Copy, Debug)]
pub struct Timers {
    /// How long one request may take.
    pub request_timeout: Duration,
    /// How often silent holders are looked for.
    pub sweep: Duration,
    /// How often a name is read that the label watch may not show.
    pub recheck: Duration,
    /// How long a pod may take to give up a partition before status calls it stuck.
    pub stuck_after: Duration,
    /// First and longest wait after a failed pass.
    pub backoff: (Duration, Duration),
    /// How often an absent CRD is looked for.
    pub crd_poll: Duration,
    /// How often the server of a class is looked at while all is well.
    pub class_look: Duration,
    /// How long news about a class is gathered.
    pub settle: Duration,
    /// How often a server is asked whether it still shows what was made there.
    pub drift: Duration,
    /// How often a Redis is asked that instead after a change of leadership, and for how long.
    pub reread: (Duration, Duration),
}

impl Timers {
    /// The waits of production, divided.
    pub fn divided_by(divisor: u32) -> Self {
        let divisor = divisor.max(1);
        Self {
            request_timeout: Duration::from_secs(10),
            sweep: Duration::from_millis(500) / divisor,
            recheck: Duration::from_mins(1) / divisor,
            stuck_after: Duration::from_mins(1) / divisor,
            backoff: (
                Duration::from_secs(1) / divisor,
                Duration::from_mins(5) / divisor,
            ),
            crd_poll: Duration::from_secs(5) / divisor,
            class_look: Duration::from_mins(10) / divisor,
            settle: Duration::from_millis(500) / divisor,
            drift: Duration::from_mins(1) / divisor,
            reread: (
                Duration::from_secs(10) / divisor,
                Duration::from_mins(1) / divisor,
            ),
        }
    }
}

/// See the module.
pub struct Context {
    /// Client of the API server.
    pub client: kube::Client,
    /// The right to write.
    pub gate: Arc<dyn WriteGate>,
    /// What is believed.
    pub beliefs: Arc<Beliefs>,
    /// Where it is counted.
    pub metrics: Arc<Metrics>,
    /// How long things may take.
    pub timers: Timers,
    /// Name of this replica in Events.
    pub instance: String,
    /// Failed passes in a row, by object.
    pub failures: Failures,
    /// Namespaces that were alive a moment ago.
    pub namespaces: Namespaces,
    /// uid and labels of namespaces.
    pub tenants: Arc<Tenants>,
    /// Servers, by class.
    pub servers: Arc<Servers>,
    /// What names on servers begin from.
    pub installation: Arc<Installation>,
    /// What the controller of credentials keeps in mind.
    pub credentials: credential::state::State,
    /// All namespaces are served, so every class concerns this operator.
    pub serves_all: bool,
}

impl Context {
    /// One read within the request timeout.
    pub async fn within<T>(
        &self,
        action: Action,
        namespace: &str,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Error> {
        let limit = self.timers.request_timeout;
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Error::from_kube(action, namespace, error)),
            Err(_elapsed) => Err(Error::Timeout { action, limit }),
        }
    }

    /// One write: only while we lead, within the request timeout, and counted.
    pub async fn write<T>(
        &self,
        action: Action,
        namespace: &str,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Error> {
        self.gate.check()?;
        let result = self.within(action, namespace, call).await;
        self.metrics.wrote(action, result.as_ref().err());
        result
    }

    /// Why the watch of the Leases in a namespace cannot be trusted now: it never listed them, or may
    /// no longer. A short interruption is no reason; silent holders are read by name anyway.
    pub fn watch_problem(&self, namespace: &str) -> Option<Blind> {
        let watches = self.beliefs.watches();
        let names = [watch::leases(None), watch::leases(Some(namespace))];
        let state = names.iter().find_map(|name| watches.get(name))?;
        let problem = state.problem.as_ref()?;
        let reason = if state.is_denied {
            reason::PERMISSION_DENIED
        } else {
            reason::LEASES_UNSEEN
        };
        (state.is_denied || !state.is_synced).then(|| Blind {
            reason,
            message: format!("Who leads is not known: {problem}"),
        })
    }
}

/// Counts failed passes in a row: 1 s, doubled up to 5 min, with jitter, for each object on its own.
#[derive(Debug, Default)]
pub struct Failures(Mutex<HashMap<(String, String), u32>>);

impl Failures {
    /// Another failed pass; how long to wait.
    pub fn next_wait(
        &self,
        key: (String, String),
        (first, longest): (Duration, Duration),
    ) -> Duration {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key).or_default();
        let wait = first.saturating_mul(1 << (*count).min(20)).min(longest);
        *count = count.saturating_add(1);
        wait.mul_f64(rand::random_range(0.8..1.2))
    }

    /// A pass succeeded, or the object is gone.
    pub fn clear(&self, key: &(String, String)) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
    }
}

/// Remembers for a moment which namespaces are not being deleted, so that a thousand new objects do not
/// ask a thousand times. What is made in the meantime the API server refuses by itself.
#[derive(Debug, Default)]
pub struct Namespaces(Mutex<HashMap<String, Instant>>);

impl Namespaces {
    const MOMENT: Duration = Duration::from_secs(10);

    /// It was alive less than ten seconds ago.
    pub fn is_known_alive(&self, namespace: &str) -> bool {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(namespace)
            .is_some_and(|seen| seen.elapsed() < Self::MOMENT)
    }

    /// It is alive now.
    pub fn note_alive(&self, namespace: &str) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, seen| seen.elapsed() < Self::MOMENT);
        seen.insert(namespace.to_owned(), Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_for_each_object_on_its_own() {
        let failures = Failures::default();
        let bounds = (Duration::from_secs(1), Duration::from_mins(5));
        let key = |name: &str| ("demo".to_owned(), name.to_owned());
        let mut expected = 1.0;
        for _ in 0..40 {
            let wait = failures.next_wait(key("a"), bounds).as_secs_f64();
            assert!(
                (0.79 * expected..1.21 * expected).contains(&wait),
                "{wait} for {expected}"
            );
            expected = f64::min(expected * 2.0, 300.0);
        }
        assert!(failures.next_wait(key("b"), bounds) < Duration::from_secs(2));
        failures.clear(&key("a"));
        assert!(failures.next_wait(key("a"), bounds) < Duration::from_secs(2));
    }
}
