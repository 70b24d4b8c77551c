//! From what workloads and runners wrote down to a judgement: the history is
//! turned into leaderships and guarded writes, and the checker of
//! `leasehold-core`, which knows the guarantees but not the machine, judges it.

use std::collections::BTreeMap;
use std::fmt;

use leasehold_core::election::check::{Bounds, GuardedWrite, History, Report, Span, Tenure};
use leasehold_core::id::FencingToken;
use leasehold_core::time::{Duration, Instant};

use crate::error::{Error, Result, Step};
use crate::history::{Event, Fault, Line};
use crate::ledger::Entry;

/// What a run is held to.
#[derive(Clone, Copy, Debug)]
pub struct Demands {
    /// V of the slowest candidate: how long guards may overlap after an edit.
    pub trusted: Duration,
    /// Longest time without a leader, outages aside.
    pub vacancy_max: Duration,
    /// How long after an outage there may be no leader.
    pub recovery_max: Duration,
    /// Fewest leadership changes for the run to say anything.
    pub changes_min: usize,
}

/// The judgement on one cluster id.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// What the checker of the core found.
    pub report: Report,
    /// Leaderships in the history.
    pub tenures: usize,
    /// How often a guard answered yes.
    pub held: usize,
    /// Guarded writes that the store took.
    pub accepted: usize,
    /// What else is wrong with the run.
    pub faults: Vec<String>,
}

impl Judgement {
    /// Whether the run proves what it was to prove.
    pub fn is_good(&self) -> bool {
        self.report.violations.is_empty() && self.faults.is_empty()
    }
}

/// Judges the history of one cluster id; `ledger` are the writes its store
/// took, in the order in which it took them.
pub fn judge(
    lines: &[Line],
    ledger: &[Entry],
    service: &str,
    demands: &Demands,
) -> Result<Judgement> {
    let concerns = |line: &&Line| line.service.is_empty() || line.service == service;
    let lines: Vec<&Line> = lines.iter().filter(concerns).collect();
    let tenures = tenures(&lines)?;
    let (edited, excused) = spans(&lines, demands);
    let run = match (lines.first(), lines.last()) {
        (Some(first), Some(last)) => Some(Span {
            from: at(first.t),
            until: at(last.t),
        }),
        _ => None,
    };
    let writes = writes(&lines, ledger)?;
    let accepted = writes.iter().filter(|write| write.accepted).count();
    let held = lines
        .iter()
        .filter(|line| line.event == Event::Held)
        .count();
    let mut faults = Vec::new();
    if held == 0 {
        faults.push("no guard was ever asked and answered yes".to_owned());
    }
    let claimed = lines
        .iter()
        .filter(|line| line.event == Event::Write)
        .count();
    if claimed > accepted {
        faults.push(format!(
            "workloads were told that {claimed} writes were accepted, but the store holds {accepted}"
        ));
    }
    let count = tenures.len();
    let history = History {
        tenures,
        writes,
        edited,
        excused,
        run,
    };
    let bounds = Bounds {
        vacancy_max: demands.vacancy_max,
        changes_min: demands.changes_min,
    };
    Ok(Judgement {
        report: history.check(bounds),
        tenures: count,
        held,
        accepted,
        faults,
    })
}

/// A leadership lasts from the start of its work to the first of: the end of
/// its work, a failed check, the death of its process, and the instant at
/// which the newest answer of its guard ran out.
fn tenures(lines: &[&Line]) -> Result<Vec<Tenure>> {
    let mut open: BTreeMap<(&str, FencingToken), Open> = BTreeMap::new();
    let mut pids: BTreeMap<&str, u32> = BTreeMap::new();
    for line in lines {
        let identity = line.identity.as_str();
        if let Some(pid) = line.pid.filter(|_| line.event != Event::Fault) {
            pids.insert(identity, pid);
        }
        match line.event {
            Event::Gained | Event::Held => {
                let tenure = open.entry((identity, token(line)?)).or_insert(Open {
                    from: line.t,
                    runs_out: line.t,
                    ended: None,
                });
                let remaining = line.remaining.unwrap_or_default();
                tenure.runs_out = tenure.runs_out.max(line.t.saturating_add(remaining));
            }
            Event::CheckFailed | Event::Lost | Event::Drained => {
                if let Some(tenure) = open.get_mut(&(identity, token(line)?)) {
                    tenure.end(line.t);
                }
            }
            Event::Exit => end_all(&mut open, line.t, |holder| holder == identity),
            Event::Fault if line.fault == Some(Fault::Kill) => {
                end_all(&mut open, line.t, |holder| {
                    line.pid.is_some() && pids.get(holder) == line.pid.as_ref()
                });
            }
            _ => {}
        }
    }
    Ok(open
        .into_iter()
        .map(|((identity, token), tenure)| Tenure {
            identity: identity.to_owned(),
            token,
            from: at(tenure.from),
            until: at(tenure
                .ended
                .unwrap_or(u64::MAX)
                .min(tenure.runs_out)
                .max(tenure.from)),
        })
        .collect())
}

