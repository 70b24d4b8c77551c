//! Whether servers still show what was made there: one query for each class and interval, and at once
//! when a Redis comes back, since it may have come back empty. Between them nothing is asked at all:
//! that a server went away is seen by an idle connection that ends.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::StreamExt as _;
use tokio::{io::AsyncReadExt as _, net::TcpStream, sync::mpsc, task::AbortHandle, time::Instant};

use crate::{context::Context, credential::servers::Server};

/// How often a server that went away is knocked at.
const KNOCK_EVERY: Duration = Duration::from_millis(200);
/// How long one knock may take.
const KNOCK_MAX: Duration = Duration::from_secs(2);
/// How often new classes are looked for.
const CLASSES_EVERY: Duration = Duration::from_millis(500);
/// How many servers are asked at the same time.
const CONCURRENCY: usize = 8;

/// Watches over all classes in use until it is dropped.
pub async fn run(context: Arc<Context>) {
    let (sender, mut returned) = mpsc::unbounded_channel::<String>();
    let mut lines = Lines::default();
    let mut due: BTreeMap<String, Instant> = BTreeMap::new();
    loop {
        let mut now_due = BTreeSet::new();
        tokio::select! {
            Some(class) = returned.recv() => { now_due.insert(class); }
            () = tokio::time::sleep(CLASSES_EVERY) => {}
        }
        let classes = context.credentials.classes();
        due.retain(|class, _| classes.contains(class));
        for class in &classes {
            let at = *due.entry(class.clone()).or_insert_with(Instant::now);
            if at <= Instant::now() || now_due.contains(class) {
                now_due.insert(class.clone());
                // Without jitter all classes would be asked together.
                let wait = context.timers.drift.mul_f64(rand::random_range(0.9..1.1));
                due.insert(class.clone(), Instant::now() + wait);
            }
            lines.keep(class, addresses(&context, class).await, &sender);
        }
        lines.retain(&classes);
        now_due.retain(|class| classes.contains(class));
        futures::stream::iter(&now_due)
            .for_each_concurrent(CONCURRENCY, |class| survey(&context, class))
            .await;
    }
}

/// Asks one server, and wakes those of whom it shows something else than before.
async fn survey(context: &Context, class: &str) {
    let Some((namespace, _)) = context.credentials.somebody(class) else {
        return;
    };
    let Ok(served) = context.servers.get(class, &namespace).await else {
        return; // those who use it say so themselves
    };
    let surveyed = match &served.server {
        Server::Postgres(server) => server.survey().await,
        Server::Redis(server) => server.survey().await,
    };
    match surveyed {
        Ok(survey) => {
            for (namespace, name) in context.credentials.compare(class, &survey) {
                tracing::debug!(namespace, name, class, "the server shows something else");
                context.beliefs.wake(&namespace, &name);
            }
        }
        Err(error) => {
            tracing::warn!(key = "drift.unseen", class, %error, "drift cannot be seen now");
        }
    }
}

/// Where the nodes of a Redis are; a Postgres keeps its roles when it stops.
async fn addresses(context: &Context, class: &str) -> Vec<String> {
    let Some((namespace, _)) = context.credentials.somebody(class) else {
        return Vec::new();
    };
    let served = context.servers.get(class, &namespace).await;
    let served = served.ok().and_then(|it| it.spec.redis.clone());
    served.map(|it| it.nodes).unwrap_or_default()
}

/// One idle connection for each node.
#[derive(Default)]
struct Lines(BTreeMap<(String, String), AbortHandle>);

impl Lines {
    fn keep(
        &mut self,
        class: &str,
        addresses: Vec<String>,
        returned: &mpsc::UnboundedSender<String>,
    ) {
        for address in addresses {
            let key = (class.to_owned(), address.clone());
            self.0.entry(key).or_insert_with(|| {
                let line = line(class.to_owned(), address, returned.clone());
                tokio::spawn(line).abort_handle()
            });
        }
    }

    fn retain(&mut self, classes: &[String]) {
        self.0.retain(|(class, _), line| {
            let is_used = classes.contains(class);
            if !is_used {
                line.abort();
            }
            is_used
        });
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        for line in self.0.values() {
            line.abort();
        }
    }
}

/// Tells each time a node is there again. It sends nothing, so a node learns nothing from it.
async fn line(class: String, address: String, returned: mpsc::UnboundedSender<String>) {
    let mut was_away = false;
    loop {
        let knocked = tokio::time::timeout(KNOCK_MAX, TcpStream::connect(&address)).await;
        if let Ok(Ok(mut stream)) = knocked {
            if was_away && returned.send(class.clone()).is_err() {
                return;
            }
            let mut byte = [0];
            // Whatever it says, only its end matters.
            while stream.read(&mut byte).await.is_ok_and(|read| read > 0) {}
        }
        was_away = true;
        tokio::time::sleep(KNOCK_EVERY).await;
    }
}
