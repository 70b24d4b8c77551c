//! The watches of a process: a list each, then news in order; they lag, end, and fall silent.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use leasehold_core::election;
use leasehold_core::id::pod_name;
use leasehold_core::lease::Versioned;
use leasehold_core::partition::{Listing, planner};
use leasehold_core::time::Instant;

use crate::clock::{MS, Nanos, SEC};
use crate::network::{Body, Call};
use crate::pod::{Delivery, Link, News, Selector, Todo, Watch};
use crate::store::Key;
use crate::world::World;

/// A silent connection is noticed after this long (TCP keepalive and the idle check).
const IDLE: (Nanos, Nanos) = (3 * SEC, 10 * SEC);

impl World {
    /// Opens the watches that are wanted by now, and closes all others.
    pub fn sync_watches(&mut self, p: usize) {
        let pod = &self.pods[p];
        let mut wanted = BTreeSet::from([Selector::Shared]);
        if pod.planner.is_some() {
            wanted.insert(Selector::Members);
        }
        let mut names: BTreeSet<&Arc<str>> = pod.followed.iter().collect();
        if self.knobs.follows_leader {
            names.extend(&pod.followed_leader);
        }
        if pod.guard.is_none() && !pod.stopped.1 {
            names.insert(&pod.name);
        }
        wanted.extend(names.into_iter().cloned().map(Selector::Named));
        if pod.watches.len() == wanted.len() && pod.watches.keys().eq(wanted.iter()) {
            return;
        }
        let pod = &mut self.pods[p];
        pod.watches.retain(|selector, _| wanted.contains(selector));
        pod.known
            .retain(|name, _| wanted.contains(&Selector::Named(Arc::clone(name))));
        for selector in wanted {
            if !self.pods[p].watches.contains_key(&selector) {
                self.pods[p]
                    .watches
                    .insert(selector.clone(), Watch::default());
                self.connect(p, selector);
            }
        }
    }

    /// Begins a new connection with a list.
    fn connect(&mut self, p: usize, selector: Selector) {
        let connection = self.number();
        let pod = &mut self.pods[p];
        let asked = pod.clock.local(self.now);
        let timeout = self.now + pod.clock.stretch(self.mix.timing.attempt_timeout());
        let Some(watch) = pod.watches.get_mut(&selector) else {
            return;
        };
        watch.connection = connection;
        (watch.live, watch.established) = (false, false);
        self.send(timeout, p, Delivery::ListFailed { connection });
        self.transmit(Call {
            pod: p,
            id: 0,
            body: Body::Watch {
                selector,
                connection,
                asked,
            },
        });
    }

    pub fn serve_watch(
        &mut self,
        p: usize,
        selector: &Selector,
        connection: u64,
        asked: Instant,
    ) -> Delivery {
        let mut listing = self.store.list();
        if let Some(watch) = self.pods[p].watch_of(connection) {
            watch.live = true;
        }
        if *selector != Selector::Shared {
            listing.assignment = None;
        }
        listing
            .members
            .retain(|name, _| selector.selects(&Key::Member(Arc::clone(name))));
        let leader = self.store.get(&Key::Leader);
        Delivery::Listed {
            connection,
            asked,
            listing: Rc::new(listing),
            leader: leader.filter(|_| *selector == Selector::Shared).cloned(),
        }
    }

    pub fn listed(
        &mut self,
        p: usize,
        connection: u64,
        asked: Instant,
        listing: &Listing,
        leader: Option<Versioned>,
    ) {
        let Some(watch) = self.pods[p].watch_of(connection) else {
            return;
        };
        if watch.established {
            return;
        }
        watch.established = true;
        watch.failures = 0;
        match self.pods[p].selector_of(connection) {
            Some(Selector::Shared) => {
                self.saw_leader(p, leader.as_ref());
                let state = leader;
                self.tell(p, Todo::Leader(election::Input::Listed { asked, state }));
                self.saw_assignment(p, listing.assignment.as_ref());
            }
            Some(Selector::Members) => {
                let members = listing.members.clone();
                let input = planner::Input::MembersListed { asked, members };
                self.tell(p, Todo::Planner(input));
            }
            Some(Selector::Named(name)) => {
                let state = listing.members.get(&name).cloned();
                self.saw_member(p, &name, state);
            }
            None => {}
        }
    }

