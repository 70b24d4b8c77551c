//! Where a password could stand, and which there ever were.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use leasehold_crds::{BackendClass, ClusterService, keys};
use leasehold_e2e::needle::Needle;
use leasehold_e2e::{Error, Result, Step as _, wait};
use serde_json::json;

use crate::ground::Ground;
use crate::stage::{MINUTE, Operator, declare};

/// Where a server may note what it needs of a password: a verifier, which lets nobody in.
pub(super) const OF_POSTGRES: &str = "log of Postgres";

/// What Redis shows to MONITOR, of one server after another.
pub(super) struct Monitor {
    seen: Arc<Mutex<String>>,
    task: tokio::task::JoinHandle<()>,
}

impl Monitor {
    pub(super) async fn start(ground: &Ground) -> Result<Self> {
        let seen = Arc::new(Mutex::new(String::new()));
        let (kept, url) = (Arc::clone(&seen), ground.stores.redis.url().to_owned());
        let task = tokio::spawn(async move {
            loop {
                let _ended = monitor(&url, &kept).await; // it was restarted
            }
        });
        let started = Self { seen, task };
        ground
            .until("a monitor", || async { Ok(started.text().contains("OK")) })
            .await?;
        Ok(started)
    }

    fn text(&self) -> String {
        self.seen.lock().expect("nobody panics").clone()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn monitor(url: &str, kept: &Mutex<String>) -> Result<()> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (login, place) = url
        .trim_start_matches("redis://:")
        .trim_end_matches('/')
        .split_once('@')
        .ok_or_else(|| Error::new("no login"))?;
    let connected = wait::until("Redis", MINUTE, || async {
        Ok(tokio::net::TcpStream::connect(place).await.ok())
    });
    let mut stream = connected.await?;
    let begin = format!(
        "AUTH {login}\r\nCONFIG SET slowlog-log-slower-than 0\r\nCONFIG SET slowlog-max-len 100000\r\nMONITOR\r\n"
    );
    stream.write_all(begin.as_bytes()).await?;
    let mut buffer = [0; 8192];
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        kept.lock().expect("nobody panics").push_str(&text);
    }
}

/// Everything secret that ever stood in the Secrets of logins.
pub(super) struct Collected {
    seen: Arc<Mutex<BTreeMap<String, String>>>,
    task: tokio::task::JoinHandle<Result<()>>,
}

impl Collected {
    pub(super) fn follow(secrets: Api<Secret>) -> Self {
        let seen = Arc::new(Mutex::new(BTreeMap::new()));
        let kept = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let ours = WatchParams::default()
                .labels(keys::LABEL_CREDENTIAL)
                .timeout(290);
            let mut versions = secrets.watch(&ours, "0").await?.boxed();
            while let Some(version) = versions.next().await {
                let (WatchEvent::Added(secret) | WatchEvent::Modified(secret)) = version? else {
                    continue;
                };
                let mut kept = kept.lock().expect("nobody panics");
                for (name, text) in of_secret(&secret) {
                    kept.insert(text, name);
                }
            }
            Ok(())
        });
        Self { seen, task }
    }

    pub(super) fn needles(&self, passwords_min: usize) -> Result<Vec<Needle>> {
        if self.task.is_finished() {
            return Err(Error::new("the watch of Secrets ended too early"));
        }
        let seen = self.seen.lock().expect("nobody panics");
        let passwords = seen.values().filter(|it| it.ends_with("password")).count();
        assert!(
            passwords >= passwords_min,
            "only {passwords} passwords were seen"
        );
        Ok(seen
            .iter()
            .filter_map(|(text, name)| Needle::new(name, text))
            .collect())
    }
}

