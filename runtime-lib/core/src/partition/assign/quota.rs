//! How many partitions each member should have.

use core::cmp::Reverse;

/// What bounds the share of one member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Relative to others, at least 1.
    pub(super) weight: u32,
    /// It cannot have fewer.
    pub(super) least: usize,
    /// It cannot have more.
    pub(super) most: usize,
}

/// The fair share of one member: `floor`, or one more if it is `broken`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) floor: usize,
    /// What the fair share has beyond the floor, in a unit that all members have in common.
    pub(super) rest: u128,
}

impl Share {
    /// May it be rounded up?
    pub(super) fn broken(self) -> bool {
        self.rest > 0
    }
}

/// The fair shares of `count` partitions by weight. Those whose bounds forbid theirs get the nearest
/// that is allowed, and the others share what that leaves.
pub(super) fn shares(count: usize, members: &[Bounds]) -> Vec<Share> {
    let mut shares = vec![Share::default(); members.len()];
    let mut open: Vec<usize> = (0..members.len()).collect();
    let mut left = count;
    while !open.is_empty() {
        let total: u128 = open.iter().map(|i| u128::from(members[*i].weight)).sum();
        // All in units of 1/total, so that nothing is rounded.
        let fair = |i: usize| left as u128 * u128::from(members[i].weight);
        let missing = |i: usize| (members[i].least as u128 * total).saturating_sub(fair(i));
        let beyond = |i: usize| fair(i).saturating_sub(members[i].most as u128 * total);
        let low: u128 = open.iter().map(|i| missing(*i)).sum();
        let high: u128 = open.iter().map(|i| beyond(*i)).sum();
        if low == 0 && high == 0 {
            for i in open {
                shares[i].floor = usize::try_from(fair(i) / total).unwrap_or(count);
                shares[i].rest = fair(i) % total;
            }
            break;
        }
        // The larger violation tells the direction in which the level will go: a member that falls
        // short of its least at this level does so at a lower one too.
        let (mut fixed, mut still_open) = (0, Vec::new());
        for i in open {
            if low >= high && missing(i) > 0 {
                shares[i].floor = members[i].least;
            } else if high >= low && beyond(i) > 0 {
                shares[i].floor = members[i].most;
            } else {
                still_open.push(i);
                continue;
            }
            fixed += shares[i].floor;
        }
        left = left.saturating_sub(fixed);
        open = still_open;
    }
    shares
}

/// How many shares are rounded up.
fn extras(count: usize, shares: &[Share]) -> usize {
    count.saturating_sub(shares.iter().map(|share| share.floor).sum())
}

/// How many partitions at least must be taken from members that `hold` so many.
pub(super) fn least_shed(count: usize, shares: &[Share], hold: &[usize]) -> usize {
    let above = || {
        shares
            .iter()
            .zip(hold)
            .filter(|(share, held)| **held > share.floor)
    };
    let excess: usize = above().map(|(share, held)| held - share.floor).sum();
    let may_keep_one = above().filter(|(share, _)| share.broken()).count();
    excess - may_keep_one.min(extras(count, shares))
}

/// Who gets a share that is rounded up before others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    /// It holds more than its floor: rounding up saves a move.
    pub(super) holds: bool,
    /// It is preferred by so many homeless partitions that it could use one more.
    pub(super) preferred: bool,
    /// Its zone, from 0.
    pub(super) zone: usize,
    /// Its weight.
    pub(super) weight: u32,
    /// What breaks ties: the same for every order of the members.
    pub(super) affinity: u64,
}

/// Rounds the shares, so that their sum is `count`.
pub(super) fn quotas(count: usize, shares: &[Share], claims: &[Claim]) -> Vec<usize> {
    let mut quotas: Vec<usize> = shares.iter().map(|share| share.floor).collect();
    let mut extras = extras(count, shares);
    let class = |i: &usize| (claims[*i].holds, claims[*i].preferred, shares[*i].rest);
    let mut eligible: Vec<usize> = (0..shares.len()).filter(|i| shares[*i].broken()).collect();
    // Stable, so that members alike in everything keep the order in which they came.
    eligible.sort_by_key(|i| Reverse((class(i), claims[*i].affinity)));
    for equals in eligible.chunk_by(|a, b| class(a) == class(b)) {
        let mut equals = equals.to_vec();
        if extras < equals.len() {
            by_zone(&mut equals, &quotas, claims);
        }
        for i in equals.into_iter().take(extras) {
            quotas[i] += 1;
            extras -= 1;
        }
    }
    quotas
}

