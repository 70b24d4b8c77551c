//! The Events of partitions: one per publish that moved some, and one Warning per handoff that does not
//! end. Their names follow from object, assignment Lease and epoch alone, so a repeat meets the first one.

use k8s_openapi::{
    api::events::v1::Event,
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::Resource;
use leasehold_crds::{ClusterService, keys};

use super::event::{REPORTING_CONTROLLER, cut};
use crate::{
    belief::record::shortened,
    controller::cluster_service::plan::{Rebalanced, Stuck},
};

/// The Event of one publish: why, how many partitions moved, and the least that any plan needs.
pub fn build_rebalanced(
    service: &ClusterService,
    rebalanced: &Rebalanced,
    instance: &str,
    now: jiff::Timestamp,
) -> Event {
    let Rebalanced {
        epoch,
        total,
        moves,
        least,
        members,
        ..
    } = rebalanced;
    let reason = match rebalanced.reason.as_str() {
        "" => "no reason given".to_owned(),
        reason => shortened(reason),
    };
    let note = format!(
        "{moves} of {total} partitions got another owner (the least possible: {least}): {reason}. \
         They are spread over {members} pods; epoch {epoch}."
    );
    let name = name(service, "partitions", &rebalanced.uid, *epoch);
    let event = event(service, name, instance, now);
    Event {
        action: Some("Rebalance".to_owned()),
        reason: Some(keys::EVENT_REASON_REBALANCED.to_owned()),
        note: Some(cut(note)),
        type_: Some("Normal".to_owned()),
        ..event
    }
}

/// The Warning of one handoff that does not end; `message` is that of the condition.
pub fn build_stuck(
    service: &ClusterService,
    stuck: &Stuck,
    message: &str,
    instance: &str,
    now: jiff::Timestamp,
) -> Event {
    let name = name(service, "handoff", &stuck.uid, stuck.epoch);
    let event = event(service, name, instance, now);
    Event {
        action: Some("HandOff".to_owned()),
        reason: Some(keys::EVENT_REASON_STUCK.to_owned()),
        note: Some(cut(message.to_owned())),
        type_: Some("Warning".to_owned()),
        ..event
    }
}

fn name(service: &ClusterService, what: &str, uid: &str, epoch: u64) -> String {
    let object = service.metadata.name.clone().unwrap_or_default();
    let uid8: String = uid.chars().take(8).collect();
    format!("{object}.{what}.{uid8}-{epoch}")
}

fn event(service: &ClusterService, name: String, instance: &str, now: jiff::Timestamp) -> Event {
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: service.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(REPORTING_CONTROLLER.to_owned()),
        reporting_instance: Some(instance.to_owned()),
        regarding: Some(service.object_ref(&())),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use leasehold_crds::ClusterServiceSpec;

    use super::*;

    fn service(name: &str) -> ClusterService {
        let mut service = ClusterService::new(name, ClusterServiceSpec::default());
        service.metadata.namespace = Some("demo".into());
        service
    }

    fn rebalanced(epoch: u64) -> Rebalanced {
        Rebalanced {
            uid: "0f3c11aa-77d2".into(),
            epoch,
            total: 64,
            reason: "billing-3 joined".into(),
            moves: 16,
            least: 16,
            members: 4,
        }
    }

    #[test]
    fn a_rebalance_is_named_by_object_lease_and_epoch_and_says_what_it_cost() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let event = build_rebalanced(&service("billing"), &rebalanced(4711), "operator-0", now);
        let name = event.metadata.name.as_deref();
        assert_eq!(name, Some("billing.partitions.0f3c11aa-4711"));
        assert_eq!(event.reason.as_deref(), Some("PartitionsRebalanced"));
        assert_eq!(
            event.note.as_deref(),
            Some(
                "16 of 64 partitions got another owner (the least possible: 16): billing-3 joined. \
                 They are spread over 4 pods; epoch 4711."
            )
        );
    }

    #[test]
    fn the_longest_name_of_an_object_still_names_its_events() {
        let service = service(&"x".repeat(200));
        let now = jiff::Timestamp::UNIX_EPOCH;
        let longest = rebalanced(i64::MAX.unsigned_abs());
        let stuck = Stuck {
            uid: longest.uid.clone(),
            epoch: longest.epoch,
        };
        for event in [
            build_rebalanced(&service, &longest, "operator-0", now),
            build_stuck(&service, &stuck, &"é".repeat(2000), "operator-0", now),
        ] {
            assert!(event.metadata.name.unwrap().len() <= 253);
            assert!(event.note.unwrap().len() <= 1024);
        }
    }
}