impl Drop for Collected {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Name and text of what is secret in a Secret.
pub(super) fn of_secret(secret: &Secret) -> Vec<(String, String)> {
    let name = secret.name_any();
    let data = secret.data.iter().flatten();
    let hidden = data.filter(|(key, _)| {
        key.ends_with("password") || key.ends_with("verifier") || *key == keys::secret::URI
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    hidden
        .map(|(key, value)| (format!("{name} {key}"), text(&value.0)))
        .collect()
}

/// Where nothing of it may stand.
pub(super) struct Places<'a> {
    pub(super) ground: &'a Ground,
    pub(super) operator: &'a Operator,
    pub(super) monitor: &'a Monitor,
    /// Folder of the control plane.
    pub(super) logs: &'a Path,
}

impl Places<'_> {
    pub(super) async fn read(&self) -> Result<BTreeMap<String, String>> {
        let (ground, client) = (self.ground, self.ground.namespace.client());
        let all = ListParams::default();
        let services: Api<ClusterService> = ground.namespace.api();
        let events: Api<Event> = ground.namespace.api();
        let classes: Api<BackendClass> = Api::all(client);
        let mut admin = ground.stores.redis_admin().await?;
        let slow: redis::Value = redis::cmd("SLOWLOG")
            .arg("GET")
            .arg(-1)
            .query_async(&mut admin)
            .await?;
        let file = |path: &Path| -> Result<String> {
            let bytes = std::fs::read(path).step(|| format!("reading {}", path.display()))?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let log =
            |folder: &Path, name: &str| file(&folder.join("logs").join(format!("{name}.log")));
        let (postgres, redis) = (&ground.stores.postgres, &ground.stores.redis);
        let mut texts = vec![
            ("log of the operator", file(self.operator.process().log())?),
            (OF_POSTGRES, log(postgres.path(), "postgres")?),
            ("MONITOR of Redis", self.monitor.text()),
            ("slow log of Redis", format!("{slow:?}")),
            ("audit log", file(&self.logs.join("audit.log"))?),
            (
                "ClusterServices",
                json!(services.list(&all).await?.items).to_string(),
            ),
            (
                "BackendClasses",
                json!(classes.list(&all).await?.items).to_string(),
            ),
            ("Events", json!(events.list(&all).await?.items).to_string()),
        ];
        for page in ["/metrics", "/readyz", "/debug/cluster"] {
            texts.push((page, self.operator.page(page).await?));
        }
        // Nothing can be put into these on purpose; they count as parts of one place.
        let mut quiet = log(redis.path(), "redis")?;
        for name in [
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "etcd",
        ] {
            quiet.push_str(&log(self.logs, name)?);
        }
        texts[0].1.push_str(&quiet);
        Ok(texts
            .into_iter()
            .map(|(place, text)| (place.to_owned(), text))
            .collect())
    }

    /// Writes a text into every place.
    pub(super) async fn plant(&self, canary: &str) -> Result<()> {
        let ground = self.ground;
        ground.stores.ask(&format!("SELECT '{canary}'")).await?;
        let mut admin = ground.stores.redis_admin().await?;
        let _: String = redis::cmd("ECHO")
            .arg(canary)
            .query_async(&mut admin)
            .await?;
        let namespace = ground.namespace.name();
        // Its name stands in the log and on the page of the operator, and in the audit log.
        declare(&ground.namespace, canary, ground.spec(&json!({}))).await?;
        let classes: Api<BackendClass> = Api::all(ground.namespace.client());
        let note = Patch::Merge(json!({"metadata": {"annotations": {"note": canary}}}));
        let class = format!("{namespace}-redis");
        classes
            .patch(&class, &PatchParams::default(), &note)
            .await?;
        let events: Api<Event> = ground.namespace.api();
        let event = serde_json::from_value(json!({
            "metadata": {"name": "note", "namespace": namespace}, "note": canary,
            "reason": "Note", "action": "Note", "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "leasehold.dev/test", "reportingInstance": "test",
            "regarding": {"kind": "Namespace", "name": namespace, "namespace": namespace},
        }))?;
        events
            .create(&PostParams::default(), &event)
            .await
            .map(drop)
            .step(|| "making an Event")
    }
}
