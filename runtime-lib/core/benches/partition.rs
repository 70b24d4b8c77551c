//! How fast keys find their partitions and partitions their members, and how much moves, beside the
//! ways of others: a ring, rendezvous hashing, and sticky quotas as Kafka hands them out.
//!
//! One JSON object a line; `PARTITION_BENCH=smoke` makes it short. See `scripts/bench-partitions.sh`.

// The crate reads no clock; what measures it must.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

#[path = "partition/members.rs"]
mod members;
#[path = "partition/peers.rs"]
mod peers;
#[path = "../tests/partition_properties/rollout.rs"]
mod rollout;

use std::hint::black_box;
use std::time::Instant;

use leasehold_core::partition::{Candidate, HashId, Layout, Request, assign, check_plan};

use members::Group;
use peers::Peer;

/// Several measurements of one thing, and what others need for it.
struct Figure {
    metric: &'static str,
    unit: &'static str,
    goal: Option<f64>,
    samples: Vec<f64>,
    peers: Vec<(&'static str, f64)>,
}

impl Figure {
    fn new(metric: &'static str, unit: &'static str, goal: Option<f64>) -> Self {
        Self {
            metric,
            unit,
            goal,
            samples: Vec::new(),
            peers: Vec::new(),
        }
    }

    fn print(mut self) {
        self.samples.sort_by(f64::total_cmp);
        let median = self.samples[(self.samples.len() - 1) / 2];
        let (min, max) = (self.samples[0], self.samples[self.samples.len() - 1]);
        let goal = self.goal.map_or("null".to_owned(), |goal| goal.to_string());
        let peers: Vec<String> = self
            .peers
            .iter()
            .map(|(name, value)| format!("\"{name}\":{value:.3}"))
            .collect();
        println!(
            "{{\"metric\":\"{}\",\"value\":{median:.3},\"unit\":\"{}\",\"min\":{min:.3},\"max\":{max:.3},\
             \"goal\":{goal},\"samples\":{},\"peers\":{{{}}}}}",
            self.metric,
            self.unit,
            self.samples.len(),
            peers.join(",")
        );
    }
}

fn main() {
    let smoke = std::env::var("PARTITION_BENCH").is_ok_and(|mode| mode == "smoke");
    let rounds = if smoke { 20 } else { 1_000 };
    keys(rounds);
    plans(rounds.min(200));
    moves(if smoke { 100 } else { 2_000 });
    rollouts(if smoke { 3 } else { 20 });
}

/// UUIDs, as a text of 36 bytes each.
fn uuids(count: u64) -> Vec<String> {
    let part =
        |n: u64, salt: u64| HashId::CsHash1.of(&[n.to_le_bytes(), salt.to_le_bytes()].concat());
    let uuid = |n| {
        let (a, b) = (part(n, 1), part(n, 2));
        let (first, second, third) = (a >> 32, a >> 16 & 0xffff, a & 0xffff);
        let (fourth, last) = (b >> 48, b & 0xffff_ffff_ffff);
        format!("{first:08x}-{second:04x}-{third:04x}-{fourth:04x}-{last:012x}")
    };
    (0..count).map(uuid).collect()
}

fn layout(partitions: u16) -> Layout {
    match Layout::new(1, HashId::CsHash1, partitions) {
        Ok(layout) => layout,
        Err(error) => unreachable!("{error}"),
    }
}

/// Nanoseconds per key: of keys one by one, of keys that each wait for the one before, and of many.
fn keys(rounds: usize) {
    let (layout, keys) = (layout(1024), uuids(1024));
    let mut single = Figure::new("key_to_partition_ns", "ns", Some(10.0));
    let mut waiting = Figure::new("key_to_partition_waiting_ns", "ns", None);
    let mut many = Figure::new("keys_to_partitions_ns", "ns", Some(10.0));
    let per_key = |since: Instant| since.elapsed().as_nanos() as f64 / keys.len() as f64;
    for _ in 0..rounds {
        let start = Instant::now();
        for key in &keys {
            black_box(layout.partition_for_key(black_box(key.as_bytes())));
        }
        single.samples.push(per_key(start));

        let start = Instant::now();
        let mut next = 0;
        for _ in 0..keys.len() {
            next = layout.partition_for_key(keys[next].as_bytes()).index();
        }
        black_box(next);
        waiting.samples.push(per_key(start));

        let start = Instant::now();
        black_box(layout.partitions_for_keys(black_box(&keys)));
        many.samples.push(per_key(start));
    }
    single.print();
    waiting.print();
    many.print();
}

/// Milliseconds per plan for 4096 partitions and 300 members: from nothing, and after one left.
fn plans(rounds: usize) {
    let names: Vec<String> = (0..300)
        .map(|n| format!("orders-7d9f6c5b48-{n:05}"))
        .collect();
    let members: Vec<_> = names.iter().map(|name| Candidate::new(name)).collect();
    let nothing = vec![None; 4096];
    let fresh = Request {
        previous: &nothing,
        members: &members,
        ..Request::default()
    };
    let mut owners = assign(&fresh).owners;
    for owner in &mut owners {
        *owner = owner.filter(|member| *member != 299);
    }
    let left = Request {
        previous: &owners,
        members: &members[..299],
        ..Request::default()
    };
    let mut first = Figure::new("assign_4096x300_ms", "ms", Some(5.0));
    let mut next = Figure::new("assign_4096x300_one_left_ms", "ms", Some(5.0));
    for _ in 0..rounds {
        for (request, figure) in [(&fresh, &mut first), (&left, &mut next)] {
            let start = Instant::now();
            black_box(assign(black_box(request)));
            figure.samples.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    first.print();
    next.print();
}

/// Partitions moved by random changes of the members, over the least that balance needs; and the
/// largest load over the mean, without which few moves are no achievement.
fn moves(changes: usize) {
    let mut moved = Figure::new("moves_over_bound", "x", Some(1.0));
    let mut load = Figure::new("largest_load_over_mean", "x", None);
    let sizes = [(10, 3), (64, 12), (100, 30), (1000, 30)];
    let mut least = 0_u32;
    let mut ours = (0_u32, 0.0);
    let mut others = Peer::ALL.map(|peer| (peer, 0_u32, 0.0));
    for (seed, (partitions, size)) in sizes.into_iter().enumerate() {
        let mut group = Group::new(seed as u64, partitions, size);
        let mut owned = Peer::ALL.map(|peer| peer.owners(&group.names, &group.unowned()));
        group.owners = assign(&group.request()).owners;
        for _ in 0..changes / sizes.len() {
            let gone = group.change();
            let request = group.request();
            let plan = assign(&request);
            assert_eq!(check_plan(&request, &plan), []);
            least += u32::from(plan.least);
            moved
                .samples
                .push(f64::from(plan.moves) / f64::from(plan.least.max(1)));
            ours.0 += u32::from(plan.moves);
            ours.1 += group.imbalance(&group.by_name(&plan.owners));
            group.owners = plan.owners;
            for ((peer, count, imbalance), before) in others.iter_mut().zip(&mut owned) {
                let kept = members::without(before, &gone);
                let owners = peer.owners(&group.names, &kept);
                *count += members::changed(before, &owners);
                *imbalance += group.imbalance(&owners);
                *before = owners;
            }
        }
    }
    let done = moved.samples.len() as f64;
    moved.samples.retain(|ratio| *ratio > 0.0);
    load.samples.push(ours.1 / done);
    for (peer, count, imbalance) in others {
        moved
            .peers
            .push((peer.name(), f64::from(count) / f64::from(least)));
        load.peers.push((peer.name(), imbalance / done));
    }
    assert_eq!(ours.0, least, "all changes together");
    moved.print();
    load.print();
}

/// Moves per partition while 12 pods are replaced one by one, 64 partitions among them: ours through
/// the planner, until it rests. Others react to each pod that comes and goes; whether the leaver goes
/// first changes little for them.
fn rollouts(trials: usize) {
    let mut figure = Figure::new("rollout_moves_per_partition", "moves", Some(1.0));
    let mut others = Peer::ALL.map(|peer| (peer, 0_u32));
    for trial in 0..trials {
        let mut group = Group::new(trial as u64, 64, 12);
        let old = group.names.clone();
        let mut owned = Peer::ALL.map(|peer| peer.owners(&group.names, &group.unowned()));
        let mut new = Vec::new();
        for leaver in old.clone() {
            group.join();
            new.push(group.newest.clone());
            for ((peer, count), before) in others.iter_mut().zip(&mut owned) {
                let joined = peer.owners(&group.names, before);
                *count += members::changed(before, &joined);
                let names: Vec<_> = group
                    .names
                    .iter()
                    .filter(|n| **n != leaver)
                    .cloned()
                    .collect();
                let left = peer.owners(
                    &names,
                    &members::without(&joined, std::slice::from_ref(&leaver)),
                );
                *count += members::changed(&joined, &left);
                *before = left;
            }
            let place = group.names.iter().position(|name| *name == leaver);
            group.leave(place.unwrap_or_else(|| unreachable!("it is a member")));
        }
        let (moves, _) = rollout::roll_out(64, &old, &new);
        figure.samples.push(f64::from(moves) / 64.0);
    }
    for (peer, count) in others {
        figure
            .peers
            .push((peer.name(), f64::from(count) / trials as f64 / 64.0));
    }
    figure.print();
}
