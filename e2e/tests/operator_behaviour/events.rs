//! One Event per leadership change, whatever happens to the operator.

use leasehold_e2e::{Result, wait};

use super::stage::*;

#[tokio::test]
async fn every_term_is_announced_once_however_fast_they_come() -> Result<()> {
    let namespace = namespace("events-fast").await?;
    let _operator = Operator::leading(&namespace).await?;
    declare(&namespace, "billing", elected("billing")).await?;
    shown(&namespace, "billing", "a first status", |it| {
        it.history.is_some()
    })
    .await?;
    for term in 0..12 {
        hold(&namespace, "billing", &format!("billing-{term}"), term).await?;
    }
    let status = shown(&namespace, "billing", "term 11", |it| {
        is_led_by(it, "billing-11", 11)
    })
    .await?;
    let terms: Vec<i64> = status.history.unwrap().iter().map(|it| it.term).collect();
    assert_eq!(terms, (2..12).rev().collect::<Vec<_>>());
    let events = events(&namespace, "billing").await?;
    let mut expected: Vec<String> = (0..12)
        .map(|term| format!("billing.leader.-{term}"))
        .collect();
    expected.sort();
    assert_eq!(names_without_uid(&events), expected);
    let third = events
        .iter()
        .find(|it| it.metadata.name.as_ref().unwrap().ends_with("-3"))
        .unwrap();
    let note = third.note.clone().unwrap();
    let wanted = "from billing-2 to billing-3, term 3";
    assert!(note.contains(wanted), "{note}");
    // As the README says.
    let field = [
        "get",
        "events",
        "--field-selector",
        "reason=LeadershipChanged",
        "-o",
        "name",
    ];
    let lines = namespace.kubectl().run(&field).await?;
    assert_eq!(lines.lines().count(), 12, "{lines}");
    namespace.finish().await
}

#[tokio::test]
async fn terms_that_nobody_observed_are_one_gap() -> Result<()> {
    let namespace = namespace("events-gap").await?;
    let operator = Operator::leading(&namespace).await?;
    declare(&namespace, "billing", elected("billing")).await?;
    shown(&namespace, "billing", "a first status", |it| {
        it.history.is_some()
    })
    .await?;
    hold(&namespace, "billing", "billing-0", 5).await?;
    shown(&namespace, "billing", "term 5", |it| {
        is_led_by(it, "billing-0", 5)
    })
    .await?;
    operator.process().stop(MINUTE);
    hold(&namespace, "billing", "billing-1", 6).await?;
    hold(&namespace, "billing", "billing-2", 7).await?;
    hold(&namespace, "billing", "billing-3", 8).await?;
    let _operator = Operator::leading(&namespace).await?;
    let status = shown(&namespace, "billing", "term 8", |it| {
        is_led_by(it, "billing-3", 8)
    })
    .await?;
    assert_eq!(status.history.unwrap()[0].missed, 2);
    let events = events(&namespace, "billing").await?;
    assert_eq!(
        names_without_uid(&events),
        [
            "billing.leader.-5",
            "billing.leader.-6-7.gap",
            "billing.leader.-8"
        ]
    );
    let note = events[2].note.clone().unwrap();
    assert!(
        note.contains("2 changes before it were not observed"),
        "{note}"
    );
    namespace.finish().await
}

