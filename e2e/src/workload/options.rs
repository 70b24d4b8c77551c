//! `WORKLOAD_*`: what the example service does beside campaigning. All problems
//! of all variables are listed at once.

use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::lease::LeaseTiming;

/// The checked environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Cluster ids to campaign for, all in this one process.
    pub services: Vec<String>,
    /// The guarded store; `{service}` stands for the cluster id.
    pub ledger: Option<String>,
    /// Whether the services are partitioned.
    pub partitioned: bool,
    /// The number of partitions, fixed in code.
    pub partitions: Option<u16>,
    /// The file with the URLs of the guarded stores of keys, under partitioned services. They hold
    /// passwords, which are nobody's who reads the environment.
    pub stores: Option<PathBuf>,
    /// How many keys there are.
    pub keys: usize,
    /// Where history lines go; standard output if not given.
    pub events: Option<PathBuf>,
    /// Pause between guarded writes.
    pub write_every: Duration,
    /// Pause between answers of the guard that are written down; a thread of
    /// its own asks, so that it sees what a stalled executor would not.
    pub check_every: Option<Duration>,
    /// How long the work in flight at a shutdown takes.
    pub drain_work: Duration,
    /// What SIGUSR1 does to the work.
    pub hang: Option<Hang>,
    /// Timing fixed in code.
    pub timing: Option<LeaseTiming>,
    /// Drain timeout fixed in code.
    pub drain_timeout: Option<Duration>,
    /// Try one write under the old token after a loss.
    pub late_write: bool,
    /// Write without asking the fence: the positive control of the checker.
    pub unfenced: bool,
    /// A file with the name of a pod and the rate of its clock.
    pub clock: Option<PathBuf>,
}

/// Ways to hang while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hang {
    /// The work waits for something that never comes; `healthy()` tells.
    Wait,
    /// The work blocks the thread that polls it.
    Block,
}

const NAMES: [&str; 16] = [
    "WORKLOAD_SERVICES",
    "WORKLOAD_LEDGER",
    "WORKLOAD_PARTITIONED",
    "WORKLOAD_PARTITIONS",
    "WORKLOAD_STORES",
    "WORKLOAD_KEYS",
    "WORKLOAD_EVENTS",
    "WORKLOAD_WRITE_EVERY_MS",
    "WORKLOAD_CHECK_EVERY_MS",
    "WORKLOAD_DRAIN_WORK_MS",
    "WORKLOAD_HANG",
    "WORKLOAD_TIMING",
    "WORKLOAD_DRAIN_TIMEOUT",
    "WORKLOAD_LATE_WRITE",
    "WORKLOAD_UNFENCED",
    "WORKLOAD_CLOCK",
];

