//! The only wiring: client, watches, HTTP, our own election, and the controllers inside it.

use std::{future::Future, path::Path, sync::Arc, time::Duration};

use futures::future::{join, join_all, join3};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use kube_runtime::reflector::{self, Store};
use leasehold::{Cluster, Leadership, Scope};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

use crate::{
    admin::{self, Admin},
    args::{Args, LogFormat},
    belief::{Beliefs, Guarded, classes::GuardedClass, record::shortened},
    context::{Context, Failures, Namespaces, Timers},
    controller::{backend_class, cluster_service, credentials},
    credential::{
        installation::Installation,
        servers::{Limits, Servers},
        state::{Effects, State},
        tenants::Tenants,
    },
    metrics::Metrics,
    watch::{Watcher, classes::CLASSES, sweep},
};

/// Cluster id of the operator's own election.
pub const SERVICE: &str = "leasehold-operator";
/// How often the API server is tried at start, once a second.
const START_ATTEMPTS: u32 = 30;
/// Fresh credentials may take a moment to be known.
const REFUSED_ATTEMPTS: u32 = 3;

/// Why the operator ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The kubeconfig cannot be used.
    #[error("{origin} cannot be used: {problem}")]
    Kubeconfig {
        /// Which file or place.
        origin: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The API server does not know the credentials.
    #[error(
        "the API server {server} refuses the credentials (401 Unauthorized): the token or certificate has expired or is not of this cluster"
    )]
    Credentials {
        /// Its address.
        server: String,
    },
    /// The API server cannot be reached.
    #[error(
        "the API server {server} gave no answer in {START_ATTEMPTS} attempts; the last one said: {problem}"
    )]
    Unreachable {
        /// Its address.
        server: String,
        /// What the last attempt said.
        problem: String,
    },
    /// The HTTP address cannot be bound.
    #[error(
        "--metrics-address {address} cannot be bound: {source}; choose another address or port"
    )]
    MetricsAddress {
        /// What was given.
        address: std::net::SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// Our own election cannot begin.
    #[error("the operator's own election cannot begin: {0}")]
    Election(String),
    /// A part that should never end did.
    #[error("{0} ended unexpectedly")]
    PartEnded(&'static str),
    /// What was asked for cannot be read.
    #[error("{what} cannot be read: {problem}")]
    Unread {
        /// Which objects.
        what: String,
        /// What the API server or its answer says.
        problem: String,
    },
    /// The runtime could not be made.
    #[error("the async runtime cannot be started: {0}")]
    Runtime(std::io::Error),
}

impl RunError {
    /// 2: it cannot work as configured; 1: it stopped working.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Kubeconfig { .. } | Self::MetricsAddress { .. } | Self::Credentials { .. } => 2,
            Self::Unreachable { .. }
            | Self::Unread { .. }
            | Self::Election(_)
            | Self::PartEnded(_)
            | Self::Runtime(_) => 1,
        }
    }
}

/// Log lines to stderr; `RUST_LOG` chooses which.
pub fn start_log(format: LogFormat) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,kube_client=warn"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .init(),
        LogFormat::Json => log.json().init(),
    }
}

/// Runs the operator on a runtime of its own until a signal ends it.
pub fn in_runtime(args: Args) -> Result<(), RunError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(RunError::Runtime)?
        .block_on(run(args))
}

