//! How many partitions moved, and how few would have had to: counted from the
//! published tables, the least number by a flow and not by the planner's sums.

use super::keys::Slot;
use super::tables::Table;

/// Moves between two tables or over several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Partitions that went to another pod.
    pub made: usize,
    /// The least number that any balanced table of the same pods needs.
    pub least: usize,
}

/// The moves over a span: each published change counts, and the least number is
/// the one from the first table straight to the last.
pub fn over(tables: &[Table]) -> Moves {
    let (Some(first), Some(last)) = (tables.first(), tables.last()) else {
        return Moves::default();
    };
    Moves {
        made: tables.windows(2).map(|pair| made(&pair[0], &pair[1])).sum(),
        least: least(first, last),
    }
}

/// The least number for the same tables, one after the other: what each needs for the pods that it
/// knows. Pods that start late make more tables, and so more moves, but none of them may move more.
pub fn least_of_each(tables: &[Table]) -> usize {
    tables
        .windows(2)
        .map(|pair| least(&pair[0], &pair[1]))
        .sum()
}

/// Partitions of `after` that their pod did not own before, in whole or in part.
/// What nobody owned before cannot move.
pub fn made(before: &Table, after: &Table) -> usize {
    let homes = homes(before, after);
    let moved = |(partition, homes): &(usize, Vec<&str>)| {
        let owner = after.pod(*partition);
        !homes.is_empty() && owner.is_some_and(|owner| !homes.contains(&owner))
    };
    homes.into_iter().enumerate().filter(moved).count()
}

/// The least number of moves from `before` to any table of the layout and the
/// pods of `after` in which no pod has two partitions more than another.
pub fn least(before: &Table, after: &Table) -> usize {
    let mut pods: Vec<&str> = (0..after.owners.len())
        .filter_map(|partition| after.pod(partition))
        .collect();
    pods.sort_unstable();
    pods.dedup();
    if pods.is_empty() {
        return 0;
    }
    // source ─1─▶ partition ─1─▶ each home ─floor─▶ sink
    //                                └──1──▶ extra ─larger─▶ sink
    let (source, sink, extra) = (0, 1, 2);
    let node = |pod: &str| pods.binary_search(&pod).ok().map(|index| 3 + index);
    let mut flow = Flow::new(3 + pods.len() + after.owners.len());
    for pod in &pods {
        if let Some(node) = node(pod) {
            flow.edge(node, sink, after.owners.len() / pods.len());
            flow.edge(node, extra, 1);
        }
    }
    flow.edge(extra, sink, after.owners.len() % pods.len());
    let mut movable = 0;
    for (partition, homes) in homes(before, after).into_iter().enumerate() {
        movable += usize::from(!homes.is_empty());
        let own = 3 + pods.len() + partition;
        flow.edge(source, own, 1);
        for home in homes.into_iter().filter_map(node) {
            flow.edge(own, home, 1);
        }
    }
    movable - flow.largest(source, sink)
}

/// The pods that owned a part of each partition of `after`.
fn homes<'a>(before: &'a Table, after: &Table) -> Vec<Vec<&'a str>> {
    let slot = |table: &Table, partition: usize| Slot {
        generation: table.generation,
        count: table.count(),
        partition: u16::try_from(partition).unwrap_or(u16::MAX),
    };
    let mut parents = Vec::new();
    for partition in 0..before.owners.len() {
        parents.push((slot(before, partition).range(), before.pod(partition)));
    }
    let mut homes = Vec::new();
    for partition in 0..after.owners.len() {
        let (from, until) = slot(after, partition).range();
        let overlapping = parents
            .iter()
            .filter(|((first, end), _)| *first < until && from < *end);
        homes.push(overlapping.filter_map(|(_, pod)| *pod).collect());
    }
    homes
}

/// A flow in whole numbers, made largest by one augmenting path after the other.
struct Flow {
    /// Where each edge goes and what it can still take; its reverse is its neighbour.
    edges: Vec<(usize, usize)>,
    out: Vec<Vec<usize>>,
}

impl Flow {
    fn new(nodes: usize) -> Self {
        Self {
            edges: Vec::new(),
            out: vec![Vec::new(); nodes],
        }
    }

    fn edge(&mut self, from: usize, to: usize, capacity: usize) {
        self.out[from].push(self.edges.len());
        self.edges.push((to, capacity));
        self.out[to].push(self.edges.len());
        self.edges.push((from, 0));
    }

    fn largest(&mut self, source: usize, sink: usize) -> usize {
        let mut flow = 0;
        while self.augment(source, sink, &mut vec![false; self.out.len()]) {
            flow += 1;
        }
        flow
    }

