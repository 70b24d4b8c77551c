//! What a Lease may look like, and what must survive our writes.

use leasehold_core::id::Identity;

use super::*;

fn key() -> LeaseKey {
    LeaseKey::new("orders").unwrap()
}

fn object() -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": "orders.leader", "namespace": "shop", "uid": "u-1", "resourceVersion": "41",
            "labels": {"team": "red"},
            "annotations": {
                "note": "keep me",
                "leasehold.dev/attempt": "a_u_0000000a#3#77",
                "leasehold.dev/released": "a_u_0000000a#3"
            },
            "managedFields": [{"manager": "x"}]
        },
        "spec": {
            "holderIdentity": "a_u_0000000a", "leaseDurationSeconds": 15, "leaseTransitions": 3,
            "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:05.000000Z",
            "strategy": "OldestEmulationVersion", "newField": {"of": "a newer server"}
        }
    })
}

fn write(purpose: Purpose) -> Write {
    let me = Identity::new("b_v_0000000b").unwrap();
    Write {
        attempt: 9,
        target: Target::Exactly {
            uid: LeaseUid::new("u-1"),
            revision: Revision::new(41).unwrap(),
        },
        purpose,
        record: LeaseRecord {
            holder: Some(me.as_str().to_owned()),
            duration: Some(Duration::from_secs(15)),
            term: Term::new(4),
            attempt: Some(AttemptStamp {
                identity: me,
                term: Term::new(4),
                number: 9,
            }),
            ..LeaseRecord::default()
        },
    }
}

fn time(text: &str) -> jiff::Timestamp {
    text.parse().unwrap()
}

#[test]
fn a_lease_reads_as_its_record() {
    let state = read_object(&object()).unwrap();
    assert_eq!(state.uid, LeaseUid::new("u-1"));
    assert_eq!(state.revision.number(), 41);
    assert_eq!(state.record.holder.as_deref(), Some("a_u_0000000a"));
    assert_eq!(state.record.duration, Some(Duration::from_secs(15)));
    assert_eq!(state.record.term, Term::new(3));
    assert_eq!(state.record.attempt.unwrap().number, 77);
    assert!(state.record.released.is_some());
}

#[test]
fn a_typed_lease_reads_like_its_json() {
    let typed: Lease = serde_json::from_value(object()).unwrap();
    assert_eq!(read_lease(&typed), read_object(&object()));
}

#[test]
fn nonsense_in_a_field_reads_as_missing_and_never_panics() {
    let huge = "x".repeat(10_240);
    for spec in [
        json!(null),
        json!({}),
        json!([]),
        json!("text"),
        json!({"holderIdentity": null, "leaseDurationSeconds": 0, "leaseTransitions": -7}),
        json!({"holderIdentity": 5, "leaseDurationSeconds": "15", "leaseTransitions": "x"}),
        json!({"holderIdentity": "", "leaseDurationSeconds": -1, "renewTime": "garbage"}),
        json!({"holderIdentity": "", "leaseTransitions": 99_999_999_999_i64, "renewTime": null}),
    ] {
        let mut odd = object();
        odd["metadata"]["annotations"] = json!({"leasehold.dev/attempt": "garbage"});
        odd["spec"] = spec.clone();
        let state = read_object(&odd).unwrap();
        assert_eq!(state.record.holder, None, "{spec}");
        assert_eq!(state.record.duration, None, "{spec}");
        assert_eq!(state.record.attempt, None, "{spec}");
        let rewritten = to_object(
            Some(&odd),
            &key(),
            "shop",
            &write(Purpose::Claim),
            &Marks::default(),
            time("2026-02-01T00:00:00Z"),
        )
        .unwrap();
        assert_eq!(
            read_object(&rewritten).unwrap().record,
            write(Purpose::Claim).record
        );
    }
    let mut foreign = object();
    foreign["spec"]["holderIdentity"] = json!(huge);
    assert_eq!(
        read_object(&foreign)
            .unwrap()
            .record
            .holder
            .map(|h| h.len()),
        Some(10_240)
    );
}

#[test]
fn renew_times_with_any_number_of_digits_are_read() {
    for time in [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00.123Z",
        "2026-01-01T00:00:00.123456789Z",
    ] {
        let mut lease = object();
        lease["spec"]["renewTime"] = json!(time);
        assert!(read_object(&lease).is_ok(), "{time}");
        let typed: Lease = serde_json::from_value(lease).unwrap();
        assert!(read_lease(&typed).is_ok(), "{time}");
    }
}

