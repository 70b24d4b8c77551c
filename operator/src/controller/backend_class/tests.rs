//! Tables for plan and status.

use std::collections::BTreeSet;

use leasehold_crds::{BackendClass, BackendClassStatus, condition, keys};
use serde_json::{Value, json};

use super::{
    observe::{Facts, Problem},
    plan::plan,
    status::status,
};
use crate::{backend::Finding, credential::servers::Look};

fn class(metadata: &Value, spec: &Value) -> BackendClass {
    let mut object = json!({
        "apiVersion": "leasehold.dev/v1alpha1", "kind": "BackendClass",
        "metadata": {"name": "main", "uid": "u", "generation": 2}, "spec": spec,
    });
    for (name, value) in metadata.as_object().unwrap() {
        object["metadata"][name] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn postgres() -> Value {
    json!({
        "postgres": {"host": "db", "adminSecretRef": {"name": "main-admin"}}, "allowedNamespaces": {},
    })
}

fn finding(condition: &'static str, is_met: Option<bool>, message: &str) -> Finding {
    Finding {
        condition,
        is_met,
        reason: "Looked",
        message: message.to_owned(),
    }
}

fn all_met() -> Vec<Finding> {
    vec![
        finding("Reachable", Some(true), "db:5432 answers as adm"),
        finding("TlsVerified", Some(true), "sslmode=verify-full"),
        finding(
            "VersionSupported",
            Some(true),
            "version 15.18; 15 to 18 are tested",
        ),
        finding("Writable", Some(true), "takes writes"),
        finding("AdminRights", Some(true), "adm has CREATEROLE and CREATEDB"),
    ]
}

fn facts(metadata: &Value, findings: Vec<Finding>) -> Facts {
    Facts {
        class: class(metadata, &postgres()),
        users: BTreeSet::new(),
        look: Ok(Look {
            findings,
            refused: None,
        }),
        selector_problem: None,
        is_elsewhere: false,
        is_changed: false,
    }
}

fn used_by(mut facts: Facts, names: impl IntoIterator<Item = String>) -> Facts {
    facts.users = names
        .into_iter()
        .map(|it| ("demo".to_owned(), it))
        .collect();
    facts
}

fn said(facts: &Facts) -> BackendClassStatus {
    status(facts, jiff::Timestamp::UNIX_EPOCH)
}

fn cond(status: &BackendClassStatus, type_: &str) -> (String, String, String) {
    let found = status.conditions.iter().find(|it| it.type_ == type_);
    let found = found.unwrap_or_else(|| panic!("{type_} in {status:?}"));
    (
        found.status.clone(),
        found.reason.clone(),
        found.message.clone(),
    )
}

#[test]
fn a_class_in_use_gets_a_finalizer_and_loses_it_with_its_last_user() {
    let ours = json!({"finalizers": ["other/one", keys::FINALIZER_CREDENTIALS]});
    let deleted = json!({
        "finalizers": ["other/one", keys::FINALIZER_CREDENTIALS],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    });
    let used = |metadata: &Value| used_by(facts(metadata, all_met()), ["billing".to_owned()]);
    let others = || Some(vec!["other/one".to_owned()]);
    let wanted = |facts: &Facts| plan(facts).finalizers;
    assert_eq!(wanted(&facts(&json!({}), all_met())), None);
    assert_eq!(
        wanted(&used(&json!({"finalizers": ["other/one"]}))),
        Some(vec![
            "other/one".to_owned(),
            keys::FINALIZER_CREDENTIALS.to_owned()
        ])
    );
    assert_eq!(wanted(&used(&ours)), None);
    assert_eq!(wanted(&facts(&ours, all_met())), others());
    assert_eq!(wanted(&used(&deleted)), None, "held back");
    assert_eq!(wanted(&facts(&deleted, all_met())), others());
    let begun = json!({
        "finalizers": ["other/one"], "deletionTimestamp": "2026-01-01T00:00:00Z",
    });
    assert_eq!(
        wanted(&used(&begun)),
        None,
        "the API server takes none any more"
    );
}

#[test]
fn a_server_with_all_that_is_needed_is_ready_and_its_version_shown() {
    let status = said(&facts(&json!({}), all_met()));
    assert_eq!(cond(&status, condition::READY).0, "True");
    assert_eq!(status.server_version.as_deref(), Some("PostgreSQL 15.18"));
    assert_eq!(status.observed_generation, Some(2));
    assert_eq!(status.services, 0);
    assert_eq!(cond(&status, condition::IN_USE).0, "False");
    // The same facts give the same status, whatever the time.
    let mut again = facts(&json!({}), all_met());
    again.class.status = Some(status.clone());
    assert_eq!(super::status::status(&again, jiff::Timestamp::MAX), status);
}

#[test]
fn what_is_missing_is_the_reason_and_a_warning_is_not() {
    let mut findings = all_met();
    findings[4] = finding("AdminRights", Some(false), "run: ALTER ROLE adm CREATEDB");
    findings[1] = finding("TlsVerified", Some(false), "sslmode=disable");
    let status = said(&facts(&json!({}), findings.clone()));
    let (ready, reason, message) = cond(&status, condition::READY);
    assert_eq!((ready.as_str(), reason.as_str()), ("False", "Looked"));
    assert_eq!(message, "run: ALTER ROLE adm CREATEDB");
    findings[4] = finding("AdminRights", Some(true), "enough");
    let status = said(&facts(&json!({}), findings));
    let (ready, _, message) = cond(&status, condition::READY);
    assert_eq!(ready, "True");
    assert!(message.contains("see also TlsVerified"), "{message}");
    assert_eq!(cond(&status, condition::TLS_VERIFIED).0, "False");
}

#[test]
fn what_could_not_be_asked_is_unknown_and_the_last_version_stays() {
    let away = vec![finding(
        "Reachable",
        Some(false),
        "db:5432 cannot be reached",
    )];
    let mut facts = facts(&json!({}), away);
    facts.class.status = Some(BackendClassStatus {
        server_version: Some("PostgreSQL 15.18".to_owned()),
        ..BackendClassStatus::default()
    });
    let status = said(&facts);
    assert_eq!(cond(&status, condition::READY).0, "False");
    for type_ in ["VersionSupported", "Writable", "AdminRights"] {
        let (unknown, reason, _) = cond(&status, type_);
        assert_eq!(
            (unknown.as_str(), reason.as_str()),
            ("Unknown", "NotChecked")
        );
    }
    assert_eq!(status.server_version.as_deref(), Some("PostgreSQL 15.18"));
}

#[test]
fn a_secret_that_cannot_be_used_is_the_reason() {
    let mut facts = facts(&json!({}), Vec::new());
    facts.look = Err(Problem {
        reason: condition::reason::SECRET_INVALID,
        message: "Secret main-admin does not exist in namespace system".to_owned(),
    });
    let status = said(&facts);
    let (ready, reason, message) = cond(&status, condition::READY);
    assert_eq!(
        (ready.as_str(), reason.as_str()),
        ("False", "SecretInvalid")
    );
    assert!(message.contains("main-admin"), "{message}");
    assert_eq!(cond(&status, condition::REACHABLE).0, "Unknown");
}

#[test]
fn a_changed_credential_that_is_refused_is_said_while_the_one_before_works() {
    let mut facts = facts(&json!({}), all_met());
    facts.look.as_mut().unwrap().refused = Some("password authentication failed".to_owned());
    let (ready, reason, message) = cond(&said(&facts), condition::READY);
    assert_eq!((ready.as_str(), reason.as_str()), ("False", "LoginRefused"));
    assert!(message.contains("main-admin") && message.contains("authentication failed"));
    assert!(!facts.is_well(), "it is tried again soon");
}

#[test]
fn a_class_that_nobody_may_use_says_so() {
    let mut absent = facts(&json!({}), all_met());
    absent.class.spec.allowed_namespaces = None;
    let (ready, _, message) = cond(&said(&absent), condition::READY);
    assert_eq!(ready, "True");
    assert!(message.contains("no namespace may use it"), "{message}");
    let mut broken = facts(&json!({}), all_met());
    broken.selector_problem = Some("found no values".to_owned());
    assert_eq!(cond(&said(&broken), condition::READY).1, "SpecInvalid");
}

#[test]
fn users_are_counted_named_and_said_to_hold_a_deletion_back() {
    let few = used_by(
        facts(&json!({}), all_met()),
        ["b".to_owned(), "a".to_owned()],
    );
    let (_, reason, message) = cond(&said(&few), condition::IN_USE);
    assert_eq!(reason, "ServicesUseIt");
    assert_eq!(message, "It is named by demo/a, demo/b.");
    let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let many = used_by(
        facts(&deleted, all_met()),
        (0..500).map(|it| format!("s{it:03}")),
    );
    let status = said(&many);
    assert_eq!(status.services, 500);
    let (_, _, message) = cond(&status, condition::IN_USE);
    assert!(
        message.contains("waits for demo/s000") && message.contains("495 more"),
        "{message}"
    );
    assert!(message.len() < 300, "{message}");
}

#[test]
fn versions_of_redis_and_valkey_are_shown_with_their_product() {
    for (message, version) in [
        (
            "a:6379: Redis 7.0.15, b:6379: Redis 7.0.15",
            Some("Redis 7.0.15"),
        ),
        (
            "a:6379: Valkey 8.1.8; needed is Redis 7.0 or Valkey",
            Some("Valkey 8.1.8"),
        ),
        ("nothing", None),
    ] {
        let found = vec![finding("VersionSupported", Some(true), message)];
        let status = said(&facts(&json!({}), found));
        assert_eq!(status.server_version.as_deref(), version);
    }
}