    fn augment(&mut self, node: usize, sink: usize, seen: &mut Vec<bool>) -> bool {
        if node == sink {
            return true;
        }
        seen[node] = true;
        for index in 0..self.out[node].len() {
            let edge = self.out[node][index];
            let (to, left) = self.edges[edge];
            if left > 0 && !seen[to] && self.augment(to, sink, seen) {
                self.edges[edge].1 -= 1;
                self.edges[edge ^ 1].1 += 1;
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{Moves, least, least_of_each, made, over};
    use crate::partitions::tables::Table;

    fn table(generation: u32, owners: &str) -> Table {
        let owners = owners.chars().map(|pod| match pod {
            '-' => String::new(),
            pod => format!("{pod}#1"),
        });
        Table {
            generation,
            owners: owners.collect(),
            ..Table::default()
        }
    }

    #[test]
    fn a_newcomer_takes_its_share_and_no_more() {
        let (before, after) = (table(1, "aaabbb"), table(1, "aacbbc"));
        assert_eq!((made(&before, &after), least(&before, &after)), (2, 2));
        let wild = table(1, "bcabca");
        assert_eq!((made(&before, &wild), least(&before, &wild)), (4, 2));
    }

    #[test]
    fn the_share_of_a_leaver_has_to_move() {
        let (before, after) = (table(1, "aabbcc"), table(1, "aabbab"));
        assert_eq!((made(&before, &after), least(&before, &after)), (2, 2));
    }

    #[test]
    fn an_extra_one_may_stay_where_it_is() {
        let (before, after) = (table(1, "aaab"), table(1, "aabb"));
        assert_eq!(least(&before, &after), 1);
        assert_eq!(least(&table(1, "aaabb"), &table(1, "aaabb")), 0);
        assert_eq!(least(&table(1, "aaabb"), &table(1, "aabbb")), 0);
    }

    #[test]
    fn children_stay_with_an_owner_of_any_parent() {
        let (before, doubled) = (table(1, "ab"), table(2, "aabb"));
        assert_eq!((made(&before, &doubled), least(&before, &doubled)), (0, 0));
        let halved = table(2, "b");
        assert_eq!((made(&before, &halved), least(&before, &halved)), (0, 0));
        let swapped = table(2, "bbaa");
        assert_eq!((made(&before, &swapped), least(&before, &swapped)), (4, 0));
    }

    #[test]
    fn the_least_number_of_a_new_cut_matches_a_search_of_all_tables() {
        let cuts = [
            ("abc", 5),
            ("aabbc", 3),
            ("abab", 6),
            ("aaab", 3),
            ("abcab", 7),
        ];
        for (owners, count) in cuts {
            let before = table(1, owners);
            let mut pods: Vec<char> = owners.chars().collect();
            pods.sort_unstable();
            pods.dedup();
            let tables = every(count, &pods).into_iter();
            let balanced: Vec<Table> = tables
                .filter(|text| {
                    let counts = pods.iter().map(|pod| text.matches(*pod).count());
                    let counts: Vec<usize> = counts.collect();
                    counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1
                })
                .map(|text| table(2, &text))
                .collect();
            let best = balanced.iter().map(|after| made(&before, after)).min();
            let found = least(&before, &balanced[0]);
            assert_eq!(Some(found), best, "{owners} to {count}");
        }
    }

    fn every(count: usize, pods: &[char]) -> Vec<String> {
        if count == 0 {
            return vec![String::new()];
        }
        let shorter = every(count - 1, pods).into_iter();
        shorter
            .flat_map(|text| pods.iter().map(move |pod| format!("{text}{pod}")))
            .collect()
    }

    #[test]
    fn moves_there_and_back_count_twice() {
        let tables = [table(1, "aabb"), table(1, "abbb"), table(1, "aabb")];
        assert_eq!(over(&tables), Moves { made: 2, least: 0 });
        assert_eq!(over(&[]), Moves::default());
    }

    #[test]
    fn a_leaver_that_is_spread_before_its_newcomer_comes_needs_both_moves() {
        let tables = [table(1, "aabb"), table(1, "aaaa"), table(1, "aacc")];
        assert_eq!((over(&tables).made, over(&tables).least), (4, 2));
        assert_eq!(least_of_each(&tables), 4);
        let wild = [table(1, "aabb"), table(1, "bbaa")];
        assert_eq!((over(&wild).made, least_of_each(&wild)), (4, 0));
    }

    #[test]
    fn what_nobody_owned_does_not_move() {
        assert_eq!(made(&table(1, "--"), &table(1, "ab")), 0);
    }
}
