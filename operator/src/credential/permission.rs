//! Which namespaces may use a class: by their labels, and none if the selector cannot be understood.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::{Selector, SelectorExt as _};

/// Whether a class with these `allowedNamespaces` may be used from a namespace with these labels.
pub fn is_allowed(allowed: Option<&LabelSelector>, labels: &BTreeMap<String, String>) -> bool {
    let Some(selector) = allowed else {
        return false;
    };
    if selector_problem(selector).is_some() {
        return false;
    }
    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
}

/// What is wrong with a selector, which therefore selects nothing; the schema takes any operator and
/// any number of values.
pub fn selector_problem(selector: &LabelSelector) -> Option<String> {
    let requirements = selector.match_expressions.iter().flatten();
    requirements.into_iter().find_map(requirement_problem)
}

fn requirement_problem(requirement: &LabelSelectorRequirement) -> Option<String> {
    let values = requirement.values.as_ref().map_or(0, Vec::len);
    let (found, wanted) = match (requirement.operator.as_str(), values) {
        ("In" | "NotIn", 1..) | ("Exists" | "DoesNotExist", 0) => return None,
        ("In" | "NotIn", _) => ("no values", "one or more"),
        ("Exists" | "DoesNotExist", _) => ("values", "none"),
        (other, _) => (other, "In, NotIn, Exists, DoesNotExist"),
    };
    Some(format!(
        "allowedNamespaces, expression about {}: found {found}; allowed: {wanted}; so no namespace is allowed",
        requirement.key
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selector(value: Value) -> LabelSelector {
        serde_json::from_value(value).unwrap()
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        owned.collect()
    }

    #[test]
    fn an_absent_selector_allows_nobody_and_an_empty_one_everybody() {
        assert!(!is_allowed(None, &labels(&[])));
        assert!(is_allowed(Some(&selector(json!({}))), &labels(&[])));
    }

    #[test]
    fn labels_and_expressions_must_all_match() {
        let selector = selector(json!({
            "matchLabels": {"team": "payments"},
            "matchExpressions": [
                {"key": "stage", "operator": "In", "values": ["test", "prod"]},
                {"key": "frozen", "operator": "DoesNotExist"},
            ],
        }));
        let is_allowed = |pairs: &[(&str, &str)]| is_allowed(Some(&selector), &labels(pairs));
        assert!(is_allowed(&[("team", "payments"), ("stage", "prod")]));
        assert!(!is_allowed(&[("team", "payments")]));
        assert!(!is_allowed(&[("team", "other"), ("stage", "prod")]));
        assert!(!is_allowed(&[
            ("team", "payments"),
            ("stage", "prod"),
            ("frozen", "")
        ]));
    }

    #[test]
    fn a_selector_that_makes_no_sense_allows_nobody() {
        for (expression, found) in [
            (json!({"key": "a", "operator": "NotIn"}), "no values"),
            (
                json!({"key": "a", "operator": "NotIn", "values": []}),
                "no values",
            ),
            (
                json!({"key": "a", "operator": "DoesNotExist", "values": ["x"]}),
                "values",
            ),
            (json!({"key": "a", "operator": "Gt", "values": ["1"]}), "Gt"),
        ] {
            let selector = selector(json!({"matchExpressions": [expression]}));
            assert!(!is_allowed(Some(&selector), &labels(&[])), "{selector:?}");
            let problem = selector_problem(&selector).unwrap();
            assert!(
                problem.contains(&format!("found {found}; allowed")),
                "{problem}"
            );
        }
    }
}