/// Orders equals so that one more each keeps the zones as even as possible.
fn by_zone(equals: &mut [usize], quotas: &[usize], claims: &[Claim]) {
    let zones = claims.iter().map(|claim| claim.zone + 1).max().unwrap_or(0);
    let mut load = vec![0_u128; zones];
    let mut weight = vec![0_u128; zones];
    for (quota, claim) in quotas.iter().zip(claims) {
        load[claim.zone] += *quota as u128;
        weight[claim.zone] += u128::from(claim.weight);
    }
    // The load of its zone once it and the equals before it have one more.
    let mut turns: Vec<(u128, u128, usize)> = Vec::new();
    for i in equals.iter() {
        let zone = claims[*i].zone;
        load[zone] += 1;
        turns.push((load[zone], weight[zone], *i));
    }
    turns.sort_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)));
    for (place, (_, _, i)) in equals.iter_mut().zip(turns) {
        *place = i;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(weight: u32, least: usize, most: usize) -> Bounds {
        Bounds {
            weight,
            least,
            most,
        }
    }

    fn fair(count: usize, members: &[Bounds]) -> Vec<(usize, u128)> {
        let shares = shares(count, members);
        shares
            .iter()
            .map(|share| (share.floor, share.rest))
            .collect()
    }

    #[test]
    fn shares_follow_the_weights() {
        let free = |weight| bounds(weight, 0, 10);
        assert_eq!(
            fair(10, &[free(1), free(1), free(1)]),
            [(3, 1), (3, 1), (3, 1)]
        );
        assert_eq!(fair(10, &[free(1), free(3)]), [(2, 2), (7, 2)]);
        assert_eq!(fair(0, &[free(1), free(u32::MAX)]), [(0, 0), (0, 0)]);
        assert_eq!(fair(10, &[]), []);
    }

    #[test]
    fn what_a_member_may_not_have_is_shared_by_the_others() {
        let members = [bounds(1, 0, 1), bounds(1, 0, 10), bounds(1, 0, 10)];
        assert_eq!(fair(10, &members), [(1, 0), (4, 1), (4, 1)]);
    }

    #[test]
    fn what_a_member_must_have_is_missing_for_the_others() {
        let members = [bounds(1, 6, 10), bounds(1, 0, 10), bounds(1, 0, 10)];
        assert_eq!(fair(10, &members), [(6, 0), (2, 0), (2, 0)]);
    }

    #[test]
    fn bounds_on_both_sides_meet_at_one_level() {
        // The level is 2: had the first been bound at once, the second's least would seem broken.
        let members = [
            bounds(1, 0, 1),
            bounds(1, 2, 9),
            bounds(1, 5, 9),
            bounds(1, 0, 9),
        ];
        assert_eq!(fair(10, &members), [(1, 0), (2, 0), (5, 0), (2, 0)]);
    }

    fn claim(holds: bool, zone: usize, affinity: u64) -> Claim {
        Claim {
            holds,
            preferred: false,
            zone,
            weight: 1,
            affinity,
        }
    }

    #[test]
    fn one_more_goes_to_those_that_hold_it_and_then_to_the_lightest_zone() {
        let shares = shares(6, &[bounds(1, 0, 6); 4]);
        let zones = [
            claim(true, 0, 1),
            claim(false, 0, 9),
            claim(false, 1, 2),
            claim(false, 1, 3),
        ];
        assert_eq!(quotas(6, &shares, &zones), [2, 1, 1, 2]);
        let one_zone = zones.map(|claim| Claim { zone: 0, ..claim });
        assert_eq!(quotas(6, &shares, &one_zone), [2, 2, 1, 1]);
    }

    #[test]
    fn the_largest_rest_is_rounded_up_first() {
        let shares = shares(
            10,
            &[bounds(10, 0, 10), bounds(29, 0, 10), bounds(61, 0, 10)],
        );
        assert_eq!(quotas(10, &shares, &[claim(false, 0, 0); 3]), [1, 3, 6]);
    }
}
