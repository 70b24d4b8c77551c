//! The watch of a process: a list, then news in order; it lags, ends, and falls silent.

use std::rc::Rc;

use leasehold_core::election::Input;
use leasehold_core::lease::Versioned;
use leasehold_core::time::Instant;

use crate::clock::{MS, Nanos, SEC};
use crate::network::{Body, Call};
use crate::node::{Delivery, Link};
use crate::store::News;
use crate::world::World;

/// A silent connection is noticed after this long (TCP keepalive and the idle check).
const IDLE: (Nanos, Nanos) = (3 * SEC, 10 * SEC);

impl World {
    /// Begins a new connection with a list.
    pub fn connect(&mut self, p: usize) {
        let process = &mut self.processes[p];
        process.watch.connection += 1;
        process.watch.live = false;
        process.watch.established = false;
        let connection = process.watch.connection;
        let asked = process.local(self.now);
        let timeout = self.now + process.clock.stretch(process.timing.attempt_timeout());
        self.send(timeout, p, Delivery::ListFailed { connection });
        self.stats.count("list");
        self.transmit(Call {
            process: p,
            id: 0,
            body: Body::List { connection, asked },
        });
    }

    pub fn serve_list(&mut self, p: usize, connection: u64, asked: Instant) -> Delivery {
        let watch = &mut self.processes[p].watch;
        if watch.connection == connection {
            watch.live = true;
        }
        let stored = self.store.current();
        let state = stored
            .filter(|stored| stored.labelled)
            .map(|stored| stored.state.clone());
        let selected = state.is_some() || (stored.is_none() && self.mix.by_name);
        Delivery::Listed {
            connection,
            asked,
            state,
            selected,
        }
    }

    pub fn listed(
        &mut self,
        p: usize,
        connection: u64,
        asked: Instant,
        state: Option<Versioned>,
        selected: bool,
    ) {
        let watch = &mut self.processes[p].watch;
        if watch.connection != connection || watch.established {
            return;
        }
        watch.established = true;
        watch.failures = 0;
        let input = if selected {
            Input::Listed { asked, state }
        } else {
            Input::WatchedGone
        };
        self.feed(p, input);
    }

    pub fn list_failed(&mut self, p: usize, connection: u64) {
        let watch = &mut self.processes[p].watch;
        if watch.connection != connection || watch.established {
            return;
        }
        watch.live = false;
        watch.failures = (watch.failures + 1).min(3);
        let mean = SEC << watch.failures;
        // Another number: the answer may still come, and must not count.
        watch.connection += 1;
        let connection = watch.connection;
        let at = self.now + self.random.between(mean / 4, mean);
        self.send(at, p, Delivery::Reconnect { connection });
    }

    pub fn reconnect(&mut self, p: usize, connection: u64) {
        if self.processes[p].watch.connection == connection {
            self.connect(p);
        }
    }

    /// Sends news to a process, in order, if the server still has a connection to it.
    pub fn publish_to(&mut self, p: usize, news: &Rc<News>) {
        let (low, high) = self.mix.watch_delay;
        let delay = self.random.between(low, high);
        let now = self.now;
        let process = &mut self.processes[p];
        if !process.watch.live {
            return;
        }
        let connection = process.watch.connection;
        let what = Delivery::News {
            connection,
            news: Rc::clone(news),
        };
        match process.link {
            Link::Held => process.held_in.push(what),
            Link::Dropped | Link::OneWay | Link::Refused => {}
            Link::Up => {
                let lag = if now < process.watch.lag_until {
                    process.watch.lag
                } else {
                    0
                };
                let at = (now + delay + lag).max(process.watch.newest + 1);
                process.watch.newest = at;
                self.send(at, p, what);
            }
        }
    }

    pub fn watched(&mut self, p: usize, connection: u64, news: &News) {
        let watch = &self.processes[p].watch;
        if watch.connection != connection || !watch.established {
            return;
        }
        let input = match news {
            News::Changed(state) => Input::Watched(state.clone()),
            News::Gone => Input::WatchedGone,
        };
        self.feed(p, input);
    }

    /// The connection ended; the process sees it at once and lists again.
    pub fn end_watch(&mut self, p: usize) {
        let watch = &mut self.processes[p].watch;
        watch.connection += 1;
        (watch.live, watch.established) = (false, false);
        let connection = watch.connection;
        let at = self.now + self.random.between(20 * MS, 2 * SEC);
        self.send(at, p, Delivery::Reconnect { connection });
    }

    /// The connection is dead, and nothing says so before the idle check.
    pub fn silence_watch(&mut self, p: usize) {
        let watch = &mut self.processes[p].watch;
        watch.live = false;
        let connection = watch.connection;
        let at = self.now + self.random.between(IDLE.0, IDLE.1);
        self.send(at, p, Delivery::Reconnect { connection });
    }
}
