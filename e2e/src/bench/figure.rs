//! Figures with their spread, as a table for people and as JSON for programs.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result, Step};

/// Several measurements of one thing.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// One more measurement.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The value below which `share` (0 to 1) of the measurements lie.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        let mut rank = 0;
        while rank < last && ((rank + 1) as f64) < share * self.0.len() as f64 {
            rank += 1;
        }
        Some(self.0[rank])
    }

    /// Median, smallest and largest.
    fn spread(&self) -> Option<(f64, f64, f64)> {
        Some((self.quantile(0.5)?, *self.0.first()?, *self.0.last()?))
    }
}

/// One figure of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its name, with the unit last.
    pub metric: String,
    /// Ours.
    pub value: f64,
    /// The unit.
    pub unit: &'static str,
    /// The smallest measurement of ours.
    pub min: f64,
    /// The largest measurement of ours.
    pub max: f64,
    /// The same of client-go, where it has such a thing.
    pub peer: Option<f64>,
    /// What we want to stay at or below.
    pub goal: Option<f64>,
    /// How many measurements of ours are behind it.
    pub samples: usize,
}

/// All figures of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    figures: Vec<Figure>,
}

impl Report {
    /// Adds the median of ours beside the median of the peer's.
    pub fn median(
        &mut self,
        metric: &str,
        unit: &'static str,
        ours: &Samples,
        peer: &Samples,
        goal: Option<f64>,
    ) -> Result<()> {
        self.add(metric, unit, (ours, peer), goal, |(median, _, _)| median)
    }

    /// Adds the value below which `share` of ours lies.
    pub fn quantile(
        &mut self,
        metric: &str,
        unit: &'static str,
        ours: &Samples,
        share: f64,
        goal: Option<f64>,
    ) -> Result<()> {
        let at = ours.quantile(share).unwrap_or_default();
        self.add(metric, unit, (ours, &Samples::default()), goal, |_| at)
    }

    /// Adds the largest of ours beside the largest of the peer's.
    pub fn largest(
        &mut self,
        metric: &str,
        unit: &'static str,
        ours: &Samples,
        peer: &Samples,
        goal: Option<f64>,
    ) -> Result<()> {
        self.add(metric, unit, (ours, peer), goal, |(_, _, largest)| largest)
    }

    fn add(
        &mut self,
        metric: &str,
        unit: &'static str,
        (ours, peer): (&Samples, &Samples),
        goal: Option<f64>,
        pick: impl Fn((f64, f64, f64)) -> f64,
    ) -> Result<()> {
        let spread = ours
            .spread()
            .ok_or_else(|| Error::new(format!("{metric}: nothing was measured")))?;
        let figure = Figure {
            metric: metric.to_owned(),
            value: pick(spread),
            unit,
            min: spread.1,
            max: spread.2,
            peer: peer.spread().map(pick),
            goal,
            samples: ours.count(),
        };
        println!("{}", Row(&figure));
        self.figures.push(figure);
        Ok(())
    }

    /// The figures that miss their goal.
    pub fn missed(&self) -> impl Iterator<Item = &Figure> {
        self.figures
            .iter()
            .filter(|figure| figure.goal.is_some_and(|goal| figure.value > goal))
    }

    /// Writes all figures as a JSON list.
    pub fn write(&self, path: &Path) -> Result<()> {
        let writing = || format!("writing {}", path.display());
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).step(writing)?;
        }
        let text = serde_json::to_string_pretty(&self.figures).step(writing)?;
        std::fs::write(path, text + "\n").step(writing)
    }
}

struct Row<'a>(&'a Figure);

/// The head of the table whose rows a [`Report`] prints.
pub const HEAD: &str = "metric                                         ours        min        max  client-go     goal  n";

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figure {
            metric,
            value,
            min,
            max,
            ..
        } = self.0;
        write!(f, "{metric:<40} {value:>10.3} {min:>10.3} {max:>10.3}")?;
        match self.0.peer {
            Some(peer) => write!(f, " {peer:>10.3}")?,
            None => write!(f, " {:>10}", "-")?,
        }
        match self.0.goal {
            Some(goal) if *value > goal => write!(f, " {goal:>8} MISSED")?,
            Some(goal) => write!(f, " {goal:>8}")?,
            None => write!(f, " {:>8}", "-")?,
        }
        write!(f, "  {}", self.0.samples)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        self.figures
            .iter()
            .try_for_each(|figure| writeln!(f, "{}", Row(figure)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Report, Samples};

    fn samples(values: &[f64]) -> Samples {
        let mut samples = Samples::default();
        for value in values {
            samples.push(*value);
        }
        samples
    }

    #[test]
    fn the_median_of_an_even_number_is_the_lower_of_the_middle_two() {
        assert_eq!(samples(&[4.0, 1.0, 3.0, 2.0]).quantile(0.5), Some(2.0));
        assert_eq!(samples(&[3.0, 1.0, 2.0]).quantile(0.5), Some(2.0));
        assert_eq!(samples(&[]).quantile(0.5), None);
    }

    #[test]
    fn a_figure_above_its_goal_is_missed() {
        let mut report = Report::default();
        let ours = samples(&[0.05, 0.2, 0.3]);
        report
            .median("p50_s", "s", &ours, &samples(&[2.0]), Some(0.1))
            .unwrap();
        report
            .largest("max_s", "s", &ours, &Samples::default(), Some(0.3))
            .unwrap();
        let missed: Vec<_> = report
            .missed()
            .map(|figure| figure.metric.as_str())
            .collect();
        assert_eq!(missed, ["p50_s"]);
    }

    #[test]
    fn a_figure_without_measurements_is_an_error() {
        let none = Samples::default();
        let error = Report::default()
            .median("p50_s", "s", &none, &none, None)
            .unwrap_err();
        assert_eq!(error.to_string(), "p50_s: nothing was measured");
    }
}