impl Options {
    /// Reads the environment of this process.
    pub fn from_env() -> Result<Self, Vec<String>> {
        Self::from_variables(std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            // Kubernetes makes such names itself where a Service is called `workload`.
            let from_a_service =
                name.starts_with("WORKLOAD_PORT") || name.starts_with("WORKLOAD_SERVICE_");
            let ours = name.starts_with("WORKLOAD_") && !from_a_service;
            ours.then(|| (name, value.to_string_lossy().into_owned()))
        }))
    }

    /// Reads these variables.
    pub fn from_variables(
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Vec<String>> {
        let mut options = Self {
            services: vec!["workload".to_owned()],
            ledger: None,
            partitioned: false,
            partitions: None,
            stores: None,
            keys: 512,
            events: None,
            write_every: Duration::from_millis(200),
            check_every: None,
            drain_work: Duration::ZERO,
            hang: None,
            timing: None,
            drain_timeout: None,
            late_write: false,
            unfenced: false,
            clock: None,
        };
        let mut problems = Vec::new();
        for (name, value) in variables {
            if let Err(allowed) = options.set(&name, &value) {
                problems.push(format!("{name}: found {value:?}, {allowed}"));
            }
        }
        if let Some(ledger) = &options.ledger
            && options.services.len() > 1
            && !ledger.contains("{service}")
        {
            problems.push(format!(
                "WORKLOAD_LEDGER: found {ledger:?} for {} services, whose tokens do not compare; \
                 allowed is a path with {{service}} in it",
                options.services.len()
            ));
        }
        if problems.is_empty() {
            Ok(options)
        } else {
            Err(problems)
        }
    }

    /// The guarded store of one service.
    pub fn ledger_of(&self, service: &str) -> Option<PathBuf> {
        self.ledger
            .as_ref()
            .map(|path| PathBuf::from(path.replace("{service}", service)))
    }

    /// The rate of the clock of `pod`, if the file names that pod: `orders-7x2kq 1.01`. There may be no
    /// such file yet; a process that starts later reads it again.
    pub fn clock_rate_of(&self, pod: &str) -> Result<Option<f64>, String> {
        let Some(path) = &self.clock else {
            return Ok(None);
        };
        let Ok(text) = std::fs::read_to_string(path) else {
            return Ok(None);
        };
        let Some((named, rate)) = text.trim().split_once(' ') else {
            return Err(format!("found {text:?}, allowed are a pod and a rate"));
        };
        match rate.parse::<f64>() {
            Ok(rate) if (0.1..=10.0).contains(&rate) => Ok((named == pod).then_some(rate)),
            _ => Err(format!("found {rate:?}, allowed are rates from 0.1 to 10")),
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "WORKLOAD_SERVICES" => self.services = services(value)?,
            "WORKLOAD_LEDGER" => self.ledger = Some(value.to_owned()),
            "WORKLOAD_PARTITIONED" => self.partitioned = boolean(value)?,
            "WORKLOAD_PARTITIONS" => {
                let count = value.parse().map_err(|_| "allowed is a number")?;
                self.partitions = Some(count);
            }
            "WORKLOAD_STORES" => self.stores = Some(PathBuf::from(value)),
            "WORKLOAD_KEYS" => {
                self.keys = value.parse().map_err(|_| "allowed is a number of keys")?;
            }
            "WORKLOAD_EVENTS" => self.events = Some(PathBuf::from(value)),
            "WORKLOAD_WRITE_EVERY_MS" => self.write_every = millis(value)?,
            "WORKLOAD_CHECK_EVERY_MS" => self.check_every = Some(millis(value)?),
            "WORKLOAD_DRAIN_WORK_MS" => self.drain_work = millis(value)?,
            "WORKLOAD_HANG" => {
                self.hang = Some(match value {
                    "wait" => Hang::Wait,
                    "block" => Hang::Block,
                    _ => return Err("allowed are wait and block".to_owned()),
                });
            }
            "WORKLOAD_TIMING" => self.timing = Some(timing(value)?),
            "WORKLOAD_DRAIN_TIMEOUT" => self.drain_timeout = Some(seconds(value)?),
            "WORKLOAD_LATE_WRITE" => self.late_write = boolean(value)?,
            "WORKLOAD_UNFENCED" => self.unfenced = boolean(value)?,
            "WORKLOAD_CLOCK" => self.clock = Some(PathBuf::from(value)),
            _ => {
                return Err(format!(
                    "a name that is not known; known are {}",
                    NAMES.join(", ")
                ));
            }
        }
        Ok(())
    }
}

/// `orders`, `orders,bills`, or `load*100` for load-0 to load-99.
fn services(text: &str) -> Result<Vec<String>, String> {
    const ALLOWED: &str = "allowed are cluster ids with commas between them, or <prefix>*<count> \
                           with a count from 1 to 10000";
    if let Some((prefix, count)) = text.split_once('*') {
        let count: u32 = count.parse().map_err(|_| ALLOWED)?;
        if prefix.is_empty() || !(1..=10_000).contains(&count) {
            return Err(ALLOWED.to_owned());
        }
        return Ok((0..count)
            .map(|number| format!("{prefix}-{number}"))
            .collect());
    }
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) {
        return Err(ALLOWED.to_owned());
    }
    Ok(names)
}

/// A preset, or the four durations in seconds as `D/I/A/S`.
fn timing(text: &str) -> Result<LeaseTiming, String> {
    match text {
        "default" => return Ok(LeaseTiming::DEFAULT),
        "fast" => return Ok(LeaseTiming::FAST),
        "calm" => return Ok(LeaseTiming::CALM),
        _ => {}
    }
    let parts: Vec<Duration> = text.split('/').map(seconds).collect::<Result<_, _>>().map_err(|_| {
        "allowed are default, fast, calm, or duration/heartbeat/attempt/stop in seconds such as 6/2/1/1"
    })?;
    match parts[..] {
        [duration, heartbeat, attempt, stop] => {
            LeaseTiming::new(duration, heartbeat, attempt, stop).map_err(|error| error.to_string())
        }
        _ => Err("allowed are four durations in seconds such as 6/2/1/1".to_owned()),
    }
}

