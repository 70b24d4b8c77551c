//! How leadership passes on: given back, by a crash, by a health check.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold::ChangeKind;
use leasehold_e2e::check::Demands;
use leasehold_e2e::history::{Event, Fault, Line};
use leasehold_e2e::{Result, wait};

use crate::ground::{
    Ground, PATIENCE, TIMING, annotation, demand, demand_good, demands, holder, lease, spawn,
    token, until_role,
};

/// The lease is given back, and the successor does not wait for it to lapse.
pub(crate) async fn a_terminated_leader_hands_over_at_once(ground: &Ground) -> Result<()> {
    let service = "graceful";
    let pair = ground.pair(service, &[]).await?;
    pair.leader.terminate()?;
    let gained = pair
        .follower
        .gained(service, pair.gained.t, PATIENCE)
        .await?;
    demand(token(&gained)? > token(&pair.gained)?, || {
        format!(
            "the token did not grow: {:?}, then {:?}",
            pair.gained, gained
        )
    })?;
    demand(gained.term == pair.gained.term.map(|term| term + 1), || {
        format!("not the next term: {:?}, then {:?}", pair.gained, gained)
    })?;
    wait::until_true("the record of the release", PATIENCE, || async {
        let released = |record: &leasehold_e2e::chaos::records::Record| record.holder.is_none();
        Ok(ground
            .records
            .find(&lease(service), pair.gained.t, released)
            .is_some())
    })
    .await?;
    wait::until_true("the end of the old leader", PATIENCE, || async {
        Ok(pair.leader.process().ended().is_some())
    })
    .await?;
    let judgement = ground.judge(service, &pair.histories(), &[], &demands(1))?;
    demand_good(&judgement)?;
    demand(judgement.accepted > 1, || {
        "the leaders wrote nothing".to_owned()
    })
}

/// Nobody gives the lease back: it lapses, and then the follower leads within the bound.
pub(crate) async fn a_killed_leader_is_replaced_when_its_lease_has_lapsed(
    ground: &Ground,
) -> Result<()> {
    let service = "crashed";
    let pair = ground.pair(service, &[]).await?;
    let killed = Line {
        pid: Some(pair.leader.pid()),
        fault: Some(Fault::Kill),
        reason: "SIGKILL".to_owned(),
        ..Line::new(Event::Fault)
    };
    pair.leader.process().kill();
    let gained = pair.follower.gained(service, killed.t, PATIENCE).await?;
    let is_release = |record: &leasehold_e2e::chaos::records::Record| record.holder.is_none();
    let released = ground
        .records
        .find(&lease(service), pair.gained.t, is_release);
    demand(released.is_none(), || {
        format!("somebody released for the dead: {released:?}")
    })?;
    demand(token(&gained)? > token(&pair.gained)?, || {
        "the token did not grow".to_owned()
    })?;
    let vacancy_max = TIMING.lease_duration() + TIMING.heartbeat();
    let demands = Demands {
        vacancy_max,
        ..demands(1)
    };
    demand_good(&ground.judge(service, &pair.histories(), &[killed], &demands)?)
}

/// `healthy()` is a veto: it ends the term cleanly, and keeps the process out until it is fit.
pub(crate) async fn a_leader_that_says_it_is_unhealthy_steps_down_for_another(
    ground: &Ground,
) -> Result<()> {
    let service = "veto";
    let fit = Arc::new(AtomicBool::new(true));
    let (sick, well) = (ground.member("sick").await?, ground.member("well").await?);
    let veto = Arc::clone(&fit);
    let builder = sick
        .service(service)
        .healthy(move || veto.load(Ordering::SeqCst));
    let patient = spawn(builder)?;
    let mut changes = patient.changes();
    until_role(&patient, "leader").await?;
    let other = spawn(well.service(service))?;
    // Whoever waits says for whom, and until when.
    wait::until_true(
        "the follower to say what it waits for",
        PATIENCE,
        || async {
            let status = other.status();
            Ok(status.waits_for.contains(sick.identity().as_str()) && status.until_s.is_some())
        },
    )
    .await?;

    fit.store(false, Ordering::SeqCst);
    until_role(&other, "leader").await?;
    let seen = ground.lease(service).await?;
    demand(holder(&seen) == Some(well.identity().as_str()), || {
        format!("held by {seen:?}")
    })?;
    let ended = async {
        while let Some(change) = changes.next().await {
            if change.kind == ChangeKind::SteppedDown {
                return true;
            }
        }
        false
    };
    let told = tokio::time::timeout(PATIENCE, ended).await;
    demand(told == Ok(true), || {
        format!("the changes did not tell it: {told:?}")
    })?;

    // As long as it is unfit it does not campaign, even if nobody leads.
    other.shutdown();
    other.finished().await?;
    wait::until_true("the sick one to wait for its health", PATIENCE, || async {
        Ok(patient.status().waits_for.contains("healthy"))
    })
    .await?;
    let released = ground.lease(service).await?;
    demand(
        annotation(&released, leasehold_crds::keys::ANNOTATION_RELEASED).is_some(),
        || format!("the lease bears no stamp of its release: {released:?}"),
    )?;
    demand(holder(&released).is_none(), || {
        format!("an unfit process took over: {released:?}")
    })?;
    fit.store(true, Ordering::SeqCst);
    until_role(&patient, "leader").await?;
    sick.close().await;
    well.close().await;
    Ok(())
}
