//! Leases changed from outside the election, by kubectl (E4, E6).

use leasehold_crds::keys;
use leasehold_e2e::history::{Event, Fault, Line};
use leasehold_e2e::{Result, wait};

use crate::ground::{Ground, PATIENCE, Pair, demand, demand_good, demands, lease, token};

/// Deleted, emptied, forged: the term ends by the news and not by the clock, and later somebody
/// leads again under a larger token.
pub(crate) async fn an_edit_from_outside_ends_the_term_at_once(ground: &Ground) -> Result<()> {
    let pair = ground
        .pair_with("edited", &ground.options("deleted,emptied,forged"))
        .await?;
    let patch = |holder: &str| format!(r#"{{"spec":{{"holderIdentity":"{holder}"}}}}"#);
    let (emptied, forged) = (patch(""), patch("an-intruder"));
    futures::future::try_join3(
        edited(
            ground,
            &pair,
            "deleted",
            &["delete", "lease", "deleted.leader"],
            "deleted",
        ),
        edited(
            ground,
            &pair,
            "emptied",
            &[
                "patch",
                "lease",
                "emptied.leader",
                "--type=merge",
                "-p",
                &emptied,
            ],
            "somebody emptied the holder",
        ),
        edited(
            ground,
            &pair,
            "forged",
            &[
                "patch",
                "lease",
                "forged.leader",
                "--type=merge",
                "-p",
                &forged,
            ],
            "held by an-intruder",
        ),
    )
    .await?;
    Ok(())
}

async fn edited(
    ground: &Ground,
    pair: &Pair,
    service: &str,
    kubectl: &[&str],
    reason: &str,
) -> Result<()> {
    let gained = pair.leader.gained(service, 0, PATIENCE).await?;
    let edit = Line {
        service: service.to_owned(),
        fault: Some(Fault::Edit),
        reason: kubectl.join(" "),
        ..Line::new(Event::Fault)
    };
    ground.namespace.kubectl().run(kubectl).await?;
    let is_end = |line: &Line| line.event == Event::Lost && line.token == gained.token;
    let lost = pair
        .leader
        .until("the end of the term", service, edit.t, PATIENCE, is_end)
        .await?;
    demand(lost.reason.contains(reason), || {
        format!("{service}: it ended because {}", lost.reason)
    })?;
    let lines = pair.leader.lines(service)?;
    let answers = lines
        .iter()
        .filter(|line| line.token == gained.token && line.t <= lost.t);
    let trust = answers
        .filter_map(|line| Some(line.t + line.remaining?))
        .max();
    demand(trust > Some(lost.t), || {
        format!("{service}: trust had run out by itself: {lost:?}")
    })?;

    let again = wait::until("somebody to lead again", PATIENCE, || async {
        let mut lines = pair.leader.lines(service)?;
        lines.extend(pair.follower.lines(service)?);
        lines.sort_by_key(|line| line.t);
        Ok(lines
            .into_iter()
            .find(|line| line.event == Event::Gained && line.t > lost.t))
    })
    .await?;
    demand(token(&again)? > token(&gained)?, || {
        format!("{service}: the token did not grow: {gained:?}, then {again:?}")
    })?;
    demand_good(&ground.judge(service, &pair.histories(), &[edit], &demands(1))?)
}

/// Losing the labels looks like a deletion on the watch; the next own write restores them.
pub(crate) async fn labels_removed_from_outside_come_back_and_end_nothing(
    ground: &Ground,
) -> Result<()> {
    let service = "relabelled";
    let pair = ground.pair(service, &[]).await?;
    let name = lease(service);
    let (id, kind) = (
        format!("{}-", keys::LABEL_CLUSTER_ID),
        format!("{}-", keys::LABEL_LEASE),
    );
    ground
        .namespace
        .kubectl()
        .run(&["label", "lease", &name, &id, &kind])
        .await?;
    wait::until_true("the labels to come back", PATIENCE, || async {
        let labels = ground
            .lease(service)
            .await?
            .metadata
            .labels
            .unwrap_or_default();
        Ok(labels
            .get(keys::LABEL_CLUSTER_ID)
            .is_some_and(|id| id == service)
            && labels
                .get(keys::LABEL_LEASE)
                .is_some_and(|kind| kind == keys::LEASE_LEADER))
    })
    .await?;
    let restored = leasehold_e2e::history::now();
    let still_held = |line: &Line| line.event == Event::Write && line.token == pair.gained.token;
    pair.leader
        .until("a later write", service, restored, PATIENCE, still_held)
        .await?;
    let lines = pair.leader.lines(service)?;
    let ended = lines
        .iter()
        .find(|line| matches!(line.event, Event::Lost | Event::CheckFailed));
    demand(ended.is_none(), || format!("the term ended: {ended:?}"))?;
    // The follower watches on: it still takes over at once.
    pair.leader.terminate()?;
    pair.follower.gained(service, restored, PATIENCE).await?;
    demand_good(&ground.judge(service, &pair.histories(), &[], &demands(1))?)
}
