//! Sharded lists and watches of a real API server, with the feature gate on and off: members of one
//! partitioned service together see each object exactly once, whoever cuts the slices.
#![allow(clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::WatchEvent;
use leasehold::kubernetes::ShardedEvent;
use leasehold::{HashId, LeaseTiming, PartitionedHandle};
use leasehold_e2e::cluster::lease_rules;
use leasehold_e2e::control_plane::{Options, kubeconfig};
use leasehold_e2e::{Cluster, Result, Step as _, TestNamespace, wait};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(3);
/// Of the objects that count; a namespace has others.
const LABEL: &str = "app=sharded";
const PARTITIONS: u16 = 16;

/// The first and the last quarter, as the API server wants it: quoted, with `0x`, and the upper end one
/// past 64 bits.
const QUARTERS: &str = "shardRange(object.metadata.uid,'0x0000000000000000','0x4000000000000000') || \
                        shardRange(object.metadata.uid,'0xc000000000000000','0x10000000000000000')";

#[tokio::test(flavor = "multi_thread")]
async fn with_the_gate_on_the_server_cuts_the_slices_and_says_so() -> Result<()> {
    const MINOR: u32 = 36;
    let shared = kubeconfig::client(&Cluster::shared().await?.admin_kubeconfig()).await?;
    let version = shared.apiserver_version().await?;
    let digits = version
        .minor
        .trim_end_matches(|c: char| !c.is_ascii_digit());
    if digits.parse::<u32>()? < MINOR {
        println!(
            "skipped: sharded lists came with Kubernetes 1.{MINOR}, and this is {}",
            version.git_version
        );
        return Ok(());
    }
    let options = Options {
        apiserver: vec!["--feature-gates=ShardedListAndWatch=true".to_owned()],
        ..Options::default()
    };
    let test = "sharded lists with the gate on";
    let Some(cluster) = Cluster::own_with(test, options).await? else {
        return Ok(());
    };
    assert!(story(&cluster).await?, "the server does not shard");
    Ok(())
}

/// The parameter is ignored then, as by every server before 1.36, and everything comes.
#[tokio::test(flavor = "multi_thread")]
async fn with_the_gate_off_everything_comes_and_the_slices_are_the_same() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let shards = story(cluster).await?;
    // A cluster from outside may have it on.
    assert!(!shards || cluster.control_plane().is_none());
    Ok(())
}

/// Returns whether the server shards.
async fn story(cluster: &Cluster) -> Result<bool> {
    let namespace = TestNamespace::on(cluster, "sharded").await?;
    create(&namespace, 0..200).await?;
    let shards = one_request_at_a_time(&namespace).await?;

    let a = Member::start(&namespace, "a").await?;
    let b = Member::start(&namespace, "b").await?;
    settled(&namespace, &[&a, &b]).await?;
    // A third one takes a share of both, and objects come and go meanwhile.
    let c = Member::start(&namespace, "c").await?;
    create(&namespace, 220..260).await?;
    delete(&namespace, 0..30).await?;
    settled(&namespace, &[&a, &b, &c]).await?;
    a.leave().await?;
    delete(&namespace, 30..40).await?;
    settled(&namespace, &[&b, &c]).await?;
    for member in [&b, &c] {
        let seen = member.seen();
        assert!(seen.listed >= 2, "{}: {} lists", member.name, seen.listed);
        assert_eq!(
            seen.by_server,
            BTreeSet::from([shards]),
            "{}: who cut the slices",
            member.name
        );
        assert_eq!(seen.interrupted, Vec::<String>::new(), "{}", member.name);
    }
    b.leave().await?;
    c.leave().await?;
    namespace.finish().await?;
    Ok(shards)
}

