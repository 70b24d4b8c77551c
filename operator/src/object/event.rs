//! The Events of leadership changes. Their names follow from object, Lease and term alone (R3), so that a
//! repeat after a crash meets the first one instead of making a second.

use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::Resource;
use leasehold_crds::{ClusterService, keys};

use crate::controller::cluster_service::plan::Announcement;

/// Who writes the Events.
pub const REPORTING_CONTROLLER: &str = "leasehold.dev/operator";
/// Reason of the Event that names the terms nobody observed.
pub const GAP_REASON: &str = "LeadershipChangesMissed";
/// The API allows a kilobyte.
const NOTE_BYTES_MAX: usize = 1024;

/// The Events of one announcement: the gap before it, if any, and the change itself.
pub fn build_events(
    service: &ClusterService,
    announcement: &Announcement,
    instance: &str,
    now: jiff::Timestamp,
) -> Vec<Event> {
    let entry = &announcement.entry;
    let object = service.metadata.name.clone().unwrap_or_default();
    let uid8: String = entry.lease_uid.chars().take(8).collect();
    let event = |name: String, reason: &str, note: String| Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: service.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(REPORTING_CONTROLLER.to_owned()),
        reporting_instance: Some(instance.to_owned()),
        action: Some("Elect".to_owned()),
        reason: Some(reason.to_owned()),
        regarding: Some(service.object_ref(&())),
        related: related(service, &entry.holder),
        note: Some(cut(note)),
        type_: Some("Normal".to_owned()),
        ..Event::default()
    };
    let mut events = Vec::new();
    if let Some((first, last)) = announcement.gap {
        let name = format!("{object}.leader.{uid8}-{first}-{last}.gap");
        let terms = if first == last {
            format!("term {first} was")
        } else {
            format!("terms {first} to {last} were")
        };
        events.push(event(
            name,
            GAP_REASON,
            format!("Leadership {terms} not observed."),
        ));
    }
    let name = format!("{object}.leader.{uid8}-{}", entry.term);
    events.push(event(name, keys::EVENT_REASON, change_note(announcement)));
    events
}

/// From, to, term, how it ended, and how many changes nobody observed.
fn change_note(announcement: &Announcement) -> String {
    let entry = &announcement.entry;
    let to = shown(&entry.holder);
    let change = match (&announcement.from, announcement.gap) {
        (Some(from), _) if shown(from) == to => format!("Leader {to} began anew"),
        (Some(from), _) => format!("Leader changed from {} to {to}", shown(from)),
        (None, Some(_)) => format!("Leader changed from somebody to {to}"),
        (None, None) => format!("Leader changed from nobody to {to}"),
    };
    let ended = match &entry.previous_ended {
        Some(ended) => format!("; the leadership before: {ended}"),
        None => String::new(),
    };
    let missed = match entry.missed {
        0 => String::new(),
        1 => "; 1 change before it was not observed".to_owned(),
        missed => format!("; {missed} changes before it were not observed"),
    };
    format!("{change}, term {}{ended}{missed}.", entry.term)
}

/// The pod, as people know it; the whole identity stands in status. A foreign holder is shown whole.
fn shown(holder: &str) -> &str {
    leasehold_core::id::pod_name(holder).unwrap_or(holder)
}

/// The leading pod, if the holder names one.
fn related(service: &ClusterService, holder: &str) -> Option<ObjectReference> {
    let (pod, uid) = (
        leasehold_core::id::pod_name(holder)?,
        leasehold_core::id::pod_uid(holder)?,
    );
    Some(ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: service.metadata.namespace.clone(),
        name: Some(pod.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    })
}

/// Within what the API allows.
pub(super) fn cut(mut note: String) -> String {
    if note.len() > NOTE_BYTES_MAX {
        note.truncate(note.floor_char_boundary(NOTE_BYTES_MAX));
    }
    note
}

#[cfg(test)]
mod tests {
    use leasehold_crds::{ClusterServiceSpec, LeadershipTerm};

    use super::*;

    fn events(announcement: &Announcement) -> Vec<Event> {
        let mut service = ClusterService::new("billing", ClusterServiceSpec::default());
        service.metadata.namespace = Some("demo".into());
        service.metadata.uid = Some("c".into());
        build_events(
            &service,
            announcement,
            "operator-0",
            jiff::Timestamp::UNIX_EPOCH,
        )
    }

    fn announcement() -> Announcement {
        Announcement {
            entry: LeadershipTerm {
                lease_uid: "0f3c11aa-77d2".into(),
                term: 8,
                holder: "billing-1_0c1d_00000001".into(),
                previous_ended: Some("released".into()),
                ..LeadershipTerm::default()
            },
            from: Some("billing-0_0a1b_00000001".into()),
            gap: None,
        }
    }

    #[test]
    fn a_pod_that_leads_again_is_not_said_to_follow_itself() {
        let mut again = announcement();
        again.from = Some("billing-1_0c1d_00000000".into());
        again.entry.previous_ended = Some("restarted".into());
        let [event] = events(&again).try_into().unwrap();
        assert_eq!(
            event.note.as_deref(),
            Some("Leader billing-1 began anew, term 8; the leadership before: restarted.")
        );
    }

    #[test]
    fn a_change_is_named_by_object_lease_and_term_and_says_what_happened() {
        let [event] = events(&announcement()).try_into().unwrap();
        assert_eq!(
            event.metadata.name.as_deref(),
            Some("billing.leader.0f3c11aa-8")
        );
        assert_eq!(event.reason.as_deref(), Some("LeadershipChanged"));
        assert_eq!(
            event.note.as_deref(),
            Some(
                "Leader changed from billing-0 to billing-1, term 8; \
                 the leadership before: released."
            )
        );
        assert_eq!(event.related.unwrap().name.as_deref(), Some("billing-1"));
        assert_eq!(
            event.regarding.unwrap().kind.as_deref(),
            Some("ClusterService")
        );
    }

    #[test]
    fn a_gap_is_an_event_of_its_own_and_counted_in_the_change() {
        let mut gapped = announcement();
        gapped.gap = Some((6, 7));
        gapped.entry.missed = 2;
        let [gap, change] = events(&gapped).try_into().unwrap();
        assert_eq!(
            gap.metadata.name.as_deref(),
            Some("billing.leader.0f3c11aa-6-7.gap")
        );
        assert_eq!(
            gap.note.as_deref(),
            Some("Leadership terms 6 to 7 were not observed.")
        );
        assert!(
            change
                .note
                .unwrap()
                .ends_with("2 changes before it were not observed.")
        );
    }

    #[test]
    fn a_note_stays_within_a_kilobyte_on_a_character_boundary() {
        let mut huge = announcement();
        huge.from = Some("é".repeat(2000));
        let [event] = events(&huge).try_into().unwrap();
        assert!(event.note.unwrap().len() <= 1024);
    }
}
