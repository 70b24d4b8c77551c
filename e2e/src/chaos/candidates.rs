//! The processes that campaign: our example service and a client-go program,
//! started, disturbed and read the same way.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use leasehold_core::lease::LeaseTiming;
use rustix::process::Signal;
use serde::Deserialize;

use crate::error::{Error, Result, Step};
use crate::history::{self, Event, Line};
use crate::process::{Lifetime, Process};
use crate::{programs, wait};

/// How often guards are asked, and client-go's work acts.
const LOOK: Duration = Duration::from_millis(20);

/// How a workload is started.
#[derive(Clone, Debug)]
pub struct WorkloadOptions {
    /// Where its Leases are.
    pub namespace: String,
    /// Its way to the API server.
    pub kubeconfig: PathBuf,
    /// Its cluster ids, as `WORKLOAD_SERVICES` takes them.
    pub services: String,
    /// Its timing, fixed in code.
    pub timing: LeaseTiming,
    /// Its guarded store.
    pub ledger: Option<PathBuf>,
    /// Where history and log go.
    pub folder: PathBuf,
    /// Further variables.
    pub env: Vec<(&'static str, String)>,
}

/// One process of `leasehold-workload`.
pub struct Workload {
    process: Process,
    history: PathBuf,
}

impl Workload {
    /// Starts it as `name`. Its history goes on in the same file when a process
    /// of that name is started again.
    pub fn start(name: &str, options: &WorkloadOptions) -> Result<Self> {
        let history = options.folder.join(format!("{name}.history"));
        let seconds = |time: Duration| time.as_secs_f64().to_string();
        let timing = [
            options.timing.lease_duration(),
            options.timing.heartbeat(),
            options.timing.attempt_timeout(),
            options.timing.stop_budget(),
        ];
        let mut command = Command::new(programs::beside("leasehold-workload")?);
        // What configures the harness is no configuration of a workload.
        for (variable, _) in std::env::vars_os() {
            let text = variable.to_string_lossy();
            if text.starts_with("LEASEHOLD_") || text.starts_with("WORKLOAD_") {
                command.env_remove(&variable);
            }
        }
        command
            .env("KUBECONFIG", &options.kubeconfig)
            .env("LEASEHOLD_LEASES_DRIVER", "kubernetes")
            .env("LEASEHOLD_NAMESPACE", &options.namespace)
            .env("WORKLOAD_SERVICES", &options.services)
            .env("WORKLOAD_EVENTS", &history)
            .env("WORKLOAD_TIMING", timing.map(seconds).join("/"))
            .env("WORKLOAD_CHECK_EVERY_MS", LOOK.as_millis().to_string())
            .env("RUST_LOG", "info");
        if let Some(ledger) = &options.ledger {
            command.env("WORKLOAD_LEDGER", ledger);
        }
        for (variable, value) in &options.env {
            command.env(variable, value);
        }
        let log = options.folder.join(format!("{name}.log"));
        let process = Process::spawn(name, &command, &log, Lifetime::Bound)?;
        Ok(Self { process, history })
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        u32::try_from(self.process.record().pid).unwrap_or_default()
    }

    /// Asks it to shut down (SIGTERM) and does not wait.
    pub fn terminate(&self) -> Result<()> {
        self.process.record().signal(Signal::TERM)
    }

    /// The file of its history.
    pub fn history(&self) -> &Path {
        &self.history
    }

    /// What it wrote down about one cluster id so far.
    pub fn lines(&self, service: &str) -> Result<Vec<Line>> {
        if !self.history.exists() {
            return Ok(Vec::new());
        }
        let mut lines = history::read(&[&self.history])?;
        lines.retain(|line| line.service.is_empty() || line.service == service);
        Ok(lines)
    }

    /// The newest line that tells whether it leads; its first is its start.
    pub fn newest(&self) -> Option<Line> {
        newest_answer(&self.history)
    }

    /// The newest answer of its guard, if that is yes.
    pub fn leads(&self) -> Option<Line> {
        self.newest()
            .filter(|line| matches!(line.event, Event::Held | Event::Gained))
    }

