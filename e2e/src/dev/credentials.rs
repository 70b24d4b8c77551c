//! The story of `make demo-credentials`: logins on a Postgres and a Redis that change
//! three times while clients use them, and come back after what people and machines
//! do to them.

use std::time::{Duration, Instant};

use kube::Client;
use leasehold_crds::BackendKind;
use leasehold_crds::keys::secret as key;

use super::narrator::Narrator;
use super::stage::{NAMESPACE, Stage};
use crate::control_plane::kubeconfig;
use crate::error::{Error, Result};
use crate::logins::{Load, Login, Stores, Tally, working};
use crate::process::Lifetime;
use crate::wait;

/// ClusterService of the story.
const NAME: &str = "orders";
/// Prefix of its classes.
const PREFIX: &str = "main";
/// Where the operator is.
const SYSTEM: &str = "leasehold-system";
/// Clients of each store.
const CLIENTS: u32 = 8;
/// Longest wait for one step.
const STEP_MAX: Duration = Duration::from_mins(2);
/// Clients that are answered for so long are well.
const CALM: Duration = Duration::from_millis(250);

/// Tells the story from an empty machine to the last line.
pub async fn run() -> Result<()> {
    let mut narrator = Narrator::new("Leasehold: passwords that change, and no request that fails");
    let stage = Stage::start(&mut narrator, None, Lifetime::Bound).await?;
    stage
        .install_with(&mut narrator, &["--drift-interval=5s"])
        .await?;
    let client = kubeconfig::client(&stage.plane.admin_kubeconfig()).await?;
    let mut story = Story::begin(&stage, client, &mut narrator).await?;
    story.rotate().await?;
    story.repair().await?;
    story.end()
}

struct Story<'a> {
    narrator: &'a mut Narrator,
    stage: &'a Stage,
    client: Client,
    stores: Stores,
    loads: [(BackendKind, Load); 2],
    /// Failures at times when none is promised away.
    excused: [u64; 2],
}

impl<'a> Story<'a> {
    async fn begin(stage: &'a Stage, client: Client, narrator: &'a mut Narrator) -> Result<Self> {
        narrator.chapter("An administrator says where the servers are, and who may use them");
        let started = Instant::now();
        let stores = Stores::start().await?;
        narrator.took("a Postgres and a Redis", started.elapsed());
        stores
            .declare(&stage.kubectl, PREFIX, SYSTEM, NAMESPACE)
            .await?;
        let ready = [
            "wait",
            "--for=condition=Ready",
            "--timeout=60s",
            "backendclass",
            "--all",
        ];
        stage.kubectl.run(&ready).await?;
        narrator
            .kubectl(&stage.kubectl, &["get", "backendclasses"])
            .await?;

        narrator.chapter("A developer asks for a login on each");
        let service = format!(
            "apiVersion: leasehold.dev/v1alpha1\nkind: ClusterService\nmetadata:\n  name: {NAME}\nspec:\n  \
             postgres: {{className: {PREFIX}-postgres}}\n  redis: {{className: {PREFIX}-redis}}\n  \
             rotation: {{gracePeriod: 5s}}\n"
        );
        narrator.output(&service);
        let started = Instant::now();
        let apply = ["apply", "-f", "-"];
        stage.kubectl.run_with_input(&apply, &service).await?;
        let ready = [
            "wait",
            "--for=condition=Ready",
            "--timeout=60s",
            "csvc/orders",
        ];
        narrator.kubectl(&stage.kubectl, &ready).await?;
        narrator.took("both logins were made and tried", started.elapsed());
        narrator
            .kubectl(&stage.kubectl, &["get", "csvc,secrets"])
            .await?;

        let folder = stage.plane.path().join("bindings");
        let mut loads = Vec::new();
        for kind in BackendKind::ALL {
            let load = Load::start(&client, NAMESPACE, NAME, kind, &folder, CLIENTS).await?;
            loads.push((kind, load));
        }
        let loads = loads.try_into();
        let loads = loads.map_err(|_| Error::new("there are two stores"))?;
        Ok(Self {
            narrator,
            stage,
            client,
            stores,
            loads,
            excused: [0; 2],
        })
    }

    async fn rotate(&mut self) -> Result<()> {
        self.narrator
            .chapter("Three new passwords, while clients of the library go on");
        self.narrator.say(
            "The clients read the Secret as a pod does, from a mounted folder. The former login stays \
             valid for the grace period, and until nobody uses it any more.",
        );
        for round in 1..=3_i64 {
            let before = self.tallies();
            let started = Instant::now();
            let patch = format!("{{\"spec\":{{\"rotation\":{{\"trigger\":\"round {round}\"}}}}}}");
            let change = ["patch", "csvc", NAME, "--type=merge", "-p", &patch];
            self.stage.kubectl.run(&change).await?;
            self.until_alone(round + 1).await?;
            let took = started.elapsed();
            for (now, before) in self.tallies().iter().zip(&before) {
                let seen = now.1.since(&before.1);
                self.narrator.output(&row(round, now.0, &seen, took));
            }
        }
        let path = "jsonpath={range .status.credentials[*]}{.backend}: {.username}, password {.generation}{\"\\n\"}{end}";
        self.narrator
            .kubectl(&self.stage.kubectl, &["get", "csvc", NAME, "-o", path])
            .await
    }

