//! Annotations by which people command: `true` does it, `false` or none does not. Whatever else they say is
//! said back, and taken for what changes less.

use kube::ResourceExt as _;
use leasehold_crds::{ClusterService, keys};

/// How much of a value is said back.
const SHOWN_MAX: usize = 40;

/// What an annotation says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Command {
    /// There is none, or it is `false`.
    Off,
    /// It is `true`.
    On,
    /// Something else.
    Unclear(String),
}

fn command(service: &ClusterService, annotation: &str) -> Command {
    match service.annotations().get(annotation).map(String::as_str) {
        None | Some("false") => Command::Off,
        Some("true") => Command::On,
        Some(other) => Command::Unclear(other.chars().take(SHOWN_MAX).collect()),
    }
}

/// To let a deletion go without its cleanup; nothing but `true` does.
pub fn is_forced(service: &ClusterService) -> bool {
    command(service, keys::ANNOTATION_FORCE_DELETE) == Command::On
}

/// To take over what another namespace of the same name left (C7); nothing but `true` does.
pub fn adopts(service: &ClusterService) -> bool {
    command(service, keys::ANNOTATION_ADOPT) == Command::On
}

/// To change nothing and say what would be done: the reason for it, in words. Everything but `false` does.
pub fn plans_only(service: &ClusterService) -> Option<String> {
    let annotation = keys::ANNOTATION_PLAN_ONLY;
    match command(service, annotation) {
        Command::Off => None,
        Command::On => Some(format!("{annotation} is true, so nothing is changed.")),
        Command::Unclear(_) => Some(format!(
            "Nothing is changed.{}",
            unclear(service, annotation)
        )),
    }
}

/// What to do, and what is wrong with what was done: `<annotation>=true`.
pub fn asked(service: &ClusterService, annotation: &str) -> String {
    format!("{annotation}=true.{}", unclear(service, annotation))
}

/// A sentence if an annotation says neither yes nor no.
fn unclear(service: &ClusterService, annotation: &str) -> String {
    match command(service, annotation) {
        Command::Unclear(value) => {
            format!(" The annotation {annotation} is {value:?}; allowed: true, false.")
        }
        Command::Off | Command::On => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(annotation: &str, value: &str) -> ClusterService {
        let mut service =
            ClusterService::new("orders", leasehold_crds::ClusterServiceSpec::default());
        service
            .annotations_mut()
            .insert(annotation.to_owned(), value.to_owned());
        service
    }

    #[test]
    fn only_true_forces_and_adopts_and_only_false_lets_go_on() {
        for (value, is_done, is_planned) in [
            ("true", true, true),
            ("false", false, false),
            ("ture", false, true),
            ("", false, true),
        ] {
            assert_eq!(
                is_forced(&service(keys::ANNOTATION_FORCE_DELETE, value)),
                is_done
            );
            assert_eq!(adopts(&service(keys::ANNOTATION_ADOPT, value)), is_done);
            let planned = plans_only(&service(keys::ANNOTATION_PLAN_ONLY, value));
            assert_eq!(planned.is_some(), is_planned, "{value:?}");
        }
        assert_eq!(plans_only(&service("other", "true")), None);
    }

    #[test]
    fn what_is_neither_yes_nor_no_is_said_back() {
        let long = format!("ture\n{}", "x".repeat(100));
        let said = plans_only(&service(keys::ANNOTATION_PLAN_ONLY, &long)).unwrap();
        assert!(
            said.contains(r#"is "ture\nxxx"#) && said.len() < 150,
            "{said}"
        );
        let said = asked(
            &service(keys::ANNOTATION_ADOPT, "yes"),
            keys::ANNOTATION_ADOPT,
        );
        assert!(
            said.ends_with(r#"is "yes"; allowed: true, false."#),
            "{said}"
        );
        let said = asked(&service("other", "yes"), keys::ANNOTATION_ADOPT);
        assert_eq!(said, "leasehold.dev/adopt=true.");
    }
}
