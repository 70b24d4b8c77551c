//! What a member makes of what it hears.

use std::sync::Arc;

use leasehold_core::election;
use leasehold_core::lease::{Contents, Versioned};
use leasehold_core::partition::planner::Sighting;
use leasehold_core::partition::{Handoff, MemberRecord, MemberState, Table, handoff};
use leasehold_core::rules::Rules;

use super::{About, Aside, Membership};
use crate::driver::News;
use crate::partitions::member_name;
use crate::settings::Declared;
use crate::signal;

impl Membership {
    pub(super) fn hear(&mut self, about: &About, news: News) {
        match about {
            About::Own => self.hear_own(news),
            About::Leader => self.hear_leader(news),
            About::Assignment => match news {
                News::Watched(state)
                | News::Listed {
                    state: Some(state), ..
                } => self.read_assignment(&state),
                // A lost table is no news: owners go on (H7).
                _ => {}
            },
            About::LeadingPod => match news {
                News::Watched(state)
                | News::Listed {
                    state: Some(state), ..
                } => self.sight(&state),
                // It was last seen when it was seen (H6).
                _ => {}
            },
            About::Member(name) => self.hear_member(name, news),
        }
    }

    fn hear_own(&mut self, news: News) {
        match news {
            News::Watched(state) => self.step(election::Input::Watched(state)),
            News::Listed { asked, state } if state.is_some() => {
                self.step(election::Input::Listed { asked, state });
            }
            // H1: absence comes from the same list as the floor.
            News::Listed { .. } | News::Gone => self.step(election::Input::WatchedGone),
            News::Settings(_) | News::Down(_) | News::Up => {}
        }
    }

    fn hear_leader(&mut self, news: News) {
        match news {
            News::Watched(state)
            | News::Listed {
                state: Some(state), ..
            } => {
                if let Some(holder) = &state.record.holder {
                    self.follow_leading_pod(member_name(holder));
                }
            }
            News::Settings(declared) => self.declare(declared),
            _ => {}
        }
    }

    /// H10: so that whoever leads next knows since when the leading pod is silent.
    fn follow_leading_pod(&mut self, name: &str) {
        if self.leading_pod.as_deref() == Some(name) {
            return;
        }
        self.around.leave(&About::LeadingPod);
        self.leading_pod = Some(name.into());
        if *name == *self.shared.name {
            return;
        }
        if let Ok(key) = self.shared.id.member(name) {
            self.around
                .follow(About::LeadingPod, self.shared.store.watch(&key));
        }
    }

    fn sight(&self, state: &Versioned) {
        let Some(name) = &self.leading_pod else {
            return;
        };
        let sighting = Sighting {
            uid: state.uid.clone(),
            revision: state.revision,
            since: self.shared.clock.now(),
        };
        self.shared.sight(name, sighting);
    }

    fn hear_member(&mut self, name: &Arc<str>, news: News) {
        match news {
            News::Watched(state)
            | News::Listed {
                state: Some(state), ..
            } => self.tell_of_member(name, Some(&state)),
            News::Listed { state: None, .. } => self.tell_of_member(name, None),
            // E4: gone from the selection is not yet deleted.
            News::Gone => self.confirm(name),
            News::Settings(_) | News::Down(_) | News::Up => {}
        }
    }

    fn tell_of_member(&mut self, name: &Arc<str>, state: Option<&Versioned>) {
        self.hand(handoff::Input::Member {
            name: Arc::clone(name),
            state: state.map(MemberState::of),
        });
    }

    fn confirm(&mut self, name: &Arc<str>) {
        let Ok(key) = self.shared.id.member(name) else {
            return;
        };
        let (shared, name) = (Arc::clone(&self.shared), Arc::clone(name));
        let limit = self.sources.timing().attempt_timeout();
        self.asides.push(async move {
            let answer = shared.store.read(&key, limit).await;
            crate::metrics::count_read(answer.is_ok());
            Aside::Confirmed(name, answer)
        });
    }