    /// Waits for a line of one cluster id after `since` that `wanted` accepts.
    pub async fn until(
        &self,
        what: &str,
        service: &str,
        since: u64,
        within: Duration,
        wanted: impl Fn(&Line) -> bool,
    ) -> Result<Line> {
        let name = &self.process.record().name;
        let waited_for = format!("{what} ({name})");
        let found = wait::until(&waited_for, within, || async {
            let lines = self.lines(service)?;
            Ok(lines
                .into_iter()
                .find(|line| line.t >= since && wanted(line)))
        });
        found.await.step(|| self.process.last_lines(3))
    }

    /// Waits until it campaigns for one cluster id.
    pub async fn campaigns(&self, service: &str, within: Duration) -> Result<()> {
        let is_start = |line: &Line| line.event == Event::Started;
        self.until("a start", service, 0, within, is_start)
            .await
            .map(|_| ())
    }

    /// Waits until it leads one cluster id, anew after `since`.
    pub async fn gained(&self, service: &str, since: u64, within: Duration) -> Result<Line> {
        let is_gain = |line: &Line| line.event == Event::Gained;
        self.until("leadership", service, since, within, is_gain)
            .await
    }
}

fn has_ended(name: &str, how: &str, what: &str) -> Error {
    Error::new(format!("{name} ended ({how}) before there was: {what}"))
}

/// The last whole line that tells whether the process leads. A write does not:
/// a late one may be taken after the loss, as long as nobody leads.
fn newest_answer(path: &Path) -> Option<Line> {
    const TAIL: u64 = 8 * 1024;
    let mut file = std::fs::File::open(path).ok()?;
    let length = file.seek(SeekFrom::End(0)).ok()?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))
        .ok()?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).ok()?;
    let end = tail.iter().rposition(|&byte| byte == b'\n')?;
    let lines = tail[..end].rsplit(|&byte| byte == b'\n');
    let mut lines = lines.filter_map(|line| serde_json::from_slice::<Line>(line).ok());
    lines.find(|line| {
        !matches!(
            line.event,
            Event::Write | Event::Refused | Event::Unavailable | Event::Draining | Event::Hung
        )
    })
}

/// How a client-go candidate is started.
#[derive(Clone, Debug)]
pub struct ClientGoOptions {
    /// Where its Leases are.
    pub namespace: String,
    /// Its way to the API server.
    pub kubeconfig: PathBuf,
    /// The Leases themselves, `<cluster-id>.leader`.
    pub leases: Vec<String>,
    /// LeaseDuration, RenewDeadline and RetryPeriod.
    pub timing: [Duration; 3],
    /// Where its journal goes.
    pub folder: PathBuf,
}

impl ClientGoOptions {
    /// client-go's usual timing.
    pub const USUAL: [Duration; 3] = [
        Duration::from_secs(15),
        Duration::from_secs(10),
        Duration::from_secs(2),
    ];
    /// A timing as quick as [`LeaseTiming::FAST`].
    pub const FAST: [Duration; 3] = [
        Duration::from_secs(6),
        Duration::from_secs(4),
        Duration::from_secs(1),
    ];
}

/// One process of client-go's own election.
pub struct ClientGo {
    process: Process,
    identity: String,
}

/// One line of its journal, on the clock of histories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// Nanoseconds of the boot-time clock.
    pub t: u64,
    /// `started`, `act`, `stopped`, `released`, `release_failed`, `new_leader`, …
    pub event: String,
    /// The Lease.
    pub lease: String,
    /// Who.
    pub identity: String,
}

#[derive(Deserialize)]
struct JournalLine {
    mono: u64,
    event: String,
    #[serde(default)]
    lease: String,
    identity: String,
}

impl ClientGo {
    /// Starts it under `identity`; while it leads it writes down that it acts.
    pub fn start(identity: &str, options: &ClientGoOptions) -> Result<Self> {
        Self::start_with(identity, options, &[acting()])
    }

    /// Starts it under `identity`; after its first loss it ends.
    pub fn start_once(identity: &str, options: &ClientGoOptions) -> Result<Self> {
        Self::start_with(identity, options, &[acting(), "--on-lost=exit".to_owned()])
    }

