//! The Events of credentials. Their names follow from object, store, reason and generation alone, so
//! that a repeat after a crash meets the first one instead of making a second (R3).

use k8s_openapi::{
    api::events::v1::Event,
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::Resource;
use leasehold_crds::{ClusterService, cluster_service::BackendKind};

use super::event::{REPORTING_CONTROLLER, cut};

/// Something about a credential that people should hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Which store.
    pub kind: BackendKind,
    /// Of the password that it speaks about.
    pub generation: u64,
    /// One word, stable.
    pub reason: &'static str,
    /// Whether somebody should look.
    pub is_warning: bool,
    /// Whole sentences, without a password.
    pub note: String,
}

/// The Event that tells it.
pub fn build_credential_event(
    service: &ClusterService,
    news: &News,
    instance: &str,
    now: jiff::Timestamp,
) -> Event {
    let object = service.metadata.name.clone().unwrap_or_default();
    let uid8: String = service
        .metadata
        .uid
        .iter()
        .flat_map(|uid| uid.chars())
        .take(8)
        .collect();
    let name = format!(
        "{object}.{}.{uid8}-{}.{}",
        news.kind.as_str(),
        news.generation,
        news.reason.to_ascii_lowercase()
    );
    Event {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: service.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(REPORTING_CONTROLLER.to_owned()),
        reporting_instance: Some(instance.to_owned()),
        action: Some("Rotate".to_owned()),
        reason: Some(news.reason.to_owned()),
        regarding: Some(service.object_ref(&())),
        note: Some(cut(news.note.clone())),
        type_: Some(if news.is_warning { "Warning" } else { "Normal" }.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_news_has_the_same_name_and_another_generation_another_one() {
        let mut service =
            ClusterService::new("orders", leasehold_crds::ClusterServiceSpec::default());
        service.metadata.uid = Some("0123456789abcdef".to_owned());
        let news = News {
            kind: BackendKind::Postgres,
            generation: 3,
            reason: "CredentialRotated",
            is_warning: false,
            note: "x".repeat(2000),
        };
        let event = |news: &News| {
            build_credential_event(&service, news, "operator-0", jiff::Timestamp::UNIX_EPOCH)
        };
        let (one, again) = (event(&news), event(&news));
        assert_eq!(one.metadata.name, again.metadata.name);
        let name = one.metadata.name.unwrap_or_default();
        assert_eq!(name, "orders.postgres.01234567-3.credentialrotated");
        assert_eq!(one.note.map(|note| note.len()), Some(1024));
        let later = News {
            generation: 4,
            ..news
        };
        assert_ne!(event(&later).metadata.name, Some(name));
    }
}