/// The server's own part, without the library: what it selects, and what it says about that.
async fn one_request_at_a_time(namespace: &TestNamespace<'_>) -> Result<bool> {
    let client = namespace.client();
    let path = format!(
        "/api/v1/namespaces/{}/configmaps?labelSelector={LABEL}&shardSelector={}",
        namespace.name(),
        encoded(QUARTERS)
    );
    let list: Value = client
        .request(http::Request::get(&path).body(Vec::new())?)
        .await?;
    let echo = list["metadata"]["shardInfo"]["selector"].as_str();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let sent: BTreeSet<String> = items.iter().map(uid_of).collect();
    let all = uids(namespace).await?;
    let selected = |uid: &String| {
        let quarter = fnv1a(uid) >> 62;
        quarter == 0 || quarter == 3
    };
    let expected: BTreeSet<String> = all.iter().filter(|uid| selected(uid)).cloned().collect();
    assert!(!expected.is_empty() && expected.len() < all.len());
    let shards = echo.is_some();
    if let Some(echo) = echo {
        assert_eq!(echo.replace(", ", ","), QUARTERS);
        assert_eq!(sent, expected);
    } else {
        assert_eq!(sent, all, "without sharding everything comes");
    }

    // The same for a watch, from there on: whatever came before the last one that is selected has come.
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap_or("");
    let watch = format!("{path}&watch=true&timeoutSeconds=60&resourceVersion={revision}");
    let request = http::Request::get(&watch).body(Vec::new())?;
    let mut events = Box::pin(client.request_events::<Value>(request).await?);
    let before = all;
    create(namespace, 200..220).await?;
    let new: BTreeSet<String> = &uids(namespace).await? - &before;
    let awaited: BTreeSet<String> = new.iter().filter(|uid| selected(uid)).cloned().collect();
    let mut seen = BTreeSet::new();
    while !awaited.is_subset(&seen) {
        match events.next().await {
            Some(Ok(WatchEvent::Added(object))) => drop(seen.insert(uid_of(&object))),
            Some(Ok(WatchEvent::Bookmark(_))) => {}
            other => panic!("{other:?} before all of {awaited:?}"),
        }
    }
    assert!(!shards || seen == awaited, "{seen:?} for {awaited:?}");
    assert!(seen.is_subset(&new));
    Ok(shards)
}

/// Every member sees exactly the objects whose partition the table gives it, and all see all.
async fn settled(namespace: &TestNamespace<'_>, members: &[&Member]) -> Result<()> {
    let names: BTreeSet<&str> = members.iter().map(|member| member.name).collect();
    let what = format!("each object at exactly one of {names:?}");
    wait::until_true(&what, PATIENCE, || async {
        let all = uids(namespace).await?;
        let mut together = BTreeSet::new();
        let mut count = 0;
        let mut owners = BTreeSet::new();
        for member in members {
            let Some(table) = member.handle.table() else {
                return Ok(false);
            };
            let owner = |partition: usize| {
                let part = table.parts.get(partition)?;
                let member = table.members.get(usize::from(part.owner?))?;
                Some(member.name.to_string())
            };
            owners.extend((0..usize::from(PARTITIONS)).filter_map(owner));
            let is_its = |uid: &&String| owner(partition_of(uid)).as_deref() == Some(member.name);
            let expected: BTreeSet<String> = all.iter().filter(is_its).cloned().collect();
            let seen: BTreeSet<String> = member.seen().objects.keys().cloned().collect();
            if seen != expected {
                return Ok(false);
            }
            count += seen.len();
            together.extend(seen);
        }
        let owners: BTreeSet<&str> = owners.iter().map(String::as_str).collect();
        Ok(owners == names && together == all && count == all.len())
    })
    .await
}

/// A process on the library, and what its controller knows.
struct Member {
    name: &'static str,
    cluster: leasehold::Cluster,
    handle: PartitionedHandle,
    seen: Arc<Mutex<Seen>>,
    controller: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    /// By their uids.
    objects: BTreeMap<String, ConfigMap>,
    listed: usize,
    /// What lists that have objects said about who cut them.
    by_server: BTreeSet<bool>,
    interrupted: Vec<String>,
}

