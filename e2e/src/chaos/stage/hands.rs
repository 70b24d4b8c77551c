//! The hands of a run: how each disturbance is done, and what is written down
//! about it, so that the checker knows what to excuse.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, PostParams};
use rustix::process::Signal;

use super::super::candidates::Workload;
use super::super::deck::Disturbance;
use super::{Leading, SERVICE, STUCK, Stage};
use crate::error::{Error, Result, Step};
use crate::history::{Event, Fault, Line};
use crate::{Component, wait};

/// A pause lasts this much longer than the lease.
const BEYOND: Duration = Duration::from_secs(10);
/// Nobody has rights for this much longer than the lease.
const RIGHTLESS: Duration = Duration::from_secs(3);

impl Stage {
    /// Does one disturbance, and returns when its consequences are there: a
    /// new leader wherever the old one had to go.
    pub async fn disturb(&mut self, disturbance: &Disturbance) -> Result<()> {
        let leading = self.leading(None).await?;
        match disturbance {
            Disturbance::KillLeader => {
                self.kill(leading.member)?;
                self.leading(Some(&leading)).await?;
                self.start_again(leading.member)
            }
            Disturbance::KillCandidate(draw) => {
                let others = self.crew.len().saturating_sub(1).max(1);
                let member = (leading.member + 1 + draw % others) % self.crew.len();
                self.kill(member)?;
                self.start_again(member)
            }
            Disturbance::StopLeader => self.stop(&leading).await,
            Disturbance::PauseLeader => {
                self.pause(leading.member)?;
                self.leading(Some(&leading)).await.map(|_| ())
            }
            Disturbance::RestartApiserver => {
                let outage = self.outage("API server restarted")?;
                self.plane.restart(Component::Apiserver).await?;
                self.outage_ended(&outage)
            }
            Disturbance::Freeze(component, time) => self.freeze(*component, *time).await,
            Disturbance::DeleteLease => {
                self.edit(&leading, &["delete", "lease", &lease(), "--wait=false"])
                    .await
            }
            Disturbance::EmptyHolder => self.hold_as(&leading, "").await,
            Disturbance::ForgeHolder => self.hold_as(&leading, "intruder").await,
            Disturbance::RevokeLeader => {
                let binding = self.revoke(leading.member).await?;
                self.leading(Some(&leading)).await?;
                self.give_back(vec![binding]).await
            }
            Disturbance::RevokeAll => self.revoke_all().await,
        }
    }

    /// The line comes after the end, since the guard ends with the process.
    fn kill(&self, member: usize) -> Result<()> {
        let workload = &self.crew[member].workload;
        workload.process().kill();
        self.note(Line {
            pid: Some(workload.pid()),
            fault: Some(Fault::Kill),
            reason: format!("{} killed", self.crew[member].name),
            ..Line::new(Event::Fault)
        })
    }

    fn start_again(&mut self, member: usize) -> Result<()> {
        let member = &mut self.crew[member];
        member.workload = Workload::start(&member.name, &member.options)?;
        Ok(())
    }

    async fn stop(&mut self, leading: &Leading) -> Result<()> {
        let workload = &self.crew[leading.member].workload;
        workload.terminate()?;
        let what = format!("the end of {}", self.crew[leading.member].name);
        wait::until_true(&what, STUCK, || async {
            Ok(workload.process().ended().is_some())
        })
        .await?;
        self.leading(Some(leading)).await?;
        self.start_again(leading.member)
    }

    fn pause(&mut self, member: usize) -> Result<()> {
        let workload = &self.crew[member].workload;
        workload.process().pause()?;
        self.note(Line {
            pid: Some(workload.pid()),
            fault: Some(Fault::Pause),
            reason: format!("{} paused", self.crew[member].name),
            ..Line::new(Event::Fault)
        })?;
        let record = workload.process().record().clone();
        let time = self.timing.lease_duration() + BEYOND;
        self.paused.spawn(async move {
            tokio::time::sleep(time).await;
            // It may have been killed where it stood.
            let _ = record.signal_group(Signal::CONT);
            record
        });
        Ok(())
    }

    async fn freeze(&mut self, component: Component, time: Duration) -> Result<()> {
        let outage = self.outage(&format!("{component} paused"))?;
        self.plane.pause(component)?;
        tokio::time::sleep(time).await;
        self.plane.resume(component)?;
        wait::until_true("an answer after the pause", STUCK, || async {
            let leases = self.namespace.api::<Lease>();
            Ok(leases.get_opt(&lease()).await.is_ok())
        })
        .await?;
        self.outage_ended(&outage)
    }

    async fn hold_as(&self, leading: &Leading, holder: &str) -> Result<()> {
        let patch = serde_json::json!({ "spec": { "holderIdentity": holder } }).to_string();
        self.edit(
            leading,
            &[
                "patch",
                "lease",
                &lease(),
                "--type=merge",
                "--patch",
                &patch,
            ],
        )
        .await
    }

    /// kubectl takes a while: it happened somewhere between the two lines.
    async fn edit(&self, leading: &Leading, arguments: &[&str]) -> Result<()> {
        let about = || Line {
            service: SERVICE.to_owned(),
            fault: Some(Fault::Edit),
            reason: format!("kubectl {}", arguments[..2].join(" ")),
            ..Line::new(Event::Fault)
        };
        self.note(about())?;
        self.namespace.kubectl().run(arguments).await?;
        self.note(about())?;
        self.leading(Some(leading)).await.map(|_| ())
    }

    async fn revoke(&self, member: usize) -> Result<RoleBinding> {
        let name = &self.crew[member].name;
        let bindings = self.namespace.api::<RoleBinding>();
        let mut binding = bindings.get(name).await?;
        bindings.delete(name, &DeleteParams::default()).await?;
        binding.metadata.resource_version = None;
        binding.metadata.uid = None;
        Ok(binding)
    }

    async fn give_back(&self, taken: Vec<RoleBinding>) -> Result<()> {
        let bindings = self.namespace.api::<RoleBinding>();
        for binding in &taken {
            bindings.create(&PostParams::default(), binding).await?;
        }
        Ok(())
    }

    async fn revoke_all(&mut self) -> Result<()> {
        let outage = self.outage("nobody has rights")?;
        let mut taken = Vec::new();
        for member in 0..self.crew.len() {
            taken.push(self.revoke(member).await?);
        }
        tokio::time::sleep(self.timing.lease_duration() + RIGHTLESS).await;
        self.give_back(taken).await?;
        self.outage_ended(&outage)
    }

    fn outage(&mut self, what: &str) -> Result<String> {
        self.outages += 1;
        let reason = format!("{what} ({})", self.outages);
        self.note(Line {
            fault: Some(Fault::Outage),
            reason: reason.clone(),
            ..Line::new(Event::Fault)
        })?;
        Ok(reason)
    }

    fn outage_ended(&self, reason: &str) -> Result<()> {
        self.note(Line {
            fault: Some(Fault::Outage),
            reason: reason.to_owned(),
            ..Line::new(Event::FaultEnded)
        })
    }

    fn note(&self, line: Line) -> Result<()> {
        let line = Line {
            identity: "chaos".to_owned(),
            ..line
        };
        self.journal
            .write(&line)
            .map_err(Error::from)
            .step(|| "writing down a fault")
    }
}

fn lease() -> String {
    format!("{SERVICE}.leader")
}
