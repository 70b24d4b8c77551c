//! Leases that no well-behaved candidate writes and the API server accepts all the same. What it
//! refuses is served through the fault proxy in `faults_client_go`.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, PostParams};
use leasehold::{Identity, ServiceHandle};
use leasehold_e2e::{Error, Result, Step as _, wait};
use serde_json::{Value, json};

use crate::ground::{Ground, PATIENCE, demand, holder, lease, spawn, transitions, until_role};

/// A Lease that was there before, what is wrong with it, and the term that follows.
struct Shape {
    name: &'static str,
    body: Value,
    /// At least.
    next_term: i32,
    /// The API server refuses it by its own rules.
    refused: bool,
}

fn shapes() -> Vec<Shape> {
    let shape = |name, body| Shape {
        name,
        body,
        next_term: 1,
        refused: false,
    };
    let spec = |spec: Value| json!({ "spec": spec });
    let held = |holder: &str| json!({ "holderIdentity": holder, "leaseDurationSeconds": 1 });
    let with = |mut base: Value, field: &str, value: Value| {
        base[field] = value;
        json!({ "spec": base })
    };
    let annotated = |annotations: Value| json!({ "metadata": { "annotations": annotations }, "spec": held("somebody") });
    vec![
        shape("no-spec", json!({})),
        shape("null-spec", json!({ "spec": null })),
        shape("empty-spec", spec(json!({}))),
        shape(
            "null-holder",
            spec(json!({ "holderIdentity": null, "leaseDurationSeconds": 1 })),
        ),
        shape("empty-holder", spec(held(""))),
        shape("blank-holder", spec(held(" "))),
        shape(
            "null-renew-time",
            with(held("somebody"), "renewTime", Value::Null),
        ),
        shape(
            "future",
            with(
                held("somebody"),
                "renewTime",
                json!("2999-01-01T00:00:00.000000Z"),
            ),
        ),
        shape(
            "ancient",
            with(
                held("somebody"),
                "renewTime",
                json!("0001-01-01T00:00:00.000000Z"),
            ),
        ),
        shape(
            "null-duration",
            with(held("somebody"), "leaseDurationSeconds", Value::Null),
        ),
        shape("long-holder", spec(held(&"h".repeat(10_000)))),
        shape("control-characters", spec(held("a\u{7}b\n#c"))),
        Shape {
            next_term: i32::MAX, // the term stays; only the token still grows (E7)
            ..shape(
                "last-term",
                with(held("somebody"), "leaseTransitions", json!(i32::MAX)),
            )
        },
        shape(
            "garbage-stamps",
            annotated(json!({
                "leasehold.dev/attempt": "##",
                "leasehold.dev/released": "somebody#not-a-number",
                "leasehold.dev/fixed": "{",
                "leasehold.dev/settings-generation": "x",
            })),
        ),
        shape(
            "huge-annotation",
            annotated(json!({ "example.com/note": "n".repeat(100_000) })),
        ),
        shape(
            "foreign-labels",
            json!({
                "metadata": { "labels": {
                    "leasehold.dev/cluster-id": "another", "leasehold.dev/lease": "member",
                } },
                "spec": held("somebody"),
            }),
        ),
        Shape {
            refused: true,
            ..shape(
                "negative-term",
                with(held("somebody"), "leaseTransitions", json!(-5)),
            )
        },
        Shape {
            refused: true,
            ..shape(
                "zero-duration",
                with(held("somebody"), "leaseDurationSeconds", json!(0)),
            )
        },
    ]
}

/// Whatever lies there, the candidate says nothing worse than that it waits, and then leads.
pub(crate) async fn malformed_leases_never_stop_the_election(ground: &Ground) -> Result<()> {
    let kind = ApiResource::erase::<Lease>(&());
    let namespace = ground.namespace.name();
    let raw: Api<DynamicObject> = Api::namespaced_with(ground.namespace.client(), namespace, &kind);
    let member = ground.member("among-malformed").await?;
    let mut handles: Vec<(Shape, ServiceHandle)> = Vec::new();
    for shape in shapes() {
        let service = format!("malformed-{}", shape.name);
        let mut object = DynamicObject::new(&lease(&service), &kind);
        let metadata = &shape.body["metadata"];
        object.metadata.labels = serde_json::from_value(metadata["labels"].clone())?;
        object.metadata.annotations = serde_json::from_value(metadata["annotations"].clone())?;
        if let Some(spec) = shape.body.get("spec") {
            object.data = json!({ "spec": spec });
        }
        let created = raw.create(&PostParams::default(), &object).await;
        demand(created.is_ok() != shape.refused, || {
            format!(
                "{}: refused is {}, but {created:?}",
                shape.name, shape.refused
            )
        })?;
        if !shape.refused {
            handles.push((shape, spawn(member.service(service))?));
        }
    }
    for (shape, handle) in &handles {
        until_role(handle, "leader").await.step(|| shape.name)?;
        let sound = ground.lease(&handle.status().cluster_id).await?;
        let times = sound
            .spec
            .as_ref()
            .map(|spec| (&spec.acquire_time, &spec.renew_time));
        let is_sound = holder(&sound) == Some(member.identity().as_str())
            // Later by a term or two if an answer was lost on a busy machine.
            && transitions(&sound) >= shape.next_term
            && matches!(times, Some((Some(_), Some(_))));
        demand(is_sound, || format!("{}: {sound:?}", shape.name))?;
    }
    member.close().await;
    Ok(())
}

