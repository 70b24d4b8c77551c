//! What services of one id share on servers (C4).

use super::*;

fn with(spec: &Value, stores: &Value) -> Value {
    let mut spec = spec.clone();
    for (name, store) in stores.as_object().unwrap() {
        spec[name] = store.clone();
    }
    spec
}

fn differences(mine: &Value, older: &Value) -> Vec<String> {
    let mut facts = facts(service("younger", 1, &with(&elected(), mine)));
    facts.peers = vec![service("older", 9, &with(&elected(), older))];
    plan(&facts)
        .conflict
        .map_or(Vec::new(), |it| it.differences)
}

#[test]
fn services_of_one_id_that_want_a_store_want_the_same_one() {
    let main = json!({"postgres": {"className": "main"}, "redis": {"className": "cache"}});
    let other = json!({
        "postgres": {"className": "other", "schema": "billing"}, "redis": {"className": "other"},
    });
    assert_eq!(
        differences(&other, &main),
        [
            "postgres.className is other here and main there",
            "postgres.schema is billing here and the default there",
            "redis.className is other here and cache there",
        ]
    );
    assert_eq!(differences(&main, &main), Vec::<String>::new());
}

#[test]
fn what_is_not_shared_may_differ_and_a_service_without_a_store_disagrees_with_nobody() {
    let main = json!({"postgres": {"className": "main"}, "redis": {"className": "cache"}});
    let reader = json!({
        "postgres": {"className": "main", "privileges": "ReadOnly", "connectionLimit": 3},
        "redis": {"className": "cache", "profile": "ReadOnly"},
    });
    assert_eq!(differences(&reader, &main), Vec::<String>::new());
    assert_eq!(differences(&json!({}), &main), Vec::<String>::new());
    assert_eq!(differences(&main, &json!({})), Vec::<String>::new());
}