/// Runs the operator until a signal ends it.
pub async fn run(args: Args) -> Result<(), RunError> {
    // Bound first: a port in use is known at once, and probes get answers while we wait for the rest.
    let listener = TcpListener::bind(args.metrics_address)
        .await
        .map_err(|source| RunError::MetricsAddress {
            address: args.metrics_address,
            source,
        })?;
    let mut timers = Timers::divided_by(args.timers_divisor);
    timers.drift = args.drift_interval.map_or(timers.drift, |it| it.0);
    let beliefs = Arc::new(Beliefs::default());
    let metrics = Arc::new(Metrics::default());
    let (cluster_sender, cluster_receiver) = watch::channel(None);
    let mut parts = JoinSet::new();
    let admin = Admin {
        beliefs: beliefs.clone(),
        metrics: metrics.clone(),
        cluster: cluster_receiver,
    };
    parts.spawn(async move {
        let result = admin::serve(listener, admin).await;
        tracing::error!(key = "operator.http_ended", ?result);
        "the HTTP surface"
    });

    let config = config(args.kubeconfig.as_deref()).await?;
    let client = reach(&config).await?;
    let mut regions = Vec::new();
    begin_watches(&beliefs, &args);
    let watcher = |region: Option<String>| Watcher {
        client: client.clone(),
        region,
        beliefs: beliefs.clone(),
        metrics: metrics.clone(),
        timers,
    };
    for region in args.regions() {
        let (store, writer) = reflector::store();
        let watcher = watcher(region.clone());
        if args.secrets_watch {
            let watched = watcher.clone().watch_secrets();
            parts.spawn(ended(watched, "the watch of Secrets"));
        }
        parts.spawn(ended(
            watcher.clone().watch_services(writer),
            "the watch of ClusterServices",
        ));
        parts.spawn(ended(watcher.watch_leases(), "the watch of Leases"));
        regions.push((region, store));
    }
    parts.spawn(ended(sweep(beliefs.clone(), timers), "the sweep"));

    let serves_all = args.regions() == [None];
    let namespace = args
        .lease_namespace
        .unwrap_or_else(|| config.default_namespace.clone());
    let class_namespace = args.class_namespace.unwrap_or_else(|| namespace.clone());
    let (classes, class_writer) = reflector::store();
    parts.spawn(ended(
        watcher(None).watch_classes(class_writer, class_namespace.clone()),
        "the watch of BackendClasses",
    ));
    if args.secrets_watch {
        let watched = watcher(None).watch_class_secrets(class_namespace.clone());
        parts.spawn(ended(watched, "the watch of the Secrets of classes"));
    }
    let installation = Arc::new(Installation::new(client.clone(), args.installation_id));
    if let Err(error) = installation.id().await {
        let help = "give --installation-id, or the right";
        tracing::warn!(key = "installation.unknown", %error, help, "no credentials are made until it is known");
    }
    let cluster = Cluster::builder()
        .kubernetes_with(config)
        .namespace(namespace)
        .build()
        .await
        .map_err(|error| RunError::Election(error.to_string()))?;
    cluster_sender.send_replace(Some(cluster.clone()));
    let shared = Shared {
        installation,
        classes,
        class_namespace,
        serves_all,
        client,
        beliefs,
        metrics,
        timers,
        instance: cluster.node_id().to_string(),
        crash_after: args.crash_after_effects,
    };
    let election = cluster
        .service(SERVICE)
        .scope(Scope::Cluster)
        .leader_elected()
        .run(move |leadership| lead(shared.clone(), regions.clone(), leadership));
    tokio::select! {
        result = election => result.map_err(|error| RunError::Election(error.to_string()))?,
        part = parts.join_next() => {
            let part = part.and_then(Result::ok).unwrap_or("a part of the operator");
            return Err(RunError::PartEnded(part));
        }
    }
    cluster.close().await;
    Ok(())
}

/// Noted before any of them delivers, so that nobody takes what the others listed for everything.
fn begin_watches(beliefs: &Beliefs, args: &Args) {
    for region in args.regions() {
        beliefs.watch_begins(&crate::watch::services(region.as_deref()));
        beliefs.watch_begins(&crate::watch::leases(region.as_deref()));
        if args.secrets_watch {
            beliefs.optional_watch_begins(&crate::watch::secrets::secrets(region.as_deref()));
        }
    }
    beliefs.optional_watch_begins(crate::watch::classes::CLASSES);
}

