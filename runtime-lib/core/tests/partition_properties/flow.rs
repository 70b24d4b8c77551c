//! The cheapest flow from partitions to members whose shares are rounded down or up: an exact
//! minimum of moves, found in quite another way.

use std::collections::VecDeque;

#[derive(Clone, Copy)]
struct Arc {
    to: usize,
    room: i64,
    cost: i64,
}

/// Arcs in pairs: each is followed by its way back.
struct Network {
    arcs: Vec<Arc>,
    from: Vec<Vec<usize>>,
}

impl Network {
    fn new(nodes: usize) -> Self {
        Self {
            arcs: Vec::new(),
            from: vec![Vec::new(); nodes],
        }
    }

    fn arc(&mut self, from: usize, to: usize, room: i64, cost: i64) {
        self.from[from].push(self.arcs.len());
        self.arcs.push(Arc { to, room, cost });
        self.from[to].push(self.arcs.len());
        self.arcs.push(Arc {
            to: from,
            room: 0,
            cost: -cost,
        });
    }

    /// Sends as much as fits, along the cheapest ways; returns the amount and the cost.
    fn send(&mut self, source: usize, sink: usize) -> (i64, i64) {
        let (mut amount, mut cost) = (0, 0);
        loop {
            let mut price: Vec<Option<i64>> = vec![None; self.from.len()];
            let mut by = vec![usize::MAX; self.from.len()];
            price[source] = Some(0);
            let mut queue = VecDeque::from([source]);
            while let Some(node) = queue.pop_front() {
                for index in &self.from[node] {
                    let arc = self.arcs[*index];
                    let Some(here) = price[node].map(|price| price + arc.cost) else {
                        continue;
                    };
                    if arc.room > 0 && price[arc.to].is_none_or(|known| here < known) {
                        price[arc.to] = Some(here);
                        by[arc.to] = *index;
                        queue.push_back(arc.to);
                    }
                }
            }
            let Some(more) = price[sink] else {
                return (amount, cost);
            };
            let mut node = sink;
            while node != source {
                let index = by[node];
                self.arcs[index].room -= 1;
                self.arcs[index ^ 1].room += 1;
                node = self.arcs[index ^ 1].to;
            }
            amount += 1;
            cost += more;
        }
    }
}

/// The least number of moves to shares of the partitions by weight, each rounded down or up.
pub(crate) fn least_moves(previous: &[Option<usize>], weights: &[u32]) -> Option<usize> {
    if weights.is_empty() {
        return None;
    }
    let (count, members) = (previous.len(), weights.len());
    // Filling a share up to its floor is worth more than all moves together.
    let floors = -number(count as u128 + 1);
    let total: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let (source, sink) = (count + members, count + members + 1);
    let mut network = Network::new(sink + 1);
    for (partition, owner) in previous.iter().enumerate() {
        network.arc(source, partition, 1, 0);
        for member in 0..members {
            network.arc(
                partition,
                count + member,
                1,
                i64::from(*owner != Some(member)),
            );
        }
    }
    let mut filled = 0;
    for (member, weight) in weights.iter().enumerate() {
        let parts = count as u128 * u128::from(*weight);
        let floor = number(parts / total);
        network.arc(count + member, sink, floor, floors);
        network.arc(
            count + member,
            sink,
            i64::from(!parts.is_multiple_of(total)),
            0,
        );
        filled += floor;
    }
    let (amount, cost) = network.send(source, sink);
    assert_eq!(amount, number(count as u128), "everything has a place");
    usize::try_from(cost - filled * floors).ok()
}

fn number(count: u128) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