/// The same while somebody leads: where the record still says who leads, the term goes on; where it
/// does not, the term ends, and the next one has a larger token.
pub(crate) async fn a_lease_made_malformed_under_its_leader_ends_the_term_and_is_claimed_again(
    ground: &Ground,
) -> Result<()> {
    let attempt = json!({ "leasehold.dev/attempt": "nonsense" });
    let labels = json!({ "leasehold.dev/cluster-id": "another", "leasehold.dev/lease": null });
    let cases = [
        (
            "spoilt-renew-time",
            json!({ "spec": { "renewTime": null } }),
            true,
        ),
        (
            "spoilt-future",
            json!({ "spec": { "renewTime": "2999-01-01T00:00:00.000000Z" } }),
            true,
        ),
        (
            "spoilt-acquire-time",
            json!({ "spec": { "acquireTime": null } }),
            true,
        ),
        (
            "spoilt-duration",
            json!({ "spec": { "leaseDurationSeconds": null } }),
            true,
        ),
        (
            "spoilt-labels",
            json!({ "metadata": { "labels": labels } }),
            true,
        ),
        ("spoilt-spec", json!({ "spec": null }), false),
        (
            "spoilt-holder",
            json!({ "spec": { "holderIdentity": null } }),
            false,
        ),
        (
            "spoilt-long",
            json!({ "spec": { "holderIdentity": "h".repeat(10_000) } }),
            false,
        ),
        (
            "spoilt-term",
            json!({ "spec": { "leaseTransitions": null } }),
            false,
        ),
        (
            "spoilt-stamp",
            json!({ "metadata": { "annotations": attempt } }),
            false,
        ),
    ];
    let member = ground
        .member_as(
            &ground.account,
            ground.namespace.name(),
            Identity::of_node("spoilt", 1)?,
        )
        .await?;
    let spoil = |(service, patch, goes_on): (&'static str, Value, bool)| {
        let member = &member;
        async move {
            spoilt(ground, member, service, &patch, goes_on)
                .await
                .step(|| service)
        }
    };
    futures::future::try_join_all(cases.map(spoil)).await?;
    member.close().await;
    Ok(())
}

async fn spoilt(
    ground: &Ground,
    member: &leasehold::Cluster,
    service: &str,
    patch: &Value,
    goes_on: bool,
) -> Result<()> {
    let handle = spawn(member.service(service))?;
    until_role(&handle, "leader").await?;
    let before = handle
        .status()
        .token
        .ok_or_else(|| Error::new("a leader without a token"))?;
    let edited = ground.edit(&lease(service), patch).await?;
    // A later write of ours tells that the edit has been dealt with.
    let written = wait::until("a later write", PATIENCE, || async {
        let found = ground.lease(service).await?;
        let is_later = found.metadata.resource_version != edited.metadata.resource_version;
        let renewed = found
            .spec
            .as_ref()
            .is_some_and(|spec| spec.renew_time.is_some());
        let is_ours = holder(&found) == Some(member.identity().as_str());
        Ok((is_later && is_ours && renewed).then_some(found))
    })
    .await?;
    until_role(&handle, "leader").await?;
    let after = handle.status().token.unwrap_or_default();
    demand((after == before) == goes_on, || {
        format!("token {before}, then {after}; goes on: {goes_on}; {written:?}")
    })?;
    let (before, after) = (before.parse::<leasehold::FencingToken>()?, after.parse()?);
    demand(before <= after, || {
        format!("the token shrank: {before}, then {after}")
    })?;
    handle.shutdown();
    handle.finished().await?;
    Ok(())
}
