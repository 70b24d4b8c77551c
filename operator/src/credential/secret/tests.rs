//! Scenes: a Secret through all steps of its life, beside a server that is one value.

mod object;

use leasehold_core::credential::{
    Keep, LoginState, Policy, ServerState, SharedState, Slot, Step, Stored, Tried, Which, Why, step,
};
use leasehold_core::time::{Duration, WallTime};
use leasehold_crds::cluster_service::BackendKind;
use leasehold_crds::keys::{self, secret};
use secrecy::ExposeSecret as _;

use super::*;
use crate::backend::fingerprint;
use crate::credential::names::Names;

const NOW: u64 = 1_800_000_000;

fn names() -> Names {
    Names {
        installation: "8a5f".to_owned(),
        namespace: "shop".to_owned(),
        namespace_uid: "u-1".to_owned(),
        cluster_id: "billing".to_owned(),
        service: "billing".to_owned(),
    }
}

fn postgres() -> Binding {
    Binding {
        names: names(),
        class: "main".to_owned(),
        endpoint: Endpoint::Postgres {
            host: "db.example".to_owned(),
            port: 5432,
            database: "orders".to_owned(),
            ssl_mode: "verify-full".to_owned(),
            ca: Some("PEM".to_owned()),
        },
        owner: None,
    }
}

fn redis() -> Binding {
    Binding {
        names: names(),
        class: "main".to_owned(),
        endpoint: Endpoint::Redis {
            host: "::1".to_owned(),
            port: 6379,
            has_tls: true,
            ca: None,
        },
        owner: None,
    }
}

/// A Secret and a server that answers at once.
struct Scene {
    binding: Binding,
    policy: Policy,
    secret: Option<SecretObject>,
    server: ServerState,
    tried: Tried,
    now: u64,
}

impl Scene {
    fn new(binding: Binding) -> Self {
        let counts = binding.endpoint.backend() == BackendKind::Postgres;
        Self {
            binding,
            policy: Policy {
                interval: None,
                grace: Duration::from_secs(5),
                max_grace: Duration::from_mins(1),
                counts,
                pooled: false,
                trigger: None,
                deletion: None,
            },
            secret: None,
            server: ServerState {
                shared: SharedState::InShape,
                ..ServerState::default()
            },
            tried: Tried::default(),
            now: NOW,
        }
    }

    fn stored(&self) -> Stored {
        stored(self.secret.as_ref(), &self.binding)
    }

    fn next(&self) -> Step {
        let now = WallTime::from_seconds(self.now);
        step(&self.stored(), &self.server, &self.policy, &self.tried, now)
    }

    /// Carries out one step; false if there was nothing to do.
    fn act(&mut self) -> bool {
        let step = self.next();
        let kept = |which| {
            self.secret
                .as_ref()
                .and_then(|secret| verifier(secret, which))
        };
        match &step {
            Step::SetLogin { which, generation } => {
                let slot = Slot::of_generation(*generation);
                let kept = kept(*which).map(|kept| fingerprint(kept.0.expose_secret()));
                self.server.logins[slot as usize] = LoginState::Ours {
                    generation: if self.policy.counts {
                        *generation
                    } else {
                        slot as u64 + 1
                    },
                    fingerprint: kept.unwrap_or_default(),
                    is_in_shape: true,
                    sessions: 0,
                };
                self.tried.changed(slot);
            }
            Step::Verify { which, slot } => {
                let kept = kept(*which).map(|kept| fingerprint(kept.0.expose_secret()));
                self.tried.logged_in(*slot, &kept.unwrap_or_default(), true);
            }
            Step::EndPrevious { slot, .. } => {
                self.server.logins[*slot as usize] = LoginState::Absent;
                self.tried.changed(*slot);
            }
            Step::Wait { look_again, .. } => self.now = look_again.as_seconds(),
            Step::Settled { .. } => return false,
            step => {
                let made = Made::new(self.binding.endpoint.backend()).unwrap();
                let now = WallTime::from_seconds(self.now);
                let trigger = self.policy.trigger.as_deref();
                let old = self.secret.as_ref();
                let new = write(old, step, Some(&made), &self.binding, trigger, now);
                self.secret = Some(new.unwrap_or_else(|| panic!("{step:?} writes nothing")));
            }
        }
        true
    }

    fn settle(&mut self) {
        let done = (0..40).any(|_| !self.act());
        assert!(done, "does not settle: {:?}", self.next());
    }

    fn settled(binding: Binding) -> Self {
        let mut scene = Self::new(binding);
        scene.settle();
        scene
    }

    fn text(&self, key: &str) -> Option<String> {
        let secret = self.secret.as_ref().unwrap();
        secret.text(key).map(str::to_owned)
    }

