//! Processes of the harness: each in a process group of its own, with a log
//! file, ended as a group, and never outliving its owner unless asked to.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, Step};
use crate::wait;

/// How long the kernel may take to end a killed process.
const KILL_MAX: Duration = Duration::from_secs(5);
/// How long it may take to stop a process where it stands.
const STOPPED_MAX: Duration = Duration::from_secs(5);

/// When a process ends if nobody ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// With its handle, and with the process that started it, however that one ends.
    Bound,
    /// Never: it is a daemon.
    Detached,
}

/// A started process; one that is bound ends when this is dropped.
#[derive(Debug)]
pub struct Process {
    lifetime: Lifetime,
    record: ProcessRecord,
    log: PathBuf,
    child: Mutex<Child>,
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.lifetime == Lifetime::Bound {
            self.kill();
        }
    }
}

impl Process {
    /// Starts `command` under `name`; what it prints goes to `log` (appended).
    pub fn spawn(name: &str, command: &Command, log: &Path, lifetime: Lifetime) -> Result<Self> {
        let starting = || {
            format!(
                "starting {name} ({})",
                command.get_program().to_string_lossy()
            )
        };
        let out = File::options()
            .create(true)
            .append(true)
            .open(log)
            .step(starting)?;
        let err = out.try_clone().step(starting)?;
        let mut wrapped = wrap(command, lifetime);
        wrapped.stdin(Stdio::null()).stdout(out).stderr(err);
        let child = spawn_from_lasting_thread(wrapped).step(starting)?;
        let record = ProcessRecord::of(name, child.id()).step(starting)?;
        Ok(Self {
            lifetime,
            record,
            log: log.to_owned(),
            child: Mutex::new(child),
        })
    }

    /// Name, pid and start time, to find the process again later.
    pub fn record(&self) -> &ProcessRecord {
        &self.record
    }

    /// Where its output is.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, once it has.
    pub fn ended(&self) -> Option<String> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child
            .try_wait()
            .ok()
            .flatten()
            .map(|status| status.to_string())
    }

    /// Stops the whole group where it stands (SIGSTOP), as a hung machine would. Blocks until it does.
    pub fn pause(&self) -> Result<()> {
        self.record.signal_group(Signal::STOP)?;
        // The signal is only sent: on a busy machine it may answer once more.
        wait::blocking(STOPPED_MAX, || {
            self.record.is_stopped() || !self.record.is_running()
        });
        Ok(())
    }

    /// Lets a paused group go on (SIGCONT).
    pub fn resume(&self) -> Result<()> {
        self.record.signal_group(Signal::CONT)
    }

    /// Ends the whole group at once (SIGKILL) and reaps it.
    pub fn kill(&self) {
        if self.ended().is_none() {
            // It may end by itself in this instant; both are what was asked for.
            let _ = self.record.signal_group(Signal::KILL);
        }
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = child.wait();
    }

    /// Asks the group to end (SIGTERM) and kills it after `grace`. Blocks.
    pub fn stop(&self, grace: Duration) {
        self.stop_by(Signal::TERM, grace);
    }

    /// The same by the signal that this program understands best.
    pub fn stop_by(&self, signal: Signal, grace: Duration) {
        if self.ended().is_none() {
            let _ = self.record.signal_group(signal);
            let _ = self.record.signal_group(Signal::CONT);
        }
        wait::blocking(grace, || self.ended().is_some());
        self.kill();
    }

    /// The last lines of its log, for error messages.
    pub fn last_lines(&self, count: usize) -> String {
        last_lines(&self.log, count)
    }

    /// Whether it ended because somebody else had taken its port.
    pub fn lost_its_port(&self) -> bool {
        let lines = || self.last_lines(20).to_ascii_lowercase();
        self.ended().is_some() && lines().contains("address already in use")
    }

    /// Waits until it serves, as `holds` finds out, and says what its log says
    /// if it ends instead or takes longer than `within`.
    pub async fn until_it_serves<P, F>(
        &self,
        what: &str,
        within: Duration,
        mut holds: P,
    ) -> Result<()>
    where
        P: FnMut() -> F,
        F: Future<Output = Result<bool>>,
    {
        let outcome = wait::until(what, within, || {
            let ended = self.ended();
            let look = holds();
            async move {
                match ended {
                    Some(ended) => Ok(Some(Err(ended))),
                    None => Ok(look.await?.then_some(Ok(()))),
                }
            }
        })
        .await;
        let name = &self.record.name;
        let log = || {
            format!(
                "the end of {}:\n{}",
                self.log.display(),
                self.last_lines(12)
            )
        };
        match outcome {
            Ok(Ok(())) => Ok(()),
            Ok(Err(ended)) => Err(Error::new(format!("{name} ended ({ended}); {}", log()))),
            Err(error) => Err(Error::new(format!("{error}; {}", log()))),
        }
    }
}

