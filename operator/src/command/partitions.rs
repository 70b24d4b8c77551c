//! `leasehold-operator partitions <name>`: the table, readable. One look shows no time passing, so whether
//! a member is silent it cannot tell; the condition PartitionsOwned can.

use std::{collections::BTreeMap, fmt::Write as _};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{ResourceExt, core::DeserializeGuard};
use leasehold_core::{
    lease::Contents,
    partition::{Member, MemberState, Table},
};
use leasehold_crds::ClusterService;

use crate::belief::{
    LeaseReading,
    partitions::{Seen, Summary, Tally},
    purpose::Purpose,
};

/// What the Leases of one cluster id say.
struct Found {
    table: Table,
    members: BTreeMap<String, (MemberState, Option<String>)>,
}

/// The page, or why there is none.
pub(super) fn page(
    service: &ClusterService,
    leases: &[DeserializeGuard<Lease>],
) -> Result<String, String> {
    let id = service.cluster_id().map_err(|error| error.to_string())?;
    let found = found(id.as_str(), leases)?;
    let summary = Summary::of(&found.table)?;
    let tally = summary.tally(|name| {
        found.members.get(name).map(|(state, _)| Seen {
            state,
            is_renewed: true,
        })
    });
    let mut page = head(id.as_str(), &found.table, &tally);
    page.push('\n');
    page.push_str(&columns(&members(&found)));
    page.push('\n');
    page.push_str(&columns(&rows(&found, &tally)));
    Ok(page)
}

fn found(id: &str, leases: &[DeserializeGuard<Lease>]) -> Result<Found, String> {
    let mut table = None;
    let mut members = BTreeMap::new();
    for lease in leases {
        let name = lease.name_any();
        let reading = LeaseReading::of(lease);
        match Purpose::of(&name) {
            Some(Purpose::Assignment(found)) if found == id => table = Some(read_table(&reading)?),
            Some(Purpose::Member(found, pod)) if found == id => {
                let state = reading.state.as_ref().map(MemberState::of);
                if let Some(state) = state {
                    members.insert(pod.to_owned(), (state, reading.problem.clone()));
                }
            }
            _ => {}
        }
    }
    let table = table.ok_or_else(|| {
        format!(
            "there is no Lease {id}.assignment; the leader makes it when the first pod takes part"
        )
    })?;
    Ok(Found { table, members })
}

fn read_table(reading: &LeaseReading) -> Result<Table, String> {
    let contents = reading.state.as_ref().map(|state| &state.record.contents);
    match (contents, &reading.problem) {
        (Some(Contents::Table(table)), None) => Ok(Table::clone(table)),
        (Some(Contents::Unreadable { reason, .. }), None) => {
            Err(format!("its assignment Lease: {reason}"))
        }
        (_, Some(problem)) => Err(format!("its assignment Lease: {problem}")),
        (_, None) => Err("its assignment Lease holds no table".to_owned()),
    }
}

fn head(id: &str, table: &Table, tally: &Tally) -> String {
    let layout = table.layout;
    let mut head = format!(
        "{id}: {} partitions by {}, layout {}, epoch {}\n{} owned, {} moving, {} unowned\n",
        layout.count(),
        layout.hash(),
        layout.generation(),
        table.epoch,
        tally.owned,
        tally.moving,
        tally.unowned
    );
    let rebalance = &table.rebalance;
    if !rebalance.reason.is_empty() {
        // Writing to a string does not fail.
        let _ = writeln!(
            head,
            "newest table: {}: {} moves, the least possible {}",
            rebalance.reason, rebalance.moves, rebalance.least
        );
    }
    if let Some(queued) = table.queued {
        let _ = writeln!(head, "a change to {queued} partitions waits");
    }
    head
}