    fn edit(&mut self, key: &str, value: Option<&str>) {
        self.secret.as_mut().unwrap().put(key, value);
    }

    fn keys(&self) -> String {
        format!("{:?}", self.secret.as_ref().unwrap())
    }
}

#[test]
fn a_new_secret_shows_no_login_until_that_was_tried() {
    let mut scene = Scene::new(postgres());
    while scene.stored().current.is_none() {
        assert_eq!(
            scene
                .secret
                .as_ref()
                .and_then(|it| it.text(secret::PASSWORD)),
            None
        );
        assert!(scene.act());
    }
    assert!(matches!(scene.next(), Step::Settled { .. }));
    let kept = scene.text(secret::VERIFIER).unwrap();
    assert!(kept.starts_with("SCRAM-SHA-256$4096:"));
    assert!(!scene.keys().contains("next-"), "{}", scene.keys());
}

#[test]
fn the_keys_are_those_of_service_binding_with_a_uri_that_works_anywhere() {
    let scene = Scene::settled(postgres());
    let (user, password) = (
        scene.text("username").unwrap(),
        scene.text("password").unwrap(),
    );
    assert_eq!(user, names().login(Slot::A));
    for (key, value) in [
        ("type", "postgresql"),
        ("provider", "leasehold"),
        ("host", "db.example"),
        ("port", "5432"),
        ("database", "orders"),
        ("sslmode", "verify-full"),
        ("ca.crt", "PEM"),
        (
            "uri",
            &format!("postgresql://{user}:{password}@db.example:5432/orders?sslmode=verify-full"),
        ),
    ] {
        assert_eq!(scene.text(key).as_deref(), Some(value));
    }
    assert_eq!(scene.text("key-prefix"), None);
    let object = scene.secret.unwrap();
    assert_eq!(object.kind(), Some("servicebinding.io/postgresql"));
    assert_eq!(object.metadata().name.as_deref(), Some("billing-postgres"));

    let scene = Scene::settled(redis());
    let (user, password) = (
        scene.text("username").unwrap(),
        scene.text("password").unwrap(),
    );
    assert_eq!(
        scene.text("uri"),
        Some(format!("rediss://{user}:{password}@[::1]:6379"))
    );
    assert_eq!(scene.text("key-prefix").as_deref(), Some("shop:billing:"));
    assert_eq!(scene.text("ca.crt").or(scene.text("database")), None);
}

#[test]
fn one_write_turns_and_the_former_login_goes_after_its_grace() {
    for binding in [postgres(), redis()] {
        let mut scene = Scene::settled(binding);
        let before = (scene.text("username"), scene.text("password"));
        scene.policy.trigger = Some("now".to_owned());
        while scene.text("previous-username").is_none() {
            assert_eq!((scene.text("username"), scene.text("password")), before);
            assert!(scene.act());
        }
        assert_eq!(
            (
                scene.text("previous-username"),
                scene.text("previous-password")
            ),
            before
        );
        let (user, password) = (
            scene.text("username").unwrap(),
            scene.text("password").unwrap(),
        );
        assert_eq!(user, names().login(Slot::B));
        assert!(
            scene
                .text("uri")
                .unwrap()
                .contains(&format!("{user}:{password}@"))
        );
        assert_eq!(
            scene.text("next-password").or(scene.text("next-verifier")),
            None
        );
        scene.settle();
        assert!(!scene.keys().contains("previous-"), "{}", scene.keys());
        assert_eq!(scene.server.logins[0], LoginState::Absent);
        assert_eq!(scene.stored().current.unwrap().generation, Some(2));
        assert!(scene.now >= NOW + 5);
    }
}

#[test]
fn an_edited_password_or_verifier_is_replaced_and_the_real_login_kept_for_a_grace() {
    for key in [secret::PASSWORD, secret::VERIFIER] {
        for value in [Some("own"), Some(""), None] {
            let mut scene = Scene::settled(postgres());
            scene.edit(key, value);
            assert!(matches!(
                scene.next(),
                Step::WriteNext {
                    why: Why::Overwritten,
                    ..
                }
            ));
            while scene.text("previous-username").is_none() {
                assert!(scene.act());
            }
            assert_eq!(
                scene.text("previous-username"),
                Some(names().login(Slot::A))
            );
            assert_eq!(scene.text("previous-password"), None);
            scene.settle();
            assert_eq!(scene.text("username"), Some(names().login(Slot::B)));
        }
    }
}

