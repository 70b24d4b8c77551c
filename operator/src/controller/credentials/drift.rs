//! Whether servers still show what was made there: one query for each class and interval, and at once
//! when a server comes back, fails over or grows.
//!
//! A Redis may come back empty, and a Postgres without its last changes. Between two intervals nothing
//! is asked: that a server went away is seen by idle connections that end (`lines`). A group of Redis
//! nodes alone is asked every two seconds who belongs to it, since nobody tells of a new replica.
//!
//! A Redis keeps no generation, so a former leader that stood still may write late (C5): after each
//! change of leadership it is looked at more often for a while.

mod lines;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::{
    sync::mpsc,
    task::AbortHandle,
    time::{Instant, sleep},
};

use crate::{
    backend::BackendError,
    context::{Context, Timers},
    credential::servers::{Served, Server},
};
use lines::{Lines, Whom};

/// How often it is decided what to do.
const TICK: Duration = Duration::from_millis(250);
/// How often a group is asked who belongs to it.
const MEMBERS_EVERY: Duration = Duration::from_secs(2);
/// First and longest wait until what failed is tried again.
const AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(2));

/// Watches over all classes in use until it is dropped.
pub async fn run(context: Arc<Context>) {
    let mut watched = Watched::default();
    loop {
        let classes = context.credentials.classes();
        watched.0.retain(|class, task| {
            let is_used = classes.contains(class);
            if !is_used {
                task.abort();
            }
            is_used
        });
        for class in classes {
            let task = Watch::new(context.clone(), class.clone(), watched.1);
            let spawn = || tokio::spawn(task.run()).abort_handle();
            watched.0.entry(class).or_insert_with(spawn);
        }
        sleep(TICK).await;
    }
}

/// A task for each class, so that none waits for another's server; and since when we lead.
struct Watched(BTreeMap<String, AbortHandle>, Instant);

impl Default for Watched {
    fn default() -> Self {
        Self(BTreeMap::new(), Instant::now())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.values().for_each(AbortHandle::abort);
    }
}

/// One class.
struct Watch {
    context: Arc<Context>,
    class: String,
    /// Since when we lead.
    leading: Instant,
    /// When the next look is due anyway.
    due: Instant,
    /// Something happened that was not looked at yet.
    is_stirred: bool,
    look: Pace,
    members_at: Instant,
    members: Option<Vec<String>>,
    rescue: Pace,
}

impl Watch {
    fn new(context: Arc<Context>, class: String, leading: Instant) -> Self {
        let now = Instant::now();
        Self {
            context,
            class,
            leading,
            due: now,
            is_stirred: false,
            look: Pace::new(now),
            members_at: now,
            members: None,
            rescue: Pace::new(now),
        }
    }

    async fn run(mut self) {
        let (sender, mut stirs) = mpsc::unbounded_channel();
        let mut lines = Lines::new(self.context.clone(), self.class.clone(), sender);
        loop {
            tokio::select! {
                Some(()) = stirs.recv() => {
                    self.is_stirred = true;
                    self.look = Pace::new(Instant::now());
                }
                () = sleep(TICK) => {}
            }
            self.rescue();
            let Some((namespace, _)) = self.context.credentials.somebody(&self.class) else {
                continue;
            };
            let Ok(served) = self.context.servers.get(&self.class, &namespace).await else {
                continue; // those who use it say so themselves
            };
            lines.keep(&whom(&served));
            if let Server::Redis(server) = &served.server
                && server.may_grow()
                && self.members_at <= Instant::now()
            {
                self.members_at = Instant::now() + MEMBERS_EVERY;
                // Silence is seen by the lines.
                if let Ok(members) = server.members().await {
                    let had = self.members.replace(members.clone());
                    self.is_stirred |= had.is_some_and(|had| had != members);
                }
            }
            let now = Instant::now();
            if self.due <= now || (self.is_stirred && self.look.is_due(now)) {
                self.survey(&served).await;
            }
        }
    }

