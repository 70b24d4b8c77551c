//! Named checks while a run goes on: each sees one step of the world and knows what it may be.

use leasehold_core::election::{EndReason, Input, Notice, Purpose, Write, WriteOutcome};
use leasehold_core::id::{FencingToken, is_stranger, pod_uid};
use leasehold_core::lease::{LeaseTiming, Versioned};
use leasehold_core::time::Duration;

use crate::clock::SEC;
use crate::judge::{Check, span};
use crate::node::Delivery;
use crate::store::Stored;
use crate::world::World;

impl World {
    pub fn disturb(&mut self, p: usize) {
        if let Some(draining) = &mut self.processes[p].draining {
            draining.disturbed = true;
        }
    }

    /// Remembers what an input shows; returns the revision if it can end a term.
    pub fn shown_by(&mut self, p: usize, input: &Input) -> Option<u64> {
        let now = self.now;
        let state: &Versioned = match input {
            Input::Watched(state)
            | Input::Read(Some(state))
            | Input::Listed {
                state: Some(state), ..
            }
            | Input::WriteDone {
                outcome: WriteOutcome::Done(state),
                ..
            } => state,
            Input::Retime(timing) => {
                // The first renewal under longer attempts is tried once only.
                self.disturb(p);
                self.processes[p].timing = *timing;
                return None;
            }
            _ => return None,
        };
        let revision = state.revision.number();
        let process = &mut self.processes[p];
        process.remember(state, now);
        let own = process.own_revision;
        if self.store.goes_on(p, own, revision) {
            process.own_revision = own.max(revision);
            return None;
        }
        Some(revision)
    }

    pub fn check_still_leading(&mut self, p: usize, revision: u64) {
        let process = &self.processes[p];
        if revision > process.own_revision && process.machine.leads() {
            let detail = format!("p{p} at r{}, shown r{revision}", process.own_revision);
            self.found(Check::LedOn, detail);
        }
    }

    pub fn check_begin(&mut self, p: usize, token: FencingToken) {
        self.stats.begun(self.now, self.processes[p].able_since);
        let claim = self.store.entry(token.revision().number());
        let waited = claim.is_some_and(|entry| self.processes[p].claim_waited(entry.attempt));
        // E5: after an edit only who never saw a held revision, or waited, is excused.
        let edited = self.judge.edited_until().filter(|_| waited).unwrap_or(0);
        if self.now < edited {
            self.judge.edited.push(span(self.now, edited));
        }
        // What ran under a guard that was valid until then ends within the stop budget.
        let stopped = edited + self.mix.longest(LeaseTiming::stop_budget) * 102 / 100;
        for index in 0..self.living.len() {
            let q = self.living[index];
            let other = &self.processes[q];
            let runs = other.work.running && !other.work.tainted;
            let check = match other.guarded(self.now) {
                _ if q == p => None,
                true => (self.now >= edited).then_some(Check::TwoGuards),
                false => (runs && self.now >= stopped).then_some(Check::StopBudget),
            };
            if let Some(check) = check {
                self.found(check, format!("p{q}, and its successor p{p}"));
            }
        }
    }

    pub fn check_end(&mut self, p: usize, reason: &EndReason) {
        let process = &mut self.processes[p];
        match reason {
            EndReason::TrustExpired => {
                let cut = process.draining.filter(|draining| !draining.disturbed);
                if let (Some(draining), true) = (cut, process.work.running) {
                    process.drain_cut = Some(process.clock.truth(draining.until));
                }
            }
            EndReason::HeldBy(_)
            | EndReason::Emptied
            | EndReason::Deleted
            | EndReason::Recreated
            | EndReason::DuplicateIdentity => {
                let own = process.own_revision;
                if !self.store.lost_after(p, own) {
                    let detail = format!("p{p} at r{own}: {reason:?}");
                    self.found(Check::EndedByOldNews, detail);
                }
            }
            EndReason::Resigned | EndReason::Unhealthy | EndReason::DrainOverrun => {}
        }
    }