#[test]
fn a_lost_secret_keeps_the_login_that_is_alive() {
    let mut scene = Scene::settled(postgres());
    scene.secret = None;
    assert!(scene.act());
    assert_eq!(
        scene.text("previous-username"),
        Some(names().login(Slot::A))
    );
    assert_eq!(scene.text("next-username"), Some(names().login(Slot::B)));
    scene.settle();
    assert_eq!(scene.stored().current.unwrap().generation, Some(2));
}

#[test]
fn edited_derived_keys_are_written_back_and_nothing_else_is_touched() {
    let mut scene = Scene::settled(postgres());
    let current = |scene: &Scene| scene.stored().current.map(|entry| entry.slot);
    let same = repaired(
        scene.secret.as_ref().unwrap(),
        current(&scene),
        &scene.binding,
    );
    assert_eq!(same, None);
    let right = scene.secret.clone();
    scene.edit("of-somebody-else", Some("stays"));
    let beside = scene.secret.clone();
    for key in super::binding::DERIVED {
        scene.secret = beside.clone();
        let had = scene.text(key);
        scene.edit(key, Some("edited"));
        let mended = repaired(
            scene.secret.as_ref().unwrap(),
            current(&scene),
            &scene.binding,
        );
        scene.secret = Some(mended.unwrap_or_else(|| panic!("{key} is not written back")));
        assert_eq!(scene.text(key), had);
        assert_eq!(scene.text("of-somebody-else").as_deref(), Some("stays"));
    }
    // A class that moved to another host is the same case.
    let mut moved = scene.binding.clone();
    if let Endpoint::Postgres { host, ca, .. } = &mut moved.endpoint {
        (*host, *ca) = ("new.example".to_owned(), None);
    }
    let there = repaired(right.as_ref().unwrap(), Some(Slot::A), &moved).unwrap();
    assert!(there.text("uri").unwrap().contains("@new.example:5432/"));
    assert!(!there.has("ca.crt"));
    // A password that was edited is left to the machine: no uri is made of it.
    scene.edit("password", Some("own"));
    assert_eq!(
        repaired(
            scene.secret.as_ref().unwrap(),
            Some(Slot::A),
            &scene.binding
        ),
        None
    );
}

#[test]
fn wiped_annotations_are_written_anew_without_a_rotation() {
    let mut scene = Scene::settled(postgres());
    scene.policy.trigger = Some("handled".to_owned());
    scene.settle();
    let password = scene.text("password");
    scene.secret.as_mut().unwrap().metadata_mut().annotations = None;
    assert!(matches!(scene.next(), Step::Annotate(_)));
    scene.settle();
    assert_eq!(scene.text("password"), password);
    let stored = scene.stored();
    assert_eq!(stored.current.unwrap().generation, Some(2));
    assert_eq!(stored.trigger.as_deref(), Some("handled"));
    assert_eq!(stored.rotated_at, Some(WallTime::from_seconds(scene.now)));
}

#[test]
fn an_edited_user_name_is_told_by_its_generation_and_the_reverse() {
    let mut scene = Scene::settled(postgres());
    scene.edit("username", Some("postgres"));
    let entry = scene.stored().current.unwrap();
    assert_eq!((entry.slot, entry.generation), (Slot::A, Some(1)));
    let mended = repaired(
        scene.secret.as_ref().unwrap(),
        Some(entry.slot),
        &scene.binding,
    );
    assert_eq!(
        mended.unwrap().text("username"),
        Some(names().login(Slot::A).as_str())
    );
    let mut scene = Scene::settled(postgres());
    for number in ["2", "0", "-1", "1e9", "", "18446744073709551616"] {
        let secret = scene.secret.as_mut().unwrap();
        secret.annotate(keys::ANNOTATION_GENERATION, Some(number.to_owned()));
        let entry = scene.stored().current.unwrap();
        assert_eq!((entry.slot, entry.generation), (Slot::A, None), "{number}");
    }
}

#[test]
fn edited_user_names_of_staged_and_former_logins_are_written_back() {
    let mut scene = Scene::settled(postgres());
    scene.policy.trigger = Some("now".to_owned());
    assert!(scene.act());
    scene.edit("next-username", Some("postgres"));
    scene.edit("username", Some("postgres"));
    while scene.text("previous-username").is_none() {
        assert!(scene.act());
    }
    assert_eq!(scene.text("username"), Some(names().login(Slot::B)));
    assert_eq!(
        scene.text("previous-username"),
        Some(names().login(Slot::A))
    );
    scene.edit("previous-username", Some("postgres"));
    let mended = repaired(
        scene.secret.as_ref().unwrap(),
        Some(Slot::B),
        &scene.binding,
    )
    .unwrap();
    assert_eq!(
        mended.text("previous-username"),
        Some(names().login(Slot::A).as_str())
    );
}