    /// Asks the server, and wakes those of whom it shows something else than before.
    async fn survey(&mut self, served: &Served) {
        let is_redis = matches!(served.server, Server::Redis(_));
        let wait = interval(&self.context.timers, is_redis, self.leading.elapsed());
        // Without jitter all classes would be asked together.
        self.due = Instant::now() + wait.mul_f64(rand::random_range(0.9..1.1));
        let surveyed = match &served.server {
            Server::Postgres(server) => server.survey().await,
            Server::Redis(server) => {
                async {
                    if self.is_stirred || server.may_grow() {
                        server.changes().await?; // finds the nodes anew
                    }
                    server.survey().await
                }
                .await
            }
        };
        match surveyed {
            Ok(survey) => {
                let class = self.class.as_str();
                for (namespace, name) in self.context.credentials.compare(class, &survey) {
                    tracing::debug!(namespace, name, class, "the server shows something else");
                    self.context.beliefs.wake(&namespace, &name);
                }
                if std::mem::take(&mut self.is_stirred) {
                    self.context.beliefs.classes().trigger(class); // its status is old
                }
                self.look = Pace::new(Instant::now());
            }
            Err(error) => self.is_away(&error),
        }
    }

    fn is_away(&mut self, error: &BackendError) {
        if self.look.is_fresh() {
            let class = self.class.as_str();
            tracing::warn!(key = "drift.unseen", class, %error, "drift cannot be seen now");
        }
        self.is_stirred = true;
        self.look.slow_down();
    }

    /// Those who wait out a long back-off since their server was away are helped: one of them tries
    /// early, and if it succeeds, all the others follow.
    fn rescue(&mut self) {
        let now = Instant::now();
        if !self.rescue.is_due(now) {
            return;
        }
        match self.context.credentials.someone_stuck(&self.class) {
            Some((namespace, name)) => {
                self.context.beliefs.wake(&namespace, &name);
                self.rescue.slow_down();
            }
            None => self.rescue = Pace::new(now),
        }
    }
}

/// By what it is noticed that a server went away.
fn whom(served: &Served) -> Vec<Whom> {
    match (&served.server, &served.spec.postgres) {
        (Server::Redis(server), _) => server.addresses().into_iter().map(Whom::Node).collect(),
        // A pooler stays when the server goes.
        (Server::Postgres(_), Some(spec)) if !spec.pooled => vec![Whom::Session],
        (Server::Postgres(_), _) => Vec::new(),
    }
}

/// How long until the next look, if nothing happens.
fn interval(timers: &Timers, is_redis: bool, leading: Duration) -> Duration {
    let (often, long) = timers.reread;
    if is_redis && leading < long {
        timers.drift.min(often)
    } else {
        timers.drift
    }
}

/// Longer and longer waits.
struct Pace {
    at: Instant,
    wait: Duration,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self {
            at: now,
            wait: AGAIN.0,
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.at <= now
    }

    fn is_fresh(&self) -> bool {
        self.wait == AGAIN.0
    }

    fn slow_down(&mut self) {
        self.at = Instant::now() + self.wait;
        self.wait = (self.wait * 2).min(AGAIN.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redis_is_read_again_every_ten_seconds_for_a_minute_of_a_leadership() {
        let timers = Timers::divided_by(1);
        let seconds = Duration::from_secs;
        let wait = |is_redis, leading| interval(&timers, is_redis, seconds(leading));
        assert_eq!(wait(true, 0), seconds(10));
        assert_eq!(wait(true, 59), seconds(10));
        assert_eq!(wait(true, 60), seconds(60));
        assert_eq!(
            wait(false, 0),
            seconds(60),
            "a Postgres refuses what is late"
        );
        let often = Timers {
            drift: seconds(1),
            ..timers
        };
        assert_eq!(interval(&often, true, seconds(0)), seconds(1));
    }

    #[test]
    fn what_fails_is_tried_again_within_two_seconds() {
        let mut pace = Pace::new(Instant::now());
        assert!(pace.is_fresh());
        for _ in 0..9 {
            pace.slow_down();
            assert!(!pace.is_due(Instant::now()) && pace.is_due(Instant::now() + AGAIN.1));
        }
    }
}