/// One line for each member Lease, and for each member that only the table knows.
fn members(found: &Found) -> Vec<Vec<String>> {
    let mut lines = vec![row(&[
        "MEMBER",
        "INCARNATION",
        "LEASE",
        "OWNS",
        "RUNS",
        "ACKNOWLEDGED",
        "REVISION",
        "ZONE",
    ])];
    let owns = |name: &str, incarnation| {
        let owners = found.table.parts.iter().filter_map(|part| part.owner);
        let members = owners.filter_map(|index| found.table.members.get(usize::from(index)));
        members
            .filter(|it| &*it.name == name && it.incarnation == incarnation)
            .count()
    };
    for (name, (state, problem)) in &found.members {
        let record = state.record.as_deref();
        let lease = match (state.held, record, problem) {
            (false, ..) => "empty",
            (true, None, _) | (true, _, Some(_)) => "unreadable",
            (true, Some(record), None) if record.draining => "leaving",
            (true, Some(_), None) => "held",
        };
        let said = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        lines.push(vec![
            name.clone(),
            state.incarnation.to_string(),
            lease.to_owned(),
            owns(name, state.incarnation).to_string(),
            said(record.map(|it| it.owned.len().to_string())),
            said(record.and_then(|it| it.acked).map(|it| it.to_string())),
            said(record.and_then(|it| it.revision.as_deref().map(str::to_owned))),
            said(record.and_then(|it| it.zone.as_deref().map(str::to_owned))),
        ]);
    }
    for member in &found.table.members {
        let owns = owns(&member.name, member.incarnation);
        let known = found.members.get(&*member.name);
        let is_shown = known.is_some_and(|(state, _)| state.incarnation == member.incarnation);
        if owns > 0 && !is_shown {
            let lease = if known.is_some() {
                "a later life"
            } else {
                "none"
            };
            let (name, incarnation) = (member.name.to_string(), member.incarnation.to_string());
            let mut line = vec![name, incarnation, lease.to_owned(), owns.to_string()];
            line.extend(std::iter::repeat_n("-".to_owned(), 4));
            lines.push(line);
        }
    }
    lines
}

/// One line for each partition.
fn rows(found: &Found, tally: &Tally) -> Vec<Vec<String>> {
    let mut waits: BTreeMap<u16, Vec<&Member>> = BTreeMap::new();
    for blocker in &tally.blockers {
        for partition in &blocker.partitions {
            waits.entry(*partition).or_default().push(&blocker.member);
        }
    }
    let mut lines = vec![row(&[
        "PARTITION",
        "OWNER",
        "INCARNATION",
        "EPOCH",
        "STATE",
    ])];
    for (partition, part) in found.table.entries() {
        let owner = found.table.owner(partition);
        let state = owner.and_then(|owner| found.members.get(&*owner.name));
        let waited = waits.get(&partition.number());
        let state = match (owner, state, waited) {
            (None, ..) => "nobody".to_owned(),
            (Some(_), None, _) => "the owner's Lease is missing".to_owned(),
            (Some(owner), Some((state, _)), _) if state.incarnation != owner.incarnation => {
                "the owner began anew".to_owned()
            }
            (Some(_), Some((state, _)), _) if !state.held => "the owner has left".to_owned(),
            (Some(_), Some(_), Some(waited)) => {
                let names: Vec<String> = waited.iter().map(ToString::to_string).collect();
                format!("waiting for {}", names.join(", "))
            }
            (Some(_), Some((state, _)), None) => {
                let record = state.record.as_deref();
                let runs = record.is_some_and(|record| {
                    record.layout == Some(found.table.layout) && record.owned.contains(partition)
                });
                if runs { "running" } else { "free to start" }.to_owned()
            }
        };
        lines.push(vec![
            partition.to_string(),
            owner.map_or("-".to_owned(), |it| it.name.to_string()),
            owner.map_or("-".to_owned(), |it| it.incarnation.to_string()),
            part.epoch.to_string(),
            state,
        ]);
    }
    lines
}

fn row(words: &[&str]) -> Vec<String> {
    words.iter().map(|it| (*it).to_owned()).collect()
}

/// Lines with columns as wide as their widest word; the last one is as long as it is.
fn columns(lines: &[Vec<String>]) -> String {
    let count = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let words = lines.iter().filter_map(|line| line.get(column));
        words.map(|it| it.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line
            .iter()
            .zip(&widths)
            .map(|(word, width)| format!("{word:<width$}"));
        let cells: Vec<String> = cells.collect();
        text.push_str(cells.join("   ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