#[tokio::test]
async fn a_recreated_lease_that_repeats_its_terms_is_announced_again() -> Result<()> {
    let namespace = namespace("events-recreated").await?;
    let _operator = Operator::leading(&namespace).await?;
    declare(&namespace, "billing", elected("billing")).await?;
    shown(&namespace, "billing", "a first status", |it| {
        it.history.is_some()
    })
    .await?;
    hold(&namespace, "billing", "billing-0", 3).await?;
    shown(&namespace, "billing", "term 3", |it| {
        is_led_by(it, "billing-0", 3)
    })
    .await?;
    namespace
        .kubectl()
        .run(&["delete", "lease", "billing.leader"])
        .await?;
    shown(&namespace, "billing", "no lease", |it| {
        condition(it, "LeaderElected").1 == "NoLease"
    })
    .await?;
    hold(&namespace, "billing", "billing-1", 3).await?;
    let status = shown(&namespace, "billing", "billing-1", |it| {
        is_led_by(it, "billing-1", 3)
    })
    .await?;
    assert_eq!(
        status.history.unwrap()[0].previous_ended.as_deref(),
        Some("deleted")
    );
    let events = events(&namespace, "billing").await?;
    assert_eq!(
        names_without_uid(&events),
        ["billing.leader.-3", "billing.leader.-3"]
    );
    namespace.finish().await
}

#[tokio::test]
async fn a_leader_that_was_there_before_the_service_is_taken_over_silently() -> Result<()> {
    let namespace = namespace("events-silent").await?;
    let operator = Operator::leading(&namespace).await?;
    hold(&namespace, "billing", "billing-0", 9).await?;
    wait::until_true("a believed Lease", MINUTE, || async {
        Ok(operator
            .page("/debug/cluster")
            .await?
            .contains("billing.leader"))
    })
    .await?;
    declare(&namespace, "billing", elected("billing")).await?;
    let status = shown(&namespace, "billing", "term 9", |it| {
        is_led_by(it, "billing-0", 9)
    })
    .await?;
    assert_eq!(status.history.unwrap().len(), 1);
    hold(&namespace, "billing", "billing-1", 10).await?;
    shown(&namespace, "billing", "term 10", |it| {
        is_led_by(it, "billing-1", 10)
    })
    .await?;
    let events = events(&namespace, "billing").await?;
    assert_eq!(names_without_uid(&events), ["billing.leader.-10"]);
    namespace.finish().await
}

#[tokio::test]
async fn a_standby_takes_over_and_announces_what_its_predecessor_could_not() -> Result<()> {
    let namespace = namespace("events-standby").await?;
    fast_election(&namespace).await?;
    let first = Operator::leading(&namespace).await?;
    declare(&namespace, "billing", elected("billing")).await?;
    shown(&namespace, "billing", "a first status", |it| {
        it.history.is_some()
    })
    .await?;
    hold(&namespace, "billing", "billing-0", 0).await?;
    shown(&namespace, "billing", "term 0", |it| {
        is_led_by(it, "billing-0", 0)
    })
    .await?;

    let kubeconfig =
        operator_kubeconfig(namespace.cluster(), &format!("{}-b", namespace.name())).await?;
    let (name, second_name) = (namespace.name(), format!("{}-b", namespace.name()));
    let second = Operator::start(
        namespace.cluster(),
        &kubeconfig,
        &second_name,
        &[name],
        name,
    )
    .await?;
    wait::until_true("a ready standby", MINUTE, || async {
        Ok(second.get("/readyz").await?.0 == 200)
    })
    .await?;
    assert!(
        second
            .page("/metrics")
            .await?
            .contains("leasehold_operator_leading 0")
    );

    // The leader hangs; terms pass that only the standby sees.
    first.process().pause()?;
    for term in 1..4 {
        hold(&namespace, "billing", &format!("billing-{term}"), term).await?;
    }
    second.wait_until_leading().await?;
    shown(&namespace, "billing", "term 3", |it| {
        is_led_by(it, "billing-3", 3)
    })
    .await?;
    // The former leader wakes up behind its lease: it must not write.
    first.process().resume()?;
    wait::until_true("a former leader that stands by", MINUTE, || async {
        Ok(first
            .page("/metrics")
            .await?
            .contains("leasehold_operator_leading 0"))
    })
    .await?;
    let names = names_without_uid(&events(&namespace, "billing").await?);
    let expected: Vec<String> = (0..4)
        .map(|term| format!("billing.leader.-{term}"))
        .collect();
    assert_eq!(names, expected, "each term once, no gap");
    namespace.finish().await
}
