//! Who could act for which hashes, and when: made from the lines of a history,
//! one after the other.

use std::collections::BTreeMap;

use leasehold_core::id::{FencingToken, pod_name};

use super::keys::Slot;
use crate::error::{Error, Result, Step};
use crate::history::{Event, Fault, Line};

/// One process that could act for a partition under one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// The process.
    pub identity: String,
    /// The partition.
    pub slot: Slot,
    /// Its epoch.
    pub token: FencingToken,
    /// When the work began, in nanoseconds of the boot-time clock.
    pub from: u64,
    /// When the newest answer of its guard runs out.
    runs_out: u64,
    /// When the work ended, if it has.
    ended: Option<u64>,
}

impl Tenure {
    /// Until when it could act: the end of its work or of its process, or the
    /// instant at which the newest answer of its guard ran out.
    pub fn until(&self) -> u64 {
        self.ended.unwrap_or(u64::MAX).min(self.runs_out)
    }

    /// Whether nothing tells that it ended.
    pub fn is_open(&self) -> bool {
        self.ended.is_none()
    }
}

type Key = (String, Slot, FencingToken);

/// All tenures of a history so far.
#[derive(Clone, Debug, Default)]
pub struct Tenures {
    all: Vec<Tenure>,
    open: BTreeMap<Key, usize>,
    pids: BTreeMap<String, u32>,
}

impl Tenures {
    /// All of them, in the order of their beginnings.
    pub fn all(&self) -> &[Tenure] {
        &self.all
    }

    /// Those that nothing tells the end of.
    pub fn open(&self) -> impl Iterator<Item = &Tenure> {
        self.open.values().filter_map(|index| self.all.get(*index))
    }

    /// The next line, in the order of time.
    pub fn take(&mut self, line: &Line) -> Result<()> {
        if let Some(pid) = line.pid.filter(|_| line.event != Event::Fault) {
            self.pids.insert(line.identity.clone(), pid);
        }
        match (line.event, line.slot) {
            (Event::Gained, Some(slot)) => self.begin(line, slot),
            (Event::Held | Event::Write | Event::Refused | Event::Unavailable, Some(slot)) => {
                self.extend(line, slot)
            }
            (Event::CheckFailed | Event::Lost | Event::Drained, Some(slot)) => {
                let key = key(line, slot)?;
                self.end(line.t, |open| *open == key);
                Ok(())
            }
            (Event::Exit, _) => {
                self.end(line.t, |(identity, ..)| *identity == line.identity);
                Ok(())
            }
            (Event::Fault, _) if line.fault == Some(Fault::Kill) => {
                let pids = std::mem::take(&mut self.pids);
                self.end(line.t, |(identity, ..)| match &line.pod {
                    Some(pod) => pod_name(identity) == Some(pod.as_str()),
                    None => line.pid.is_some() && pids.get(identity) == line.pid.as_ref(),
                });
                self.pids = pids;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, line: &Line, slot: Slot) -> Result<()> {
        let key = key(line, slot)?;
        let (identity, _, token) = key.clone();
        let remaining = line.remaining.unwrap_or_default();
        self.open.insert(key, self.all.len());
        self.all.push(Tenure {
            identity,
            slot,
            token,
            from: line.t,
            runs_out: line.t.saturating_add(remaining),
            ended: None,
        });
        Ok(())
    }

    /// Only an answer of the guard says until when it holds.
    fn extend(&mut self, line: &Line, slot: Slot) -> Result<()> {
        let Some(remaining) = line.remaining else {
            return Ok(());
        };
        let open = self.open.get(&key(line, slot)?);
        if let Some(tenure) = open.and_then(|index| self.all.get_mut(*index)) {
            tenure.runs_out = tenure.runs_out.max(line.t.saturating_add(remaining));
        }
        Ok(())
    }

    fn end(&mut self, t: u64, is_hit: impl Fn(&Key) -> bool) {
        let all = &mut self.all;
        self.open.retain(|key, index| {
            if !is_hit(key) {
                return true;
            }
            if let Some(tenure) = all.get_mut(*index) {
                tenure.ended = Some(t);
            }
            false
        });
    }
}

fn key(line: &Line, slot: Slot) -> Result<Key> {
    let about = || format!("{:?} of {} at {}", line.event, line.identity, line.t);
    let token = line.token.as_deref();
    let token = token.ok_or_else(|| Error::new("the line holds no token"));
    Ok((
        line.identity.clone(),
        slot,
        token.step(about)?.parse().step(about)?,
    ))
}