    pub(super) fn learn(&mut self, aside: Aside) {
        let pause = self.sources.timing().retry_gap();
        match aside {
            Aside::Joined(term, answer) => {
                let Some(joining) = self.joining.take_if(|joining| joining.term == term) else {
                    return; // An earlier life asked.
                };
                match answer {
                    Ok(listing) => {
                        if let Some(state) = &listing.assignment {
                            self.read_assignment(state);
                        }
                        if let Some(table) = joining.watched {
                            self.note_table(&table);
                        }
                        if self.begun.is_some() {
                            self.has_joined = true;
                            self.hand(handoff::Input::Begin(term));
                        }
                    }
                    Err(error) => {
                        self.complain("list", &error);
                        self.joining = Some(joining);
                        let (clock, limit) = (
                            self.shared.clock.clone(),
                            self.sources.timing().attempt_timeout(),
                        );
                        let listing = self.shared.list(limit);
                        self.asides.push(async move {
                            clock.sleep(pause).await;
                            Aside::Joined(term, listing.await)
                        });
                    }
                }
            }
            Aside::Confirmed(name, answer) => {
                if !self.around.follows(&About::Member(Arc::clone(&name))) {
                    return;
                }
                match answer {
                    Ok(state) => self.tell_of_member(&name, state.as_ref()),
                    Err(error) => {
                        // Nothing is concluded; the watch tells when it is there again (H6).
                        self.complain("read", &error);
                    }
                }
            }
        }
    }

    fn read_assignment(&mut self, state: &Versioned) {
        match &state.record.contents {
            Contents::Table(table) => match table.problem() {
                None => self.note_table(table),
                Some(problem) => self.refuse(&problem),
            },
            Contents::Unreadable { reason, .. } => self.refuse(reason),
            Contents::Nothing => self.refuse("the assignment lease carries no table"),
            Contents::Member(_) => {
                self.refuse("the assignment lease carries no table, but a member's record");
            }
        }
    }

    /// Owners go on with what they have.
    pub(super) fn refuse(&mut self, problem: &str) {
        let problem: String = problem.chars().take(200).collect();
        if self.refused.as_ref() != Some(&problem) {
            tracing::warn!(key = signal::TABLE_REFUSED, cluster_id = %self.shared.id, problem, "the table is not used; what runs here goes on");
            signal::count(signal::TABLE_REFUSED);
            self.refused = Some(problem);
        }
    }

    fn note_table(&mut self, table: &Arc<Table>) {
        self.raise_floor(table);
        self.shared.table.send_replace(Some(Arc::clone(table)));
        if let Some(joining) = &mut self.joining {
            joining.watched = Some(Arc::clone(table));
            return;
        }
        if self.begun.is_some() {
            self.hand(handoff::Input::Table(Arc::clone(table)));
        }
        if let Some(hash) = self.handoff.refused() {
            let own = self.about.hash;
            self.refuse(&format!(
                "it is made for the hash {hash}, and this program for {own}"
            ));
        } else {
            self.refused = None;
        }
    }

    /// Order: code, settings, environment, default. Bad ones are complained about by the election.
    fn declare(&mut self, declared: Option<Result<Declared, String>>) {
        let checked = declared.map(|declared| {
            let declared = declared?;
            declared.check_strategy(true)?;
            Ok::<_, String>(declared)
        });
        let Ok(declared) = checked.transpose() else {
            return;
        };
        if declared == self.sources.declared {
            return;
        }
        self.sources.declared = declared;
        let timing = self.sources.timing();
        self.around.expect_heartbeat(timing.heartbeat());
        self.shared.set_policy(&self.sources);
        self.rehash();
        self.step(election::Input::Retime(timing));
    }

    /// The hash is settled when the first life begins; a table of another one is refused from then
    /// on.
    fn rehash(&mut self) {
        let hash = self.sources.hash();
        if hash == self.about.hash {
            return;
        }
        if self.has_joined {
            let own = self.about.hash;
            tracing::warn!(key = signal::SETTINGS_REFUSED, cluster_id = %self.shared.id, %hash, %own, "another hash is declared than this process runs with; it takes effect when the process is started again");
            signal::count(signal::SETTINGS_REFUSED);
            return;
        }
        let about = MemberRecord {
            hash,
            ..(*self.about).clone()
        };
        let name = Arc::clone(&self.shared.name);
        self.handoff = Handoff::new(name, about.clone(), Rules::ALL);
        self.about = Arc::new(about);
        let contents = Contents::Member(Arc::clone(&self.about));
        let at_once = false;
        self.step(election::Input::Contents { contents, at_once });
    }
}