impl Member {
    async fn start(namespace: &TestNamespace<'_>, name: &'static str) -> Result<Self> {
        let mut rules = lease_rules();
        rules.push(PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["configmaps".to_owned()]),
            verbs: ["list", "watch"].map(str::to_owned).to_vec(),
            ..PolicyRule::default()
        });
        let account = namespace.account(name, rules).await?;
        let cluster = leasehold::Cluster::builder()
            .kubernetes_with(kubeconfig::config(&account.kubeconfig).await?)
            .namespace(namespace.name())
            .environment([("LEASEHOLD_NODE_ID", name)])
            .signals(false)
            .build()
            .await?;
        let service = cluster.service("shards").timing(LeaseTiming::FAST);
        let service = service.partitioned().partitions(PARTITIONS);
        let service = service.hash(HashId::K8sRange1);
        let handle = service.spawn(|partition| async move { partition.draining().await })?;
        let client = kubeconfig::client(&account.kubeconfig).await?;
        let api: Api<ConfigMap> = Api::namespaced(client, namespace.name());
        // Small pages, so that there are several.
        let params = ListParams::default().labels(LABEL).limit(30);
        let mut objects = handle.sharded(api, &params);
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let controller = tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                while let Some(event) = objects.next().await {
                    lock(&seen).take(event);
                }
            }
        });
        Ok(Self {
            name,
            cluster,
            handle,
            seen,
            controller,
        })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// Hands everything over; then its controller has nothing more to do.
    async fn leave(self) -> Result<()> {
        self.handle.shutdown();
        self.handle.finished().await?;
        self.controller.await?;
        self.cluster.close().await;
        Ok(())
    }
}

impl Seen {
    fn take(&mut self, event: ShardedEvent<ConfigMap>) {
        let uid = |object: &ConfigMap| object.metadata.uid.clone().unwrap_or_default();
        match event {
            ShardedEvent::Listed { objects, by_server } => {
                self.listed += 1;
                if !objects.is_empty() {
                    self.by_server.insert(by_server);
                }
                let pairs = objects.into_iter().map(|object| (uid(&object), object));
                self.objects = pairs.collect();
            }
            ShardedEvent::Applied(object) => {
                self.objects.insert(uid(&object), object);
            }
            ShardedEvent::Deleted(object) => {
                self.objects.remove(&uid(&object));
            }
            ShardedEvent::Interrupted(error) => self.interrupted.push(error.to_string()),
            _ => {}
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn create(namespace: &TestNamespace<'_>, numbers: std::ops::Range<u32>) -> Result<()> {
    let api: Api<ConfigMap> = namespace.api();
    let requests = futures::stream::iter(numbers).map(|number| {
        let object = json!({
            "metadata": {"name": format!("object-{number}"), "labels": {"app": "sharded"}},
        });
        let api = api.clone();
        async move {
            let object: ConfigMap = serde_json::from_value(object)?;
            let created = api.create(&PostParams::default(), &object).await;
            created.map(|_| ()).step(|| format!("creating {number}"))
        }
    });
    requests.buffer_unordered(8).try_collect().await
}

async fn delete(namespace: &TestNamespace<'_>, numbers: std::ops::Range<u32>) -> Result<()> {
    let api: Api<ConfigMap> = namespace.api();
    for number in numbers {
        let name = format!("object-{number}");
        api.delete(&name, &DeleteParams::default()).await?;
    }
    Ok(())
}

async fn uids(namespace: &TestNamespace<'_>) -> Result<BTreeSet<String>> {
    let api: Api<ConfigMap> = namespace.api();
    let all = api.list(&ListParams::default().labels(LABEL)).await?;
    Ok(all.into_iter().filter_map(|it| it.metadata.uid).collect())
}

fn uid_of(object: &Value) -> String {
    let uid = object["metadata"]["uid"].as_str();
    uid.unwrap_or_default().to_owned()
}

fn encoded(text: &str) -> String {
    let escapes: Vec<String> = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
    escapes.concat()
}

/// Written anew, so that it shares nothing with what it judges.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// ⌊hash · P / 2⁶⁴⌋
fn partition_of(uid: &str) -> usize {
    let scaled = (u128::from(fnv1a(uid)) * u128::from(PARTITIONS)) >> 64;
    usize::try_from(scaled).unwrap_or(usize::MAX)
}
