//! A partitioned service on the process node: its pods, what is done to them,
//! and how it is known that everything has settled again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use leasehold_core::id::pod_name;
use leasehold_core::lease::LeaseTiming;
use leasehold_crds::keys;
use leasehold_crds::settings::{LeaseSettings, Settings};
use serde_json::json;

use super::check::{Demands, Judgement, Run, Span, Violation};
use super::follow::Follower;
use super::ledger;
use super::moves::{self, Moves};
use super::stores::Stores;
use super::tables::Tables;
use crate::error::{Error, Result, Step};
use crate::history::{self, Event, Fault, Line, Writer};
use crate::kubectl::Kubectl;
use crate::node::container_in;
use crate::process::ProcessRecord;
use crate::{ProcessNode, programs, wait};

/// Where a service runs, and what it is called: its cluster id, its Deployment
/// and its container have one name.
#[derive(Clone, Debug)]
pub struct Place {
    /// The name of everything.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// Where histories, tables and what the stores took go.
    pub folder: PathBuf,
    /// The kubeconfig of the harness.
    pub admin: PathBuf,
    /// The timing that is declared.
    pub timing: LeaseTiming,
    /// Whether pods write to a Postgres and a Redis as well.
    pub with_servers: bool,
}

/// A running service and all that is written down about it.
pub struct Crew {
    place: Place,
    client: Client,
    kubectl: Kubectl,
    node: PathBuf,
    stores: Stores,
    tables: Tables,
    journal: Writer,
    seen: Mutex<Seen>,
}

/// What was read so far of files that grow.
#[derive(Debug)]
struct Seen {
    run: Run,
    histories: [Follower; 2],
    /// What is missing for everything to be settled.
    missing: String,
}

/// Its pods go with it: whoever comes after it on this machine would have to share the machine with them.
impl Drop for Crew {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let pods: Api<Deployment> = Api::namespaced(self.client.clone(), &self.place.namespace);
        let name = self.place.name.clone();
        // It may be gone already, and with the namespace it goes anyway.
        runtime.spawn(async move { pods.delete(&name, &DeleteParams::default()).await });
    }
}

/// The figures of one step of a story.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Moves of partitions between pods.
    pub moves: Moves,
    /// The least moves of each of its tables, added up.
    pub least_of_each: usize,
    /// Longest time that any hash was without an owner.
    pub unowned_max: Duration,
    /// How long it took until everything was settled.
    pub took: Duration,
}

/// A point of time in a run, from which figures are taken.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    t: u64,
    since: Instant,
    /// Tables before it; the last of them is the one that is left behind.
    tables: usize,
}

impl Crew {
    /// Starts the stores and begins to follow the tables; no pod runs yet.
    pub async fn prepare(place: Place, client: Client, node: &ProcessNode) -> Result<Self> {
        let preparing = || format!("preparing {}", place.folder.display());
        std::fs::create_dir_all(&place.folder).step(preparing)?;
        let file = |name: &str| place.folder.join(name);
        let leases: Api<Lease> = Api::namespaced(client.clone(), &place.namespace);
        let histories = ["pods.history", "faults.history"].map(|name| Follower::of(&file(name)));
        Ok(Self {
            kubectl: Kubectl::new(&place.admin).namespace(&place.namespace),
            node: node.root().to_owned(),
            stores: Stores::start(&place.folder, &place.name, place.with_servers).await?,
            tables: Tables::follow(leases, &place.name, &file("tables.jsonl"))?,
            journal: Writer::to_file(&file("faults.history"))?,
            seen: Mutex::new(Seen {
                run: Run::default(),
                histories,
                missing: String::new(),
            }),
            client,
            place,
        })
    }

    /// Applies the manifest of the pods. `env` becomes further variables.
    pub async fn deploy(&self, replicas: usize, env: &[(&str, String)]) -> Result<()> {
        let path = programs::workspace().join("e2e/manifests/partitions.yaml");
        let text = std::fs::read_to_string(&path).step(|| format!("reading {}", path.display()))?;
        let env = env.iter().map(|(name, value)| {
            let value = serde_json::Value::from(value.as_str());
            format!("\n            - {{name: {name}, value: {value}}}")
        });
        let text = text
            .replace("${NAME}", &self.place.name)
            .replace("${REPLICAS}", &replicas.to_string())
            .replace("${STORES}", &self.stores.urls().to_string_lossy())
            .replace("${EVENTS}", &self.history().to_string_lossy())
            .replace("${ENV}", &env.collect::<String>());
        let apply = ["apply", "-f", "-"];
        self.kubectl.run_with_input(&apply, &text).await.map(|_| ())
    }