fn millis(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(number @ 1..=3_600_000) => Ok(Duration::from_millis(number)),
        _ => Err("allowed are milliseconds from 1 to 3600000".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.001..=86_400.0).contains(&number) => Ok(Duration::from_secs_f64(number)),
        _ => Err("allowed are seconds from 0.001 to 86400".to_owned()),
    }
}

fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("allowed are true and false".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Hang, Options};
    use leasehold_core::lease::LeaseTiming;
    use std::time::Duration;

    fn read(variables: &[(&str, &str)]) -> Result<Options, Vec<String>> {
        let owned = variables
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Options::from_variables(owned)
    }

    #[test]
    fn every_variable_is_read() {
        let options = read(&[
            ("WORKLOAD_SERVICES", "load*3"),
            ("WORKLOAD_LEDGER", "l/{service}"),
            ("WORKLOAD_WRITE_EVERY_MS", "10"),
            ("WORKLOAD_CHECK_EVERY_MS", "5"),
            ("WORKLOAD_DRAIN_WORK_MS", "30000"),
            ("WORKLOAD_HANG", "block"),
            ("WORKLOAD_TIMING", "6/2/1/1"),
            ("WORKLOAD_DRAIN_TIMEOUT", "55"),
            ("WORKLOAD_LATE_WRITE", "true"),
            ("WORKLOAD_PARTITIONED", "true"),
            ("WORKLOAD_PARTITIONS", "96"),
            ("WORKLOAD_KEYS", "64"),
        ])
        .unwrap();
        assert!(options.partitioned);
        assert_eq!((options.partitions, options.keys), (Some(96), 64));
        assert_eq!(options.services, ["load-0", "load-1", "load-2"]);
        assert_eq!(
            options.ledger_of("load-1").unwrap().to_string_lossy(),
            "l/load-1"
        );
        assert_eq!(options.timing, Some(LeaseTiming::FAST));
        assert_eq!(options.hang, Some(Hang::Block));
        assert_eq!(options.drain_timeout, Some(Duration::from_secs(55)));
    }

    #[test]
    fn all_problems_are_listed_at_once() {
        let problems = read(&[
            ("WORKLOAD_SERVICES", "a,,b"),
            ("WORKLOAD_WRITE_EVERY_MS", "soon"),
            ("WORKLOAD_TIMING", "6/5/1/1"),
            ("WORKLOAD_UNFENCED", "yes"),
            ("WORKLOAD_SPEED", "9"),
        ])
        .unwrap_err();
        assert_eq!(problems.len(), 5, "{problems:?}");
        assert!(problems[1].starts_with("WORKLOAD_WRITE_EVERY_MS: found \"soon\", allowed"));
        assert!(
            problems[2].contains("heartbeat plus two attempts"),
            "{}",
            problems[2]
        );
    }

    #[test]
    fn only_the_named_pod_has_a_clock_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clock");
        let options = read(&[("WORKLOAD_CLOCK", path.to_str().unwrap())]).unwrap();
        assert_eq!(options.clock_rate_of("a-1"), Ok(None), "no file yet");
        std::fs::write(&path, "a-1 1.01\n").unwrap();
        assert_eq!(options.clock_rate_of("a-1"), Ok(Some(1.01)));
        assert_eq!(options.clock_rate_of("a-2"), Ok(None));
        for wrong in ["a-1", "a-1 0", "a-1 fast"] {
            std::fs::write(&path, wrong).unwrap();
            assert!(options.clock_rate_of("a-1").is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_ledger_for_tokens_of_several_leases_is_refused() {
        let problems =
            read(&[("WORKLOAD_SERVICES", "a,b"), ("WORKLOAD_LEDGER", "one")]).unwrap_err();
        assert!(problems[0].contains("do not compare"), "{problems:?}");
    }
}
