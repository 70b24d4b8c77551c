//! H8: with whom each child of a new layout stays, so that as few of them as possible move.
//!
//! A child overlaps several parents, and stays if it goes to the owner of any of them. Who owns most
//! of it comes first; another one only where the first has more than its share already.

/// Of each child one of its homes, given best first; `None` if it has none. As many as possible stay
/// when everyone with a home gets an even share; those that cannot keep their first home, and
/// balance moves them.
pub(super) fn chosen(homes: &[Vec<usize>]) -> Vec<Option<usize>> {
    let members = homes.iter().flatten().max().map_or(0, |last| last + 1);
    let mut known: Vec<usize> = homes.iter().flatten().copied().collect();
    known.sort_unstable();
    known.dedup();
    let mut stay = Stay {
        homes,
        kept: vec![Vec::new(); members],
        floor: homes.len() / known.len().max(1),
        larger: homes.len() % known.len().max(1),
        above: 0,
    };
    for child in 0..homes.len() {
        stay.place(child, &mut vec![false; members]);
    }
    let mut chosen: Vec<Option<usize>> = homes.iter().map(|best| best.first().copied()).collect();
    for (home, kept) in stay.kept.iter().enumerate() {
        for child in kept {
            chosen[*child] = Some(home);
        }
    }
    chosen
}

/// Augmenting paths: each member has room for `floor` children, and `larger` members for one more.
struct Stay<'a> {
    homes: &'a [Vec<usize>],
    kept: Vec<Vec<usize>>,
    floor: usize,
    larger: usize,
    /// How many members have more than `floor` now.
    above: usize,
}

impl Stay<'_> {
    /// Finds a home for a child, if need be by moving others between theirs.
    fn place(&mut self, child: usize, tried: &mut [bool]) -> bool {
        let homes = self.homes;
        homes[child].iter().any(|home| {
            let is_new = !core::mem::replace(&mut tried[*home], true);
            let fits = is_new && (self.has_room(*home) || self.make_room(*home, tried));
            if fits {
                self.kept[*home].push(child);
                self.above += usize::from(self.kept[*home].len() == self.floor + 1);
            }
            fits
        })
    }

    fn has_room(&self, home: usize) -> bool {
        let used = self.kept[home].len();
        used < self.floor || (used == self.floor && self.above < self.larger)
    }

    /// One of its own goes elsewhere; or it becomes one of the larger in place of another.
    fn make_room(&mut self, home: usize, tried: &mut [bool]) -> bool {
        if self.send_one_away(home, tried) {
            return true;
        }
        if self.kept[home].len() != self.floor || self.larger == 0 {
            return false;
        }
        (0..self.kept.len()).any(|other| {
            self.kept[other].len() > self.floor
                && !core::mem::replace(&mut tried[other], true)
                && self.send_one_away(other, tried)
        })
    }

    fn send_one_away(&mut self, home: usize, tried: &mut [bool]) -> bool {
        // It counts here until it has another place: what it frees is for whoever asked.
        for index in 0..self.kept[home].len() {
            if self.place(self.kept[home][index], tried) {
                self.above -= usize::from(self.kept[home].len() == self.floor + 1);
                self.kept[home].remove(index);
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many children stay in the best of all even tables, by trying them all.
    fn most(homes: &[Vec<usize>], members: usize) -> usize {
        fn search(homes: &[Vec<usize>], at: usize, left: &mut [usize], extras: usize) -> usize {
            if at == homes.len() {
                return 0;
            }
            let mut best = 0;
            for member in 0..left.len() {
                let is_home = usize::from(homes[at].contains(&member));
                // Below zero by one is what the larger members may be.
                let (free, extra) = (left[member] > 1, left[member] == 1 && extras > 0);
                if free || extra {
                    left[member] -= 1;
                    let rest = extras - usize::from(!free);
                    best = best.max(is_home + search(homes, at + 1, left, rest));
                    left[member] += 1;
                }
            }
            best
        }
        let (floor, larger) = (homes.len() / members, homes.len() % members);
        search(homes, 0, &mut vec![floor + 1; members], larger)
    }

    fn kept(homes: &[Vec<usize>], members: usize) -> usize {
        let chosen = chosen(homes);
        let (floor, larger) = (homes.len() / members, homes.len() % members);
        let mut counts: Vec<usize> = (0..members)
            .map(|member| chosen.iter().filter(|home| **home == Some(member)).count())
            .collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let quota = |index: usize| floor + usize::from(index < larger);
        let counts = counts.iter().enumerate();
        counts
            .map(|(index, count)| (*count).min(quota(index)))
            .sum()
    }

    #[test]
    fn as_many_children_stay_as_in_the_best_of_all_tables() {
        // A small generator: the same cases each time.
        let mut seed = 7_u64;
        let mut draw = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(seed >> 33).unwrap() % below
        };
        for _ in 0..300 {
            let members = 2 + draw(2);
            let children = members + draw(5);
            let mut homes: Vec<Vec<usize>> = (0..children)
                .map(|_| {
                    let mut homes = vec![draw(members), draw(members)];
                    homes.dedup();
                    homes
                })
                .collect();
            // Everyone owns something.
            for (member, homes) in homes.iter_mut().enumerate().take(members) {
                *homes = vec![member];
            }
            assert_eq!(kept(&homes, members), most(&homes, members), "{homes:?}");
        }
    }

    #[test]
    fn whoever_owns_most_of_a_child_comes_first() {
        let homes = vec![vec![0, 1], vec![1, 0], vec![1, 0], vec![0]];
        assert_eq!(chosen(&homes), [Some(0), Some(1), Some(1), Some(0)]);
    }

    #[test]
    fn another_owner_takes_what_is_too_much_for_the_first() {
        let homes = vec![vec![0], vec![0], vec![0, 1], vec![1]];
        assert_eq!(chosen(&homes), [Some(0), Some(0), Some(1), Some(1)]);
        assert_eq!(chosen(&[vec![], vec![0]]), [None, Some(0)]);
        assert!(chosen(&[]).is_empty());
    }
}