    /// Writes the settings Lease, as the operator does where there is one.
    pub async fn declare(&self, generation: i64, count: u16) -> Result<()> {
        let name = format!("{}.settings", self.place.name);
        let timing = self.place.timing;
        let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let settings = Settings {
            version: Settings::VERSION,
            generation,
            strategy: "partitioned".to_owned(),
            partitions: Some(count.into()),
            hash: Some("cs-hash/1".to_owned()),
            lease: LeaseSettings {
                duration_seconds: seconds(timing.lease_duration()),
                heartbeat_seconds: seconds(timing.heartbeat()),
                attempt_timeout_seconds: seconds(timing.attempt_timeout()),
                stop_budget_seconds: seconds(timing.stop_budget()),
            },
            drain_timeout_seconds: None,
        };
        let object = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "labels": {
                    (keys::LABEL_CLUSTER_ID): self.place.name,
                    (keys::LABEL_LEASE): keys::LEASE_SETTINGS,
                },
                "annotations": { (keys::ANNOTATION_SETTINGS): settings.to_json() },
            },
        });
        let apply = ["apply", "-f", "-"];
        let text = object.to_string();
        self.kubectl.run_with_input(&apply, &text).await.map(|_| ())
    }

    /// What pods write down.
    pub fn history(&self) -> PathBuf {
        self.place.folder.join("pods.history")
    }

    /// All of its files, for a checker.
    pub fn folder(&self) -> &Path {
        &self.place.folder
    }

    /// kubectl in its namespace.
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// Its tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The pods that are not about to go, in order.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.place.namespace);
        let ours = ListParams::default().labels(&format!("app={}", self.place.name));
        let mut pods = pods.list(&ours).await?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        Ok(pods)
    }

    /// Their names.
    pub async fn names(&self) -> Result<Vec<String>> {
        let pods = self.pods().await?.into_iter();
        Ok(pods.filter_map(|pod| pod.metadata.name).collect())
    }

    /// The pod that leads: it plans.
    pub async fn leader(&self) -> Result<Option<String>> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.place.namespace);
        let lease = leases
            .get_opt(&format!("{}.leader", self.place.name))
            .await?;
        let holder = lease
            .and_then(|lease| lease.spec)
            .and_then(|spec| spec.holder_identity);
        Ok(holder.and_then(|holder| pod_name(&holder).map(str::to_owned)))
    }

    /// The process of a pod.
    pub fn process(&self, pod: &str) -> Result<ProcessRecord> {
        container_in(&self.node, &self.place.namespace, pod, &self.place.name)
    }

    /// SIGKILL; the node starts the container again in place.
    pub fn kill(&self, pod: &str) -> Result<()> {
        let process = self.process(pod)?;
        process.signal(rustix::process::Signal::KILL)?;
        wait::blocking(Duration::from_secs(5), || !process.is_running());
        self.note(Line {
            pod: Some(pod.to_owned()),
            fault: Some(Fault::Kill),
            reason: format!("{pod} killed"),
            ..Line::new(Event::Fault)
        })
    }

    /// SIGSTOP; give the record to [`Crew::resume`].
    pub fn pause(&self, pod: &str) -> Result<ProcessRecord> {
        let process = self.process(pod)?;
        process.signal(rustix::process::Signal::STOP)?;
        self.note(Line {
            pod: Some(pod.to_owned()),
            fault: Some(Fault::Pause),
            reason: format!("{pod} paused"),
            ..Line::new(Event::Fault)
        })?;
        Ok(process)
    }

    /// SIGCONT, if it still is there.
    pub fn resume(process: &ProcessRecord) {
        let _ = process.signal(rustix::process::Signal::CONT);
    }

    /// Writes down what was done to the service.
    pub fn note(&self, line: Line) -> Result<()> {
        let line = Line {
            identity: "harness".to_owned(),
            ..line
        };
        self.journal.write(&line).step(|| "writing down a fault")
    }

    /// From here on.
    pub fn mark(&self) -> Mark {
        Mark {
            t: history::now(),
            since: Instant::now(),
            tables: self.tables.all().len(),
        }
    }

    /// Waits until `pods` pods are Ready and own all of `count` partitions, each
    /// its own as the newest table says.
    pub async fn settled(&self, pods: usize, count: u16, within: Duration) -> Result<()> {
        let what = format!("{pods} pods to own {count} partitions");
        let waited = wait::until_true(&what, within, || async {
            let missing = self.missing(pods, count).await?;
            let settled = missing.is_none();
            self.lock().missing = missing.unwrap_or_default();
            Ok(settled)
        });
        waited
            .await
            .map_err(|error| Error::new(format!("{error}; missing: {}", self.lock().missing)))
    }

    /// What is missing for it.
    async fn missing(&self, pods: usize, count: u16) -> Result<Option<String>> {
        let (ready, all): (Vec<Pod>, Vec<Pod>) = self.pods().await?.into_iter().partition(is_ready);
        if ready.len() != pods || !all.is_empty() {
            return Ok(Some(format!(
                "{} pods are Ready and {} are not",
                ready.len(),
                all.len()
            )));
        }
        let names: BTreeSet<String> = ready
            .into_iter()
            .filter_map(|pod| pod.metadata.name)
            .collect();
        self.refresh()?;
        let Some(table) = self.tables.newest() else {
            return Ok(Some("no table was published".to_owned()));
        };
        if table.count() != count || table.queued.is_some() {
            return Ok(Some(format!(
                "the table has {} partitions, {:?} is queued",
                table.count(),
                table.queued
            )));
        }
        let seen = self.lock();
        let running: BTreeMap<(u16, u64), &str> = seen
            .run
            .tenures()
            .open()
            .filter(|tenure| tenure.slot.generation == table.generation)
            .filter_map(|tenure| {
                let pod = pod_name(&tenure.identity)?;
                let place = (tenure.slot.partition, tenure.token.revision().number());
                Some((place, pod))
            })
            .collect();
        let mut owners = BTreeSet::new();
        let mut idle = Vec::new();
        for partition in 0..count {
            let index = usize::from(partition);
            let owner = table.pod(index).unwrap_or_default();
            let epoch = table.epochs.get(index).copied().unwrap_or_default();
            owners.insert(owner.to_owned());
            if running.get(&(partition, epoch)) != Some(&owner) {
                idle.push(format!("{partition} (of {owner})"));
            }
        }
        if let Some(first) = idle.first() {
            return Ok(Some(format!(
                "{} partitions do not run, the first of them is {first}",
                idle.len()
            )));
        }
        let busy = names.len().min(usize::from(count));
        if !owners.is_subset(&names) || owners.len() != busy {
            return Ok(Some(format!(
                "the owners are {owners:?}, the pods {names:?}"
            )));
        }
        Ok(None)
    }

    /// Waits until it is settled, and says what it cost since `mark`.
    pub async fn figures(
        &self,
        mark: Mark,
        pods: usize,
        count: u16,
        within: Duration,
    ) -> Result<Figures> {
        self.settled(pods, count, within).await?;
        let took = mark.since.elapsed();
        let tables = self.tables.all();
        let from = mark.tables.saturating_sub(1).min(tables.len());
        let span = Span {
            from: mark.t,
            until: history::now(),
        };
        let unowned_max = self.lock().run.unowned_max(span);
        Ok(Figures {
            moves: moves::over(&tables[from..]),
            least_of_each: moves::least_of_each(&tables[from..]),
            unowned_max,
            took,
        })
    }

    /// What has been broken so far, as far as no server need be asked. Reads everything anew: not for
    /// each step of a long run.
    pub fn broken(&self) -> Result<Vec<Violation>> {
        let mut violations = self.judge(&self.demands(Duration::MAX))?.violations;
        // That servers are not asked yet breaks nothing.
        violations.retain(|one| !matches!(one, Violation::Nothing(_)));
        Ok(violations)
    }

    /// What any run is held to; `unowned_max` where it is bounded by a rule.
    pub fn demands(&self, unowned_max: Duration) -> Demands {
        Demands {
            trusted: self.place.timing.trusted(),
            unowned_max,
            recovery_max: unowned_max,
            tables_min: 1,
        }
    }

    /// Its guarded stores.
    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    /// Asks all pods to end, and waits until they have: from then on nothing is written any more.
    pub async fn stop(&self) -> Result<()> {
        let name = &self.place.name;
        let scale = ["scale", "deployment", name, "--replicas=0"];
        self.kubectl.run(&scale).await?;
        let label = format!("app={name}");
        let wait = ["wait", "--for=delete", "pod", "-l", &label, "--timeout=90s"];
        self.kubectl.run(&wait).await.map(|_| ())
    }

    /// Judges everything that was written down, read anew, also by the servers of stores. Pods must
    /// have [stopped](Crew::stop): what they write later is told, and not found.
    pub async fn judge_all(&self, demands: &Demands) -> Result<Judgement> {
        self.stores.dump().await?;
        self.judge_of(&self.stores.names(), &[], demands)
    }

    /// Judges what needs no question to a server: without those, everything.
    pub fn judge(&self, demands: &Demands) -> Result<Judgement> {
        self.judge_also(&[], demands)
    }

    /// The same with further histories, of processes that are no pods.
    pub fn judge_also(&self, more: &[PathBuf], demands: &Demands) -> Result<Judgement> {
        self.judge_of(&["ledger"], more, demands)
    }

    fn judge_of(&self, stores: &[&str], more: &[PathBuf], demands: &Demands) -> Result<Judgement> {
        let histories = [self.history(), self.place.folder.join("faults.history")];
        let histories = histories.iter().chain(more);
        let histories: Vec<_> = histories.filter(|path| path.exists()).collect();
        let mut run = Run::default();
        run.lines(&history::read(&histories)?)?;
        for store in stores {
            run.entries(store, ledger::read(&self.stores.history(store))?);
        }
        run.judge(&self.tables.all(), demands)
    }

    /// Reads what is new.
    fn refresh(&self) -> Result<()> {
        let mut seen = self.lock();
        let mut lines: Vec<Line> = Vec::new();
        for follower in &mut seen.histories {
            lines.extend(follower.read::<Line>()?);
        }
        lines.sort_by_key(|line| line.t);
        seen.run.lines(&lines)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|conditions| {
        let mut conditions = conditions.iter();
        conditions.any(|one| one.type_ == "Ready" && one.status == "True")
    })
}
