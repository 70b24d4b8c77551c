//! Fair shares as a water level: every member is filled to the same height for its weight, within
//! what it must and may have.

use core::cmp::Ordering;

/// What bounds one member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) weight: u32,
    pub(super) least: usize,
    pub(super) most: usize,
}

/// A fair share, rounded down and up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fair {
    pub(super) down: usize,
    pub(super) up: usize,
}

/// A height as a fraction.
#[derive(Clone, Copy, Debug)]
struct Height {
    over: u128,
    under: u128,
}

impl Height {
    fn compare(&self, other: &Self) -> Ordering {
        (self.over * other.under).cmp(&(other.over * self.under))
    }
}

impl Bound {
    fn starts(&self) -> Height {
        self.height(self.least)
    }

    fn ends(&self) -> Height {
        self.height(self.most)
    }

    fn height(&self, count: usize) -> Height {
        Height {
            over: count as u128,
            under: u128::from(self.weight),
        }
    }

    /// What it has at this height, times `height.under`.
    fn filled(&self, height: &Height) -> u128 {
        let free = height.over * u128::from(self.weight);
        free.clamp(
            self.least as u128 * height.under,
            self.most as u128 * height.under,
        )
    }
}

/// The fair shares of `count` partitions.
pub(super) fn fair(count: usize, bounds: &[Bound]) -> Vec<Fair> {
    // Between two neighbours of these heights the same members rise.
    let mut edges: Vec<Height> = bounds
        .iter()
        .flat_map(|bound| [bound.starts(), bound.ends()])
        .collect();
    edges.sort_by(Height::compare);
    let reached = |edge: &Height| {
        let all: u128 = bounds.iter().map(|bound| bound.filled(edge)).sum();
        all <= count as u128 * edge.under
    };
    let level = edges.iter().rev().find(|edge| reached(edge));
    let Some(level) = level else {
        return bounds.iter().map(|bound| exactly(bound.least)).collect();
    };
    let rises = |bound: &&Bound| {
        bound.starts().compare(level).is_le() && bound.ends().compare(level).is_gt()
    };
    let still = |bound: &Bound| {
        if bound.ends().compare(level).is_le() {
            bound.most
        } else {
            bound.least
        }
    };
    let fixed: usize = bounds.iter().filter(|b| !rises(b)).map(still).sum();
    let weight: u128 = bounds
        .iter()
        .filter(rises)
        .map(|b| u128::from(b.weight))
        .sum();
    let rest = count.saturating_sub(fixed) as u128;
    let share = |bound: &Bound| {
        if !rises(&bound) {
            return exactly(still(bound));
        }
        let parts = rest * u128::from(bound.weight);
        let number = |share: u128| usize::try_from(share).unwrap_or(usize::MAX);
        Fair {
            down: number(parts / weight),
            up: number(parts.div_ceil(weight)),
        }
    };
    bounds.iter().map(share).collect()
}

fn exactly(count: usize) -> Fair {
    Fair {
        down: count,
        up: count,
    }
}
