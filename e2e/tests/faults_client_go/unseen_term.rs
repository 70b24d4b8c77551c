//! D: a leader sleeps through a rival's whole term.

use leasehold_e2e::history;
use leasehold_e2e::wait;

use crate::ground::{Ground, PATIENCE, demand, ended, last_held, lease, seconds, token};
use crate::run::Found;
use crate::table::{Fault, Role, cell};

/// Lost and regained is two terms (E6): the work is told, and begins anew under
/// a new token.
pub(crate) async fn by_ours(ground: &Ground) -> Found {
    let (service, lease) = ("unseen-term-by-ours", lease("unseen-term-by-ours"));
    let ours = ground.ours("sleeper", service, None).await?;
    let gained = ours.gained(service, 0, PATIENCE).await?;
    let rival = ground.rival("visitor", service, None).await?;

    ours.process().pause()?;
    let started = rival.until("started", &lease, 0, PATIENCE).await?;
    rival.terminate()?;
    rival.until("released", &lease, 0, PATIENCE).await?;
    let woken = history::now();
    ours.process().resume()?;
    let regained = ours.gained(service, woken, PATIENCE).await?;

    let lines = ours.lines(service)?;
    demand(token(&regained)? != token(&gained)?, || {
        "the term went on".to_owned()
    })?;
    let told = ended(&lines, token(&gained)?, 0);
    demand(told.is_some_and(|told| told <= regained.t), || {
        format!(
            "the end of the first term was told at {told:?}, the second began at {}",
            regained.t
        )
    })?;
    let held = last_held(&lines, token(&gained)?);
    demand(held < started.t, || {
        "the guard held beside the rival's term".to_owned()
    })?;
    Ok(vec![cell(
        Fault::UnseenTerm,
        Role::ByOurs,
        format!(
            "loss told {:.0} ms after waking, then a new term and token",
            seconds(woken, told.unwrap_or_default()).max(0.0) * 1000.0
        ),
    )])
}

/// client-go goes on as if nothing had been; our next token is larger all the same.
pub(crate) async fn to_ours(ground: &Ground) -> Found {
    let (service, lease) = ("unseen-term-to-ours", lease("unseen-term-to-ours"));
    let rival = ground.rival("sleeping-rival", service, None).await?;
    rival.until("started", &lease, 0, PATIENCE).await?;
    let visitor = ground.ours("our-visitor", service, None).await?;

    ground.pause(&rival, service).await?;
    let gained = visitor.gained(service, 0, PATIENCE).await?;
    visitor.terminate()?;
    wait::until_true("the end of our visitor", PATIENCE, || async {
        Ok(visitor.process().ended().is_some())
    })
    .await?;
    let woken = history::now();
    rival.process().resume()?;
    let name = rival.identity().to_owned();
    wait::until_true("client-go to hold the Lease again", PATIENCE, || async {
        let again = ground.records.find(&lease, woken, |record| {
            record.holder.as_deref() == Some(&name)
        });
        Ok(again.is_some())
    })
    .await?;
    let stops = rival
        .acts(&lease)?
        .iter()
        .filter(|act| act.event == "stopped")
        .count();

    let successor = ground.ours("our-successor", service, None).await?;
    successor.campaigns(service, PATIENCE).await?;
    rival.terminate()?;
    let next = successor.gained(service, woken, PATIENCE).await?;
    let (first, second) = (parsed(token(&gained)?)?, parsed(token(&next)?)?);
    demand(first < second, || format!("token {second} after {first}"))?;
    let how = if stops == 0 {
        "re-acquired without notice"
    } else {
        "was told of its loss"
    };
    Ok(vec![
        cell(Fault::UnseenTerm, Role::ClientGo, how),
        cell(
            Fault::UnseenTerm,
            Role::ToOurs,
            format!("tokens grow across its unseen term: {first}, then {second}"),
        ),
    ])
}

fn parsed(token: &str) -> leasehold_e2e::Result<leasehold_core::id::FencingToken> {
    Ok(token.parse()?)
}