/// What tells one process from every other, also from a later one that got
/// the same pid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// What it is, e.g. `kube-apiserver`.
    pub name: String,
    /// Its pid, which is also its process group.
    pub pid: i32,
    /// Clock ticks between boot and its start.
    pub started_ticks: u64,
}

impl ProcessRecord {
    /// The record of a running process.
    pub fn of(name: &str, pid: u32) -> Result<Self> {
        let pid = i32::try_from(pid)?;
        let started_ticks =
            started_ticks(pid).ok_or_else(|| Error::new(format!("process {pid} is gone")))?;
        Ok(Self {
            name: name.to_owned(),
            pid,
            started_ticks,
        })
    }

    /// Whether that very process still runs.
    pub fn is_running(&self) -> bool {
        started_ticks(self.pid) == Some(self.started_ticks)
    }

    /// Whether it stands still (SIGSTOP).
    pub fn is_stopped(&self) -> bool {
        self.is_running() && status(self.pid).is_some_and(|(state, _)| state == 'T')
    }

    /// The processes that it started and that still run.
    pub fn children(&self) -> Result<Vec<Self>> {
        let entries = std::fs::read_dir("/proc").step(|| "listing processes")?;
        let pids = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let ours = pids.filter(|pid| {
            let status = i32::try_from(*pid).ok().and_then(status);
            status.is_some_and(|(_, parent)| parent == self.pid)
        });
        // One that ends meanwhile is none.
        Ok(ours
            .filter_map(|pid| Self::of(&format!("a child of {}", self.name), pid).ok())
            .collect())
    }

    /// Sends `signal` to its group, unless the pid now belongs to another.
    pub fn signal_group(&self, signal: Signal) -> Result<()> {
        let gone = || Error::new(format!("{} (pid {}) is not running", self.name, self.pid));
        if !self.is_running() {
            return Err(gone());
        }
        let pid = Pid::from_raw(self.pid).ok_or_else(gone)?;
        rustix::process::kill_process_group(pid, signal)
            .step(|| format!("signalling {} (pid {})", self.name, self.pid))
    }

    /// Sends `signal` to the process alone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let gone = || Error::new(format!("{} (pid {}) is not running", self.name, self.pid));
        if !self.is_running() {
            return Err(gone());
        }
        let pid = Pid::from_raw(self.pid).ok_or_else(gone)?;
        rustix::process::kill_process(pid, signal)
            .step(|| format!("signalling {} (pid {})", self.name, self.pid))
    }

    /// Ends a group that may be nobody's child here: SIGTERM, then SIGKILL
    /// after `grace`. Returns whether it was running. Blocks.
    pub fn end(&self, grace: Duration) -> bool {
        if !self.is_running() {
            return false;
        }
        let _ = self.signal_group(Signal::TERM);
        let _ = self.signal_group(Signal::CONT);
        if !wait::blocking(grace, || !self.is_running()) {
            let _ = self.signal_group(Signal::KILL);
            // Nothing withstands it, but it takes a moment.
            wait::blocking(KILL_MAX, || !self.is_running());
        }
        true
    }
}