async fn ended(part: impl Future<Output = ()>, name: &'static str) -> &'static str {
    part.await;
    name
}

/// What outlives a leadership.
#[derive(Clone)]
struct Shared {
    installation: Arc<Installation>,
    classes: Store<GuardedClass>,
    class_namespace: String,
    serves_all: bool,
    client: Client,
    beliefs: Arc<Beliefs>,
    metrics: Arc<Metrics>,
    timers: Timers,
    instance: String,
    crash_after: Option<u64>,
}

/// The work of the leader. Dropped at the deadline, it writes nothing more; while it drains it finishes
/// the passes that run.
async fn lead(
    shared: Shared,
    regions: Vec<(Option<String>, Store<Guarded>)>,
    leadership: Leadership,
) {
    let _leading = Leading::begin(&shared.metrics);
    let timers = shared.timers;
    let limit = timers.request_timeout;
    let tenants = Tenants::new(shared.client.clone(), shared.beliefs.clone(), limit);
    let tenants = Arc::new(tenants);
    // New with each leadership: nothing of a former one reaches a server.
    let servers = Servers::new(
        shared.client.clone(),
        shared.beliefs.clone(),
        tenants.clone(),
        shared.classes.clone(),
        shared.class_namespace,
        Limits {
            request: limit,
            unwatched: timers.recheck,
            again: timers.recheck / 6,
        },
    );
    let context = Arc::new(Context {
        tenants,
        servers: Arc::new(servers),
        installation: shared.installation,
        serves_all: shared.serves_all,
        credentials: State::new(Effects::until(shared.crash_after)),
        client: shared.client,
        gate: Arc::new(leadership.clone()),
        beliefs: shared.beliefs,
        metrics: shared.metrics.clone(),
        timers: shared.timers,
        instance: shared.instance,
        failures: Failures::default(),
        namespaces: Namespaces::default(),
    });
    let controllers = regions.into_iter().map(|(region, store)| {
        let (context, leadership) = (context.clone(), leadership.clone());
        async move {
            tokio::select! {
                () = leases_known(&context, region.as_deref()) => {}
                () = drained(leadership.clone()) => return,
            }
            let logins = credentials::run(
                context.clone(),
                region.clone(),
                store.clone(),
                drained(leadership.clone()),
            );
            let services = cluster_service::run(context, region, store, drained(leadership));
            join(services, logins).await;
        }
    });
    let classes = {
        let (context, leadership) = (context.clone(), leadership.clone());
        async move {
            tokio::select! {
                () = classes_known(&context) => {}
                () = drained(leadership.clone()) => return,
            }
            backend_class::run(context, shared.classes, drained(leadership)).await;
        }
    };
    let drift = {
        let (context, leadership) = (context.clone(), leadership.clone());
        async move {
            tokio::select! {
                () = credentials::drift::run(context) => {}
                () = drained(leadership) => {}
            }
        }
    };
    join3(join_all(controllers), classes, drift).await;
}

/// Without the classes nothing can be said of them; without their kind there is nothing to say.
async fn classes_known(context: &Context) {
    loop {
        let watches = context.beliefs.watches();
        if watches.get(CLASSES).is_some_and(|it| it.is_synced) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn drained(leadership: Leadership) {
    leadership.draining().await;
}

/// Without the Leases every status would be wrong; if they cannot be listed, status says so.
async fn leases_known(context: &Context, region: Option<&str>) {
    let name = crate::watch::leases(region);
    loop {
        let watches = context.beliefs.watches();
        if watches
            .get(&name)
            .is_some_and(|it| it.is_synced || it.problem.is_some())
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Keeps the metric right however the leadership ends.
struct Leading(Arc<Metrics>);

impl Leading {
    fn begin(metrics: &Arc<Metrics>) -> Self {
        metrics.leading.set(1);
        tracing::info!(key = "operator.leading", "this replica leads");
        Self(metrics.clone())
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.0.leading.set(0);
        tracing::info!(key = "operator.standby", "this replica leads no more");
    }
}

/// The given kubeconfig; else the pod's service account; else the usual kubeconfig.
pub(crate) async fn config(kubeconfig: Option<&Path>) -> Result<Config, RunError> {
    if let Some(path) = kubeconfig {
        let origin = format!("--kubeconfig {}", path.display());
        let unusable = |problem: String| RunError::Kubeconfig {
            origin: origin.clone(),
            problem,
        };
        let read = Kubeconfig::read_from(path).map_err(|error| unusable(with_sources(&error)))?;
        return Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
            .await
            .map_err(|error| unusable(with_sources(&error)));
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Config::incluster().map_err(|error| RunError::Kubeconfig {
            origin: "the pod's service account".to_owned(),
            problem: with_sources(&error),
        });
    }
    Config::from_kubeconfig(&KubeConfigOptions::default())
        .await
        .map_err(|error| RunError::Kubeconfig {
            origin: "the kubeconfig ($KUBECONFIG or ~/.kube/config)".to_owned(),
            problem: with_sources(&error),
        })
}

/// A client of an API server that answers and knows us; bounded attempts.
async fn reach(config: &Config) -> Result<Client, RunError> {
    let server = config.cluster_url.to_string();
    let client = Client::try_from(config.clone()).map_err(|error| RunError::Kubeconfig {
        origin: "the client configuration".to_owned(),
        problem: with_sources(&error),
    })?;
    let mut problem = String::new();
    let mut refused = 0;
    for attempt in 1..=START_ATTEMPTS {
        let answer = tokio::time::timeout(Duration::from_secs(5), client.apiserver_version()).await;
        match answer {
            Ok(Ok(_version)) => return Ok(client),
            Ok(Err(kube::Error::Api(status))) if status.code == 401 => refused += 1,
            // Whoever may not ask for the version is known all the same.
            Ok(Err(kube::Error::Api(status))) if status.is_forbidden() => return Ok(client),
            Ok(Err(error)) => problem = shortened(&with_sources(&error)),
            Err(_elapsed) => "no answer within 5 s".clone_into(&mut problem),
        }
        if refused == REFUSED_ATTEMPTS {
            return Err(RunError::Credentials { server });
        }
        tracing::warn!(
            key = "operator.waiting",
            server,
            attempt,
            problem,
            "the API server cannot be used yet"
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Err(RunError::Unreachable { server, problem })
}

/// The whole chain: the outermost error of a client rarely says what happened.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}