#[test]
fn a_revision_that_is_no_signed_integer_is_an_error_with_the_value() {
    for bad in [
        "9223372036854775808",
        "0",
        "",
        "abc",
        "-1",
        "1.5",
        &"9".repeat(5000),
    ] {
        let mut lease = object();
        lease["metadata"]["resourceVersion"] = json!(bad);
        let message = read_object(&lease).unwrap_err().to_string();
        assert!(
            message.starts_with("metadata.resourceVersion: found"),
            "{message}"
        );
        assert!(message.len() < 400, "{message}");
    }
}

#[test]
fn our_writes_keep_what_others_wrote_and_restore_our_labels() {
    let base = trimmed(object());
    let renewed = to_object(
        Some(&base),
        &key(),
        "shop",
        &write(Purpose::Renew),
        &Marks {
            settings_generation: Some(7),
            fixed: Some("{}".to_owned()),
        },
        time("2026-02-01T00:00:00.5Z"),
    )
    .unwrap();
    assert_eq!(renewed["metadata"]["labels"]["team"], "red");
    assert_eq!(renewed["metadata"]["annotations"]["note"], "keep me");
    assert_eq!(renewed["spec"]["newField"]["of"], "a newer server");
    assert_eq!(renewed["spec"]["strategy"], "OldestEmulationVersion");
    assert_eq!(
        renewed["spec"]["acquireTime"],
        "2026-01-01T00:00:00.000000Z"
    );
    assert!(has_our_labels(&renewed, &key()) && !has_our_labels(&base, &key()));
    assert_eq!(
        renewed["metadata"]["annotations"]["leasehold.dev/settings-generation"],
        "7"
    );
    assert_eq!(
        renewed["metadata"]["annotations"].get("leasehold.dev/released"),
        None
    );
    assert_eq!(
        renewed["metadata"].get("managedFields"),
        None,
        "the server keeps its own"
    );
}

#[test]
fn a_fence_leaves_the_marks_of_the_member_that_it_empties() {
    let marks = Marks {
        settings_generation: Some(7),
        fixed: Some("{}".to_owned()),
    };
    let after = |base: &Value, purpose, marks: &Marks| {
        let now = time("2026-02-01T00:00:00Z");
        to_object(Some(base), &key(), "shop", &write(purpose), marks, now).unwrap()
    };
    let renewed = after(&object(), Purpose::Renew, &marks);
    let fenced = after(&renewed, Purpose::Fence, &Marks::default());
    let of = |object: &Value, name: &str| object["metadata"]["annotations"].get(name).cloned();
    for name in ["leasehold.dev/settings-generation", "leasehold.dev/fixed"] {
        assert!(of(&fenced, name).is_some(), "{name}");
        assert_eq!(of(&fenced, name), of(&renewed, name));
        let renewed = after(&fenced, Purpose::Renew, &Marks::default());
        assert_eq!(of(&renewed, name), None, "its own write says so");
    }
}

#[test]
fn a_put_carries_uid_and_revision_and_times_with_six_digits() {
    let claimed = to_object(
        Some(&object()),
        &key(),
        "shop",
        &write(Purpose::Claim),
        &Marks::default(),
        time("2026-02-01T00:00:00Z"),
    )
    .unwrap();
    assert_eq!(claimed["metadata"]["uid"], "u-1");
    assert_eq!(claimed["metadata"]["resourceVersion"], "41");
    assert_eq!(
        claimed["spec"]["acquireTime"],
        "2026-02-01T00:00:00.000000Z"
    );
    assert_eq!(claimed["spec"]["renewTime"], "2026-02-01T00:00:00.000000Z");
}

#[test]
fn a_post_carries_neither_uid_nor_revision() {
    let write = Write {
        target: Target::Absent,
        ..write(Purpose::Claim)
    };
    let created = to_object(
        None,
        &key(),
        "shop",
        &write,
        &Marks::default(),
        time("2026-02-01T00:00:00Z"),
    )
    .unwrap();
    assert_eq!(created["metadata"].get("uid"), None);
    assert_eq!(created["metadata"].get("resourceVersion"), None);
    assert_eq!(created["metadata"]["name"], "orders.leader");
    assert_eq!(created["spec"]["leaseTransitions"], 4);
}