/// The state of a process and the pid of its parent.
fn status(pid: i32) -> Option<(char, i32)> {
    let stat = after_name(pid)?;
    let mut fields = stat.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

/// `/proc/PID/stat` from field 3 on: the name before it may hold spaces.
fn after_name(pid: i32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    Some(after_name.to_owned())
}

/// Field 22 of `/proc/PID/stat`; none for a process that is gone or a zombie.
fn started_ticks(pid: i32) -> Option<u64> {
    let stat = after_name(pid)?;
    let mut fields = stat.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// The end of a log file.
pub fn last_lines(log: &Path, count: usize) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// The same command in a process group of its own, and, if bound, behind a
/// small program of util-linux that sets its lifetime and then becomes it (same
/// pid): the calls needed between fork and exec would be unsafe here.
fn wrap(command: &Command, lifetime: Lifetime) -> Command {
    use std::os::unix::process::CommandExt as _;
    let mut wrapped = match lifetime {
        Lifetime::Bound => {
            let mut setpriv = Command::new("setpriv");
            setpriv
                .args(["--pdeathsig", "KILL", "--"])
                .arg(command.get_program());
            setpriv
        }
        Lifetime::Detached => Command::new(command.get_program()),
    };
    wrapped.process_group(0).args(command.get_args());
    // What is said to the harness is not said to what it starts: the library
    // refuses variables of its prefix that it does not know.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"LEASEHOLD_") {
            wrapped.env_remove(name);
        }
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    wrapped
}

type Spawned = (Command, mpsc::Sender<std::io::Result<Child>>);

/// The kernel counts the death of the *thread* that forked as the death of the
/// parent, and test threads end with their test; so one thread that lives as
/// long as this process starts everything.
fn spawn_from_lasting_thread(command: Command) -> Result<Child> {
    static SPAWNER: OnceLock<mpsc::Sender<Spawned>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (send, receive) = mpsc::channel::<Spawned>();
        std::thread::spawn(move || {
            for (mut command, answer) in receive {
                let _ = answer.send(command.spawn());
            }
        });
        send
    });
    let (send, receive) = mpsc::channel();
    spawner
        .send((command, send))
        .step(|| "handing over to the spawning thread")?;
    Ok(receive
        .recv()
        .step(|| "waiting for the spawning thread")??)
}

#[cfg(test)]
mod tests {
    use super::{Lifetime, Process};
    use std::process::Command;
    use std::time::Duration;

    fn sleeper(lifetime: Lifetime) -> Process {
        let mut command = Command::new("sleep");
        command.arg("600");
        Process::spawn(
            "sleeper",
            &command,
            std::path::Path::new("/dev/null"),
            lifetime,
        )
        .unwrap()
    }

    #[test]
    fn a_bound_process_outlives_the_thread_that_asked_for_it() {
        let process = std::thread::spawn(|| sleeper(Lifetime::Bound))
            .join()
            .unwrap();
        assert!(process.ended().is_none());
        assert!(process.record().is_running());
        process.kill();
        assert!(!process.record().is_running());
    }

    #[test]
    fn a_paused_process_is_stopped_all_the_same() {
        let process = sleeper(Lifetime::Detached);
        process.pause().unwrap();
        process.stop(Duration::from_secs(5));
        assert!(process.ended().is_some());
    }

    #[test]
    fn a_record_of_another_start_is_not_that_process() {
        let process = sleeper(Lifetime::Bound);
        let mut other = process.record().clone();
        other.started_ticks += 1;
        assert!(!other.is_running());
        assert!(other.signal_group(rustix::process::Signal::KILL).is_err());
        assert!(process.ended().is_none());
        process.kill();
    }
}