    /// Starts it under `identity`; it only campaigns, so that what it costs can be measured.
    pub fn start_idle(identity: &str, options: &ClientGoOptions) -> Result<Self> {
        Self::start_with(identity, options, &[])
    }

    fn start_with(identity: &str, options: &ClientGoOptions, more: &[String]) -> Result<Self> {
        let mut command = Command::new(programs::client_go_candidate()?);
        let [lease, renew, retry] = options.timing.map(|time| format!("{}ms", time.as_millis()));
        command
            .arg(format!("--kubeconfig={}", options.kubeconfig.display()))
            .arg(format!("--namespace={}", options.namespace))
            .arg(format!("--identity={identity}"))
            .arg(format!("--lease-duration={lease}"))
            .arg(format!("--renew-deadline={renew}"))
            .arg(format!("--retry-period={retry}"))
            .args(more);
        for lease in &options.leases {
            command.arg(format!("--lease={lease}"));
        }
        let log = options.folder.join(format!("{identity}.journal"));
        let process = Process::spawn(identity, &command, &log, Lifetime::Bound)?;
        Ok(Self {
            process,
            identity: identity.to_owned(),
        })
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Its identity in the Lease.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Asks it to stop (SIGTERM) and does not wait.
    pub fn terminate(&self) -> Result<()> {
        self.process.record().signal(Signal::TERM)
    }

    /// What it wrote down about one Lease so far.
    pub fn acts(&self, lease: &str) -> Result<Vec<Act>> {
        acts_in(self.process.log(), lease)
    }

    /// Waits for `event` on one Lease after `since`.
    pub async fn until(
        &self,
        event: &str,
        lease: &str,
        since: u64,
        within: Duration,
    ) -> Result<Act> {
        let what = format!("'{event}' of {} on {lease}", self.identity);
        let found = wait::until(&what, within, || async {
            let ended = self.process.ended();
            let mut acts = self.acts(lease)?.into_iter();
            let act = acts.find(|act| act.t >= since && act.event == event);
            Ok(act
                .map(Ok)
                .or_else(|| ended.map(|how| Err(has_ended(&self.identity, &how, event)))))
        });
        found
            .await
            .and_then(|act| act)
            .step(|| self.process.last_lines(3))
    }
}

fn acting() -> String {
    format!("--act-every={}ms", LOOK.as_millis())
}

/// The lines about one Lease in a journal, which also holds the program's log.
pub fn acts_in(journal: &Path, lease: &str) -> Result<Vec<Act>> {
    let text = std::fs::read_to_string(journal)
        .step(|| format!("reading the journal {}", journal.display()))?;
    // The journal's clock stands still during a suspend of the machine.
    let suspended = history::now().saturating_sub(monotonic_now());
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<JournalLine>(line).ok());
    let acts = lines.filter(|line| line.lease == lease).map(|line| Act {
        t: line.mono + suspended,
        event: line.event,
        lease: line.lease,
        identity: line.identity,
    });
    Ok(acts.collect())
}

fn monotonic_now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{acts_in, newest_answer};

    #[test]
    fn a_journal_is_read_between_log_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let text = concat!(
            "I0101 a log line\n",
            r#"{"t":5,"mono":7,"event":"started","lease":"a.leader","identity":"go"}"#,
            "\n",
            r#"{"t":5,"mono":8,"event":"started","lease":"b.leader","identity":"go"}"#,
            "\n",
            r#"{"t":5,"mo"#,
        );
        std::fs::write(&path, text).unwrap();
        let acts = acts_in(&path, "a.leader").unwrap();
        assert_eq!(acts.len(), 1);
        assert_eq!(acts[0].event, "started");
    }

    #[test]
    fn the_newest_answer_is_the_last_whole_line_of_the_guard() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        std::fs::write(
            &path,
            concat!(
                "{\"t\":1,\"event\":\"held\"}\n",
                "{\"t\":2,\"event\":\"lost\"}\n",
                "{\"t\":3,\"event\":\"write\"}\n",
                "{\"t\":4,\"event\":\"he",
            ),
        )
        .unwrap();
        assert_eq!(newest_answer(&path).unwrap().t, 2);
    }
}