    /// A write of `p` was stored over `before`.
    pub fn check_stored(&mut self, p: usize, write: &Write, before: Option<&Stored>) {
        let keeper = before.and_then(|stored| stored.keeper);
        let drains = keeper.filter(|q| {
            let cut = self.processes[*q].drain_cut;
            self.processes[*q].alive && cut.is_some_and(|until| self.now < until)
        });
        if let (Some(q), true) = (drains, write.purpose != Purpose::Renew) {
            let detail = format!("p{q}, by a {:?} of p{p}", write.purpose);
            self.found(Check::HolderChangedWhileDraining, detail);
        }
        match write.purpose {
            Purpose::Release => {
                if keeper != Some(p) && self.processes[p].is_client_go() {
                    // It looks at nobody's name: for us that is an edit from outside.
                    self.stats.count("released by a peer that did not hold it");
                    self.judge.edit(self.now, true);
                } else if keeper != Some(p) {
                    self.found(Check::WipedAnother, format!("p{p} over {keeper:?}"));
                }
                if self.processes[p].alive && self.processes[p].work.running {
                    self.found(Check::ReleasedBeforeDrain, format!("p{p}"));
                }
            }
            Purpose::Claim => {
                let Some(q) = keeper.filter(|q| *q != p) else {
                    return;
                };
                let (mine, former) = (&self.processes[p], &self.processes[q]);
                let pods = [mine, former].map(|process| pod_uid(process.identity.as_str()));
                let same_pod = mine.may_reclaim && pods[0] == pods[1];
                let at_once = !mine.claim_waited(write.attempt);
                let reclaims = same_pod && !is_stranger(former.identity.as_str());
                if reclaims && former.alive && at_once {
                    self.found(Check::ReclaimedBesideFormer, format!("p{p} from p{q}"));
                }
            }
            // A candidate for leadership never sends the last two.
            Purpose::Renew | Purpose::Publish | Purpose::Fence => {}
        }
    }

    pub fn notice(&mut self, p: usize, notice: &Notice) {
        let name = match notice {
            Notice::DuplicateIdentity => {
                self.processes[p].duplicate_noticed = self.knobs.notices;
                "duplicate identity noticed"
            }
            Notice::UnknownOutcome { .. } => "write with unknown outcome",
            Notice::Conflict { .. } => "conflict",
            Notice::NotReleased { .. } => "not released",
            Notice::Adopted { .. } => "unknown write adopted",
            Notice::PreferredHolder(_) => {
                let drain = Duration::from_secs(5);
                let at = self.now + SEC;
                self.send(at, p, Delivery::Input(Input::StepDown { drain }));
                "other holder preferred"
            }
            Notice::RetryIn(_) => "retry",
        };
        self.stats.count(name);
    }

    /// E8: two processes of one identity: when one leads for long, the other has noticed.
    pub fn check_duplicate_noticed(&mut self, p: usize) {
        let Some(guard) = self.processes[p].guard else {
            return;
        };
        // Long enough for a watch that was down to be back.
        let enough = 2 * self.mix.lease_duration_max() + 20 * SEC;
        let Some(long) = self.now.checked_sub(enough) else {
            return;
        };
        for index in 0..self.living.len() {
            let q = self.living[index];
            let other = &self.processes[q];
            let is_twin = q != p && other.identity == self.processes[p].identity;
            let able = other.able_since.is_some_and(|since| since < long);
            if is_twin && able && guard.from < long && !other.duplicate_noticed {
                self.found(Check::DuplicateUnnoticed, format!("p{p} leads beside p{q}"));
            }
        }
    }

    pub fn count_request(&mut self, p: usize) {
        self.stats.count("request");
        // Two requests for each gap between attempts, in ten seconds.
        let gap = self.mix.shortest(LeaseTiming::retry_gap);
        let most = (10 * SEC / gap * 2 + 10) as usize;
        let now = self.now;
        let requests = &mut self.processes[p].requests;
        requests.push_back(now);
        if requests.len() > most {
            let first = requests.pop_front().unwrap_or_default();
            if now - first < 10 * SEC {
                self.found(Check::BusyLoop, format!("p{p}: {most} requests in 10 s"));
            }
        }
    }

    pub fn count_wake(&mut self, p: usize) {
        let now = self.now;
        let wakes = &mut self.processes[p].wakes;
        wakes.push_back(now);
        if wakes.len() > 400 {
            let first = wakes.pop_front().unwrap_or_default();
            if now - first < 10 * SEC {
                self.found(Check::BusyLoop, format!("p{p}: 400 timers in 10 s"));
            }
        }
    }
}