    /// Until this password is in force and the one before has ended, on both stores.
    async fn until_alone(&self, generation: i64) -> Result<()> {
        let what = format!("password {generation} alone");
        wait::until_true(&what, STEP_MAX, || async {
            let path = "jsonpath={.status.credentials[*].generation} \
                        {.status.conditions[?(@.type=='CredentialsCurrent')].status}";
            let shown = self
                .stage
                .kubectl
                .run(&["get", "csvc", NAME, "-o", path])
                .await?;
            Ok(shown.trim() == format!("{generation} {generation} True"))
        })
        .await
    }

    async fn repair(&mut self) -> Result<()> {
        self.narrator
            .chapter("What happens to logins, and how long it takes until they work again");
        let redis = self.login(BackendKind::Redis).await?;
        let before = self.tallies();
        self.stores.redis.restart().await?;
        let back = Instant::now();
        self.until_works(&redis).await?;
        self.narrator.took(
            "Redis restarted, empty: its user is there again",
            back.elapsed(),
        );
        self.excuse_since(&before).await?;

        let postgres = self.login(BackendKind::Postgres).await?;
        let role = postgres.text(key::USERNAME).unwrap_or_default();
        let before = self.tallies();
        self.stores
            .by_superuser(&format!("DROP ROLE \"{role}\""))
            .await?;
        let dropped = Instant::now();
        self.until_works(&postgres).await?;
        self.narrator.took(
            "a role dropped by hand: it is there again",
            dropped.elapsed(),
        );
        self.excuse_since(&before).await?;

        let secret = BackendKind::Postgres.secret_name(NAME);
        self.stage
            .kubectl
            .run(&["delete", "secret", &secret])
            .await?;
        let deleted = Instant::now();
        working(&self.client, NAMESPACE, &secret, STEP_MAX).await?;
        self.narrator.took(
            "a Secret deleted by hand: it has a new login",
            deleted.elapsed(),
        );
        self.narrator
            .kubectl(
                &self.stage.kubectl,
                &[
                    "get",
                    "events",
                    "--field-selector=reason!=LeadershipChanged",
                    "-o",
                    "custom-columns=REASON:.reason,NOTE:.message",
                ],
            )
            .await
    }

    /// Waits until requests are answered again: those that failed since then belong to a repair.
    async fn excuse_since(&mut self, before: &[(BackendKind, Tally); 2]) -> Result<()> {
        wait::until_true("clients that are answered", STEP_MAX, || async {
            let earlier = self.tallies();
            tokio::time::sleep(CALM).await;
            let seen = self.tallies().into_iter().zip(earlier);
            let seen: Vec<Tally> = seen.map(|(now, before)| now.1.since(&before.1)).collect();
            Ok(seen.iter().all(|it| it.failed == 0 && it.answered > 0))
        })
        .await?;
        let now = self.tallies();
        for ((excused, now), before) in self.excused.iter_mut().zip(&now).zip(before) {
            *excused += now.1.since(&before.1).failed;
        }
        Ok(())
    }

    async fn until_works(&self, login: &Login) -> Result<()> {
        wait::closely("a login that works again", STEP_MAX, || async {
            Ok(login.use_it().await.is_ok().then_some(()))
        })
        .await
    }

    async fn login(&self, kind: BackendKind) -> Result<Login> {
        working(&self.client, NAMESPACE, &kind.secret_name(NAME), STEP_MAX).await
    }

    fn tallies(&self) -> [(BackendKind, Tally); 2] {
        self.loads
            .each_ref()
            .map(|(kind, load)| (*kind, load.tally()))
    }

    fn end(self) -> Result<()> {
        self.narrator.chapter("What the clients say");
        let mut unexcused = 0;
        for ((kind, tally), excused) in self.tallies().iter().zip(self.excused) {
            let failed = tally.failed.saturating_sub(excused);
            unexcused += failed;
            let problem = tally
                .problem
                .as_deref()
                .filter(|_| failed > 0)
                .unwrap_or_default();
            self.narrator.output(&format!(
                "{:<9} {:>9} requests answered, {failed} failed; {excused} more while their server or \
                 their login was gone {problem}",
                kind.as_str(),
                tally.answered,
            ));
        }
        self.narrator
            .took("the whole story", self.narrator.elapsed());
        if unexcused > 0 {
            return Err(Error::new(format!(
                "{unexcused} requests failed that should not"
            )));
        }
        Ok(())
    }
}

fn row(round: i64, kind: BackendKind, seen: &Tally, took: Duration) -> String {
    let rate = seen.answered as f64 / took.as_secs_f64();
    format!(
        "rotation {round}  {:<9} {:>8} requests ({rate:>6.0}/s), {} failed; {:>5.1} s until the former login had \
         ended{}",
        kind.as_str(),
        seen.answered,
        seen.failed,
        took.as_secs_f64(),
        seen.problem
            .as_ref()
            .map(|it| format!(": {it}"))
            .unwrap_or_default(),
    )
}
