//! Two servers, their classes, an operator, and a service that wants a login on each.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use leasehold_crds::{ClusterService, ClusterServiceStatus};
use leasehold_e2e::kubectl::Kubectl;
use leasehold_e2e::logins::{self, Login, Stores};
use leasehold_e2e::{Result, Step as _, TestNamespace, wait};
use serde_json::{Value, json};

use crate::stage::{MINUTE, Operator, condition, declare, namespace, operator_kubeconfig, shown};

/// Name of the service in every test.
pub(crate) const NAME: &str = "orders";
/// Its Secrets.
pub(crate) const SECRETS: [&str; 2] = ["orders-postgres", "orders-redis"];

pub(crate) struct Ground {
    operator: Option<Operator>,
    pub(crate) stores: Stores,
    pub(crate) namespace: TestNamespace<'static>,
}

impl Ground {
    /// An operator and two classes; nothing is declared yet.
    pub(crate) async fn prepare(test: &str) -> Result<Self> {
        Self::prepare_with(test, &[]).await
    }

    /// The same with more arguments for the operator.
    pub(crate) async fn prepare_with(test: &str, more: &[&str]) -> Result<Self> {
        let mut ground = Self::without_operator(test).await?;
        let operator = ground.another(ground.namespace.name(), more).await?;
        operator.wait_until_leading().await?;
        ground.operator = Some(operator);
        Ok(ground)
    }

    /// Two classes.
    pub(crate) async fn without_operator(test: &str) -> Result<Self> {
        let namespace = namespace(test).await?;
        let stores = Stores::start().await?;
        let kubectl = Kubectl::new(&namespace.cluster().admin_kubeconfig());
        let name = namespace.name();
        stores.declare(&kubectl, name, name, name).await?;
        Ok(Self {
            operator: None,
            stores,
            namespace,
        })
    }

    /// Starts an operator for the namespace.
    pub(crate) async fn another(&self, log: &str, more: &[&str]) -> Result<Operator> {
        let talk = "info,leasehold=debug,leasehold_operator=debug";
        self.another_talking(log, more, talk).await
    }

    /// The same, logging what `talk` chooses.
    pub(crate) async fn another_talking(
        &self,
        log: &str,
        more: &[&str],
        talk: &str,
    ) -> Result<Operator> {
        let cluster = self.namespace.cluster();
        let kubeconfig = operator_kubeconfig(cluster, self.namespace.name()).await?;
        let name = self.namespace.name();
        let mut ours = vec!["--class-namespace", name];
        if !more.contains(&"--drift-interval") {
            ours.extend(["--drift-interval", "1s"]);
        }
        let (place, more) = ((log, name), [&ours[..], more].concat());
        Operator::start_talking(cluster, &kubeconfig, place, &[name], &more, talk).await
    }

    /// The process of the operator.
    pub(crate) fn pid(&self) -> i32 {
        let operator = self.operator.as_ref().expect("an operator");
        operator.process().record().pid
    }

    /// The operator goes, and nothing else does.
    pub(crate) fn uninstall(&mut self) {
        self.operator = None;
    }

    /// Another operator in its place.
    pub(crate) async fn succeed(&mut self, more: &[&str]) -> Result<()> {
        self.operator = None;
        let leases: Api<Lease> = self.namespace.api();
        // Nobody has to wait until the dead one's Lease runs out.
        let lease = "leasehold-operator.leader";
        drop(leases.delete(lease, &DeleteParams::default()).await);
        let log = format!("{}-next", self.namespace.name());
        let operator = self.another(&log, more).await?;
        operator.wait_until_leading().await?;
        self.operator = Some(operator);
        Ok(())
    }

    /// The test is over, and nothing of it is needed any more.
    pub(crate) async fn finish(self) -> Result<()> {
        drop(self.operator);
        self.namespace.finish().await
    }

    /// A service with both logins, and whatever else its spec says; waits until it is ready.
    pub(crate) async fn service(&self, more: &Value) -> Result<ClusterServiceStatus> {
        declare(&self.namespace, NAME, self.spec(more)).await?;
        self.ready().await
    }

    pub(crate) fn spec(&self, more: &Value) -> Value {
        let prefix = self.namespace.name();
        let mut spec = json!({
            "postgres": {"className": format!("{prefix}-postgres")},
            "redis": {"className": format!("{prefix}-redis")},
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        spec
    }

    pub(crate) async fn ready(&self) -> Result<ClusterServiceStatus> {
        self.shows("a service whose logins were tried", |status| {
            status.credentials.len() == 2 && condition(status, "Ready").0 == "True"
        })
        .await
    }

    /// What the service says of itself.
    pub(crate) async fn status(&self) -> Result<ClusterServiceStatus> {
        let services: Api<ClusterService> = self.namespace.api();
        Ok(services.get(NAME).await?.status.unwrap_or_default())
    }

    pub(crate) async fn shows(
        &self,
        what: &str,
        is_wanted: impl Fn(&ClusterServiceStatus) -> bool,
    ) -> Result<ClusterServiceStatus> {
        shown(&self.namespace, NAME, what, is_wanted).await
    }

    /// Changes the spec.
    pub(crate) async fn patch(&self, spec: Value) -> Result<()> {
        let services: Api<ClusterService> = self.namespace.api();
        let patch = Patch::Merge(json!({"spec": spec}));
        let patched = services.patch(NAME, &PatchParams::default(), &patch).await;
        patched.map(drop).step(|| "changing the spec")
    }

    /// A login that works.
    pub(crate) async fn login(&self, secret: &str) -> Result<Login> {
        let (client, name) = (self.namespace.client(), self.namespace.name());
        logins::working(&client, name, secret, MINUTE).await
    }

    /// A login of this generation, in force and without a former one.
    pub(crate) async fn rotated_to(&self, generation: i64) -> Result<ClusterServiceStatus> {
        let what = format!("password {generation} alone");
        self.shows(&what, |status| {
            status
                .credentials
                .iter()
                .all(|it| it.generation == generation)
                && condition(status, "CredentialsCurrent").0 == "True"
        })
        .await
    }

    /// Roles and databases of ours on Postgres, users of ours on Redis.
    pub(crate) async fn on_servers(&self) -> Result<(Vec<String>, Vec<String>)> {
        let roles = "SELECT rolname::text FROM pg_roles WHERE rolname LIKE 'lh\\_%' \
                     UNION ALL SELECT datname::text FROM pg_database WHERE datname LIKE 'lh\\_%' ORDER BY 1";
        let roles = self.stores.ask(roles).await?;
        let mut admin = self.stores.redis_admin().await?;
        let users: Vec<String> = redis::cmd("ACL")
            .arg("USERS")
            .query_async(&mut admin)
            .await?;
        Ok((
            roles,
            users
                .into_iter()
                .filter(|it| it.starts_with("lh_"))
                .collect(),
        ))
    }

    /// Waits for something that a short look tells.
    pub(crate) async fn until<F>(&self, what: &str, look: impl Fn() -> F) -> Result<()>
    where
        F: Future<Output = Result<bool>>,
    {
        wait::until_true(what, Duration::from_mins(1), look).await
    }
}