    /// H10: whose member Lease everybody follows; the own one is of no use.
    fn saw_leader(&mut self, p: usize, leader: Option<&Versioned>) {
        let holder = leader.and_then(|state| state.record.holder.as_deref());
        let Some(name) = holder.and_then(pod_name) else {
            return;
        };
        let pod = &mut self.pods[p];
        if *name != *pod.name && pod.followed_leader.as_deref() != Some(name) {
            pod.followed_leader = Some(name.into());
        }
    }

    pub fn watched(&mut self, p: usize, connection: u64, news: &News) {
        let watch = self.pods[p].watch_of(connection);
        if !watch.is_some_and(|watch| watch.established) {
            return;
        }
        match (&news.key, self.pods[p].selector_of(connection)) {
            (Key::Leader, _) => {
                self.saw_leader(p, news.state.as_ref());
                let input = match news.state.clone() {
                    Some(state) => election::Input::Watched(state),
                    None => election::Input::WatchedGone,
                };
                self.tell(p, Todo::Leader(input));
            }
            (Key::Assignment, _) => self.saw_assignment(p, news.state.as_ref()),
            (Key::Member(name), Some(Selector::Members)) => {
                let name = Arc::clone(name);
                let input = match news.state.clone() {
                    Some(lease) => planner::Input::MemberSeen { name, lease },
                    None => planner::Input::MemberGone { name },
                };
                self.tell(p, Todo::Planner(input));
            }
            (Key::Member(name), _) => self.saw_member(p, name, news.state.clone()),
        }
    }

    pub fn list_failed(&mut self, p: usize, connection: u64) {
        let next = self.number();
        let Some(watch) = self.pods[p].watch_of(connection) else {
            return;
        };
        if watch.established {
            return;
        }
        watch.live = false;
        watch.failures = (watch.failures + 1).min(3);
        let mean = SEC << watch.failures;
        // Another number: the answer may still come, and must not count.
        watch.connection = next;
        let at = self.now + self.random.between(mean / 4, mean);
        self.send(at, p, Delivery::Reconnect { connection: next });
    }

    pub fn reconnect(&mut self, p: usize, connection: u64) {
        if let Some(selector) = self.pods[p].selector_of(connection) {
            self.connect(p, selector);
        }
    }

    /// Sends news to a process, in order, on each connection that the server still has to it.
    pub fn publish_to(&mut self, p: usize, news: &Rc<News>) {
        let (low, high) = self.mix.watch_delay;
        let now = self.now;
        let pod = &mut self.pods[p];
        let lag = if now < pod.lag_until { pod.lag } else { 0 };
        let mut sent = Vec::new();
        for (selector, watch) in &mut pod.watches {
            if !watch.live || !selector.selects(&news.key) {
                continue;
            }
            let what = Delivery::News {
                connection: watch.connection,
                news: Rc::clone(news),
            };
            match pod.link {
                Link::Held => pod.held_in.push(what),
                Link::Dropped | Link::OneWay => {}
                Link::Up => {
                    let delay = self.random.between(low, high);
                    let at = (now + delay + lag).max(watch.newest + 1);
                    watch.newest = at;
                    sent.push((at, what));
                }
            }
        }
        for (at, what) in sent {
            self.send(at, p, what);
        }
    }

    /// The connections ended; the process sees it at once and lists again.
    pub fn end_watches(&mut self, p: usize) {
        self.break_watches(p, 20 * MS, 2 * SEC);
    }

    /// The connections are dead, and nothing says so before the idle check.
    pub fn silence_watches(&mut self, p: usize) {
        self.break_watches(p, IDLE.0, IDLE.1);
    }

    fn break_watches(&mut self, p: usize, low: Nanos, high: Nanos) {
        let selectors: Vec<Selector> = self.pods[p].watches.keys().cloned().collect();
        for selector in selectors {
            let at = self.now + self.random.between(low, high);
            let connection = self.number();
            let Some(watch) = self.pods[p].watches.get_mut(&selector) else {
                continue;
            };
            // Until then it gets no news, and what is on its way comes too late.
            watch.connection = connection;
            (watch.live, watch.established) = (false, false);
            self.send(at, p, Delivery::Reconnect { connection });
        }
    }
}
