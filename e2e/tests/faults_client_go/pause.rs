//! F: a process is stopped where it stands, and woken after its lease.

use std::time::Duration;

use leasehold_core::election::check::Violation;
use leasehold_e2e::chaos::candidates::Workload;
use leasehold_e2e::check::{Demands, Judgement, judge};
use leasehold_e2e::history::{self, Event, Line};
use leasehold_e2e::ledger::Ledger;
use leasehold_e2e::{Result, wait};

use crate::ground::{Ground, PATIENCE, demand, ended, lease, nanos, seconds, token};
use crate::run::Found;
use crate::table::{Fault, Role, cell};

/// After waking: time enough for everything that was due to happen.
const AFTERMATH: Duration = Duration::from_secs(2);
/// The pause lasts this much longer than the lease.
const BEYOND: Duration = Duration::from_secs(10);

/// A leader that was paused beyond its lease while another took over.
struct Woken {
    service: &'static str,
    workloads: [Workload; 2],
    old: String,
    resumed: u64,
    took_over: u64,
}

impl Woken {
    async fn stage(
        ground: &Ground,
        service: &'static str,
        env: &[(&'static str, String)],
    ) -> Result<Self> {
        let mut workloads = Vec::new();
        let mut old = String::new();
        for role in ["leader", "follower"] {
            let name = format!("{service}-{role}");
            let mut options = ground.our_options(&name, service, None).await?;
            options.env.extend(env.iter().cloned());
            if !env.is_empty() {
                options.ledger = Some(ground.ledger(service));
            }
            let workload = Workload::start(&name, &options)?;
            if role == "leader" {
                token(&workload.gained(service, 0, PATIENCE).await?)?.clone_into(&mut old);
            }
            workloads.push(workload);
        }
        let [leader, follower]: [Workload; 2] = workloads
            .try_into()
            .map_err(|_| leasehold_e2e::Error::new("two workloads were started"))?;
        leader.process().pause()?;
        let paused = history::now();
        let gained = follower.gained(service, paused, PATIENCE).await?;
        let until = paused + nanos(ground.timing.lease_duration() + BEYOND);
        follower
            .until("the end of the pause", service, until, PATIENCE, |line| {
                line.event == Event::Held
            })
            .await?;
        let woken = history::now();
        leader.process().resume()?;
        // The new leader's lines are the clock of this wait.
        follower
            .until(
                "the aftermath",
                service,
                woken + nanos(AFTERMATH),
                PATIENCE,
                |line| line.event == Event::Held,
            )
            .await?;
        wait::until_true("the woken leader to say that it lost", PATIENCE, || async {
            Ok(ended(&leader.lines(service)?, &old, 0).is_some())
        })
        .await?;
        Ok(Self {
            service,
            workloads: [leader, follower],
            old,
            resumed: woken,
            took_over: gained.t,
        })
    }

    /// What the woken leader wrote down about its old term afterwards.
    fn afterwards(&self) -> Result<Vec<Line>> {
        let mut lines = self.workloads[0].lines(self.service)?;
        lines.retain(|line| line.t >= self.resumed && line.token.as_ref() == Some(&self.old));
        Ok(lines)
    }

    fn judged(&self, ground: &Ground) -> Result<Judgement> {
        let histories: Vec<_> = self.workloads.iter().map(Workload::history).collect();
        let demands = Demands {
            trusted: ground.timing.trusted(),
            vacancy_max: PATIENCE,
            recovery_max: PATIENCE,
            changes_min: 1,
        };
        let entries = Ledger::at(&ground.ledger(self.service)).entries()?;
        judge(
            &history::read(&histories)?,
            &entries,
            self.service,
            &demands,
        )
    }
}

/// `check()` fails at once, and the work future is not polled again (E9): it
/// would have asked the guard itself, since its next write was long due.
pub(crate) async fn by_ours(ground: &Ground) -> Found {
    let woken = Woken::stage(ground, "pause-by-ours", &[]).await?;
    let lines = woken.afterwards()?;
    let count = |event| lines.iter().filter(|line| line.event == event).count();
    demand(count(Event::Held) == 0, || {
        format!("the guard answered yes after waking: {lines:?}")
    })?;
    demand(count(Event::CheckFailed) <= 1, || {
        format!("the work future was polled again: {lines:?}")
    })?;
    let told = ended(&lines, &woken.old, woken.resumed).unwrap_or(woken.resumed);
    demand(woken.took_over < woken.resumed, || {
        "nobody took over".to_owned()
    })?;
    Ok(vec![cell(
        Fault::Pause,
        Role::ByOurs,
        format!(
            "check() fails at once, told after {:.0} ms, work not polled again, overlap 0",
            seconds(woken.resumed, told) * 1000.0
        ),
    )])
}

/// A write that was already past its check is refused by its token.
pub(crate) async fn late_write_is_refused(ground: &Ground) -> Found {
    let env = [("WORKLOAD_LATE_WRITE", "true".to_owned())];
    let woken = Woken::stage(ground, "late-write", &env).await?;
    let refused = woken
        .afterwards()?
        .iter()
        .filter(|line| line.event == Event::Refused)
        .count();
    demand(refused > 0, || "no late write was tried".to_owned())?;
    let judgement = woken.judged(ground)?;
    demand(judgement.is_good(), || format!("broken:\n{judgement}"))?;
    Ok(Vec::new())
}

/// The positive control: with the token check switched off, the same write is
/// found by the checker.
pub(crate) async fn late_write_without_a_fence(ground: &Ground) -> Found {
    let on = || "true".to_owned();
    let env = [("WORKLOAD_LATE_WRITE", on()), ("WORKLOAD_UNFENCED", on())];
    let woken = Woken::stage(ground, "late-write-unfenced", &env).await?;
    let judgement = woken.judged(ground)?;
    let is_found = judgement
        .report
        .violations
        .iter()
        .any(|violation| matches!(violation, Violation::WriteOutOfOrder { .. }));
    demand(is_found, || {
        format!("the checker did not find the stale write:\n{judgement}")
    })?;
    Ok(Vec::new())
}

/// client-go leads on after waking; ours keeps its term and its guard.
pub(crate) async fn to_ours(ground: &Ground) -> Found {
    let (service, lease) = ("pause-to-ours", lease("pause-to-ours"));
    let rival = ground.rival("paused-rival", service, None).await?;
    rival.until("started", &lease, 0, PATIENCE).await?;
    let ours = ground.ours("pause-follower", service, None).await?;
    ours.campaigns(service, PATIENCE).await?;
    ground.pause(&rival, service).await?;
    let gained = ours.gained(service, 0, PATIENCE).await?;
    let woken = history::now();
    rival.process().resume()?;
    rival.until("stopped", &lease, woken, PATIENCE).await?;
    let acts = rival.acts(&lease)?;
    let after = acts
        .iter()
        .filter(|act| act.event == "act" && act.t >= woken);
    let acted = after.map(|act| act.t).max().unwrap_or(woken);
    let later = history::now() + nanos(ground.timing.heartbeat()) * 2;
    ours.until("a guard that holds on", service, later, PATIENCE, |line| {
        line.event == Event::Held && line.token == gained.token
    })
    .await?;
    Ok(vec![
        cell(
            Fault::Pause,
            Role::ClientGo,
            format!("leads on for {:.1} s after waking", seconds(woken, acted)),
        ),
        cell(
            Fault::Pause,
            Role::ToOurs,
            "keeps its term; the rival's tokens are lower",
        ),
    ])
}
