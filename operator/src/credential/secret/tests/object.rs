//! The object itself: whose it is, what it carries, and what it never shows.

use super::*;

#[test]
fn the_api_takes_the_object_as_a_secret() {
    fn path<K: kube::Resource<DynamicType = ()>>() -> String {
        K::url_path(&(), Some("shop"))
    }
    assert_eq!(path::<SecretObject>(), "/api/v1/namespaces/shop/secrets");
    let scene = Scene::settled(redis());
    let json = serde_json::to_value(scene.secret.as_ref().unwrap()).unwrap();
    assert_eq!(
        (&json["apiVersion"], &json["kind"]),
        (&"v1".into(), &"Secret".into())
    );
    assert_eq!(json["data"]["type"], "cmVkaXM=");
    let back: SecretObject = serde_json::from_value(json).unwrap();
    assert_eq!(Some(&back), scene.secret.as_ref());
}

#[test]
fn only_what_bears_our_mark_is_ours() {
    let scene = Scene::settled(postgres());
    let (ours, binding) = (scene.secret.unwrap(), scene.binding);
    assert_eq!(whose(&ours, &binding, false), Whose::Ours);

    let mut unmarked = ours.clone();
    unmarked.annotate(keys::ANNOTATION_OWNER_MARK, None);
    assert!(matches!(
        whose(&unmarked, &binding, true),
        Whose::Foreign { .. }
    ));
    let mut marked = ours.clone();
    for mark in [
        "",
        "name=billing",
        "installation=8a5f namespace-uid=u-1 name=other",
    ] {
        marked.annotate(keys::ANNOTATION_OWNER_MARK, Some(mark.to_owned()));
        assert!(
            matches!(whose(&marked, &binding, true), Whose::Foreign { .. }),
            "{mark}"
        );
    }
    assert!(matches!(
        whose(&ours, &redis(), true),
        Whose::Foreign { .. }
    ));

    let mut recreated = binding.clone();
    recreated.names.namespace_uid = "u-2".to_owned();
    assert!(matches!(
        whose(&ours, &recreated, false),
        Whose::Former { .. }
    ));
    assert_eq!(whose(&ours, &recreated, true), Whose::Ours);
    let adopted = repaired(&ours, Some(Slot::A), &recreated).unwrap();
    assert_eq!(whose(&adopted, &recreated, false), Whose::Ours);

    let json = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "type": "servicebinding.io/postgresql", "immutable": true,
        "metadata": {"name": "billing-postgres", "annotations": {"leasehold.dev/owner-mark": binding.mark()}},
    });
    let locked: SecretObject = serde_json::from_value(json).unwrap();
    assert_eq!(whose(&locked, &binding, false), Whose::Immutable);
}

#[test]
fn a_replacement_carries_the_version_that_was_read() {
    let mut scene = Scene::settled(postgres());
    let metadata = scene.secret.as_mut().unwrap().metadata_mut();
    (metadata.resource_version, metadata.uid) = (Some("7".to_owned()), Some("s-1".to_owned()));
    let finalizers = Some(vec!["of.somebody/else".to_owned()]);
    metadata.finalizers.clone_from(&finalizers);
    let (generation, previous, why) = (2, Keep::Nothing, Why::Trigger);
    let step = Step::WriteNext {
        generation,
        previous,
        why,
    };
    let made = Made::new(BackendKind::Postgres).unwrap();
    let now = WallTime::from_seconds(NOW);
    let old = scene.secret.as_ref();
    let new = write(old, &step, Some(&made), &scene.binding, None, now).unwrap();
    let (new, old) = (new.metadata(), old.unwrap().metadata());
    assert_eq!(
        (&new.resource_version, &new.uid),
        (&old.resource_version, &old.uid)
    );
    assert_eq!(new.finalizers, finalizers);
}

#[test]
fn steps_that_were_decided_about_another_secret_write_nothing() {
    let scene = Scene::settled(postgres());
    let now = WallTime::from_seconds(NOW);
    let (generation, previous) = (2, Keep::Current);
    let turn = Step::Turn {
        generation,
        previous,
    };
    assert_eq!(
        write(
            scene.secret.as_ref(),
            &turn,
            None,
            &scene.binding,
            None,
            now
        ),
        None
    );
    assert_eq!(
        write(None, &Step::ForgetPrevious, None, &scene.binding, None, now),
        None
    );
    assert_eq!(
        write(
            scene.secret.as_ref(),
            &Step::Provision,
            None,
            &scene.binding,
            None,
            now
        ),
        None
    );
}

#[test]
fn only_labels_of_ours_are_set_and_the_owner_comes_and_goes() {
    let mut scene = Scene::settled(postgres());
    let secret = scene.secret.as_ref().unwrap();
    let labels: Vec<_> = secret.metadata().labels.iter().flatten().collect();
    assert_eq!(labels.len(), 3);
    assert!(
        labels
            .iter()
            .all(|(label, _)| label.starts_with("leasehold.dev/"))
    );
    assert_eq!(secret.metadata().owner_references, None);
    let owner =
        |api: &str, uid: &str| k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
            api_version: api.to_owned(),
            kind: "ClusterService".to_owned(),
            name: "billing".to_owned(),
            uid: uid.to_owned(),
            ..Default::default()
        };
    scene.binding.owner = Some(owner("leasehold.dev/v1alpha1", "c-1"));
    let owned = repaired(secret, Some(Slot::A), &scene.binding).unwrap();
    assert_eq!(
        owned.metadata().owner_references.as_ref().map(Vec::len),
        Some(1)
    );
    assert_eq!(repaired(&owned, Some(Slot::A), &scene.binding), None);
    scene.binding.owner = None;
    let kept = repaired(&owned, Some(Slot::A), &scene.binding).unwrap();
    assert_eq!(kept.metadata().owner_references, None);
}

#[test]
fn no_debug_shows_what_a_secret_holds() {
    let scene = Scene::settled(postgres());
    let object = scene.secret.as_ref().unwrap();
    let shown = format!(
        "{object:?} {object:#?} {:?} {:?}",
        scene.stored(),
        password(object, Which::Current)
    );
    for key in ["password", "verifier", "uri"] {
        let value = scene.text(key).unwrap();
        assert!(!shown.contains(&value), "{key} is shown");
    }
    let bytes = format!("{:?}", scene.text("password").unwrap().as_bytes());
    assert!(
        !shown.contains(bytes.trim_matches(['[', ']'])),
        "the bytes are shown"
    );
}