struct Open {
    from: u64,
    runs_out: u64,
    ended: Option<u64>,
}

impl Open {
    fn end(&mut self, t: u64) {
        self.ended.get_or_insert(t);
    }
}

fn end_all(open: &mut BTreeMap<(&str, FencingToken), Open>, t: u64, is_hit: impl Fn(&str) -> bool) {
    for ((holder, _), tenure) in open.iter_mut() {
        if is_hit(holder) {
            tenure.end(t);
        }
    }
}

/// When guards may overlap, and when nobody could lead.
fn spans(lines: &[&Line], demands: &Demands) -> (Vec<Span>, Vec<Span>) {
    let (mut edited, mut excused) = (Vec::new(), Vec::new());
    for (index, line) in lines.iter().enumerate() {
        if line.event != Event::Fault {
            continue;
        }
        match line.fault {
            Some(Fault::Edit) => {
                edited.push(Span {
                    from: at(line.t),
                    until: at(line.t).after(demands.trusted),
                });
            }
            Some(Fault::Outage) => {
                let ended = lines[index..]
                    .iter()
                    .find(|later| later.event == Event::FaultEnded && later.reason == line.reason);
                let until = ended.map_or(Instant::MAX, |end| at(end.t).after(demands.recovery_max));
                excused.push(Span {
                    from: at(line.t),
                    until,
                });
            }
            Some(Fault::Kill | Fault::Pause) | None => {}
        }
    }
    (edited, excused)
}

/// The store's own file says what it took; workloads say what was refused.
fn writes(lines: &[&Line], ledger: &[Entry]) -> Result<Vec<GuardedWrite>> {
    let mut writes = Vec::new();
    for entry in ledger {
        let token = entry
            .token
            .parse()
            .step(|| format!("entry of {}", entry.writer))?;
        writes.push(GuardedWrite {
            at: at(entry.t),
            token,
            accepted: true,
        });
    }
    for line in lines.iter().filter(|line| line.event == Event::Refused) {
        writes.push(GuardedWrite {
            at: at(line.t),
            token: token(line)?,
            accepted: false,
        });
    }
    Ok(writes)
}

fn token(line: &Line) -> Result<FencingToken> {
    let about = || format!("{:?} of {} at {}", line.event, line.identity, line.t);
    let text = line
        .token
        .as_deref()
        .ok_or_else(|| Error::new("the line holds no token"));
    text.step(about)?.parse().step(about)
}

fn at(t: u64) -> Instant {
    Instant::from_nanos(t)
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            changes,
            overlap_after_edit_max,
            refused,
            vacancies,
            violations,
        } = &self.report;
        let mut sorted: Vec<Duration> = vacancies.clone();
        sorted.sort_unstable();
        let row = |f: &mut fmt::Formatter<'_>, what: &str, value: String| {
            writeln!(f, "  {what:<38} {value:>10}")
        };
        let seconds = |time: Option<&Duration>| {
            time.map_or("-".to_owned(), |time| {
                format!("{:.3} s", time.as_secs_f64())
            })
        };
        row(f, "leaderships", self.tenures.to_string())?;
        row(f, "changes of leadership", changes.to_string())?;
        row(f, "guards that answered yes", self.held.to_string())?;
        row(f, "guarded writes accepted", self.accepted.to_string())?;
        row(
            f,
            "guarded writes refused by their token",
            refused.to_string(),
        )?;
        row(
            f,
            "without a leader, median",
            seconds(sorted.get(sorted.len() / 2)),
        )?;
        row(f, "without a leader, longest", seconds(sorted.last()))?;
        row(
            f,
            "overlap after edits, longest",
            seconds(Some(overlap_after_edit_max)),
        )?;
        row(f, "violations", violations.len().to_string())?;
        for violation in violations {
            writeln!(f, "  VIOLATION {violation}")?;
        }
        for fault in &self.faults {
            writeln!(f, "  VIOLATION {fault}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
