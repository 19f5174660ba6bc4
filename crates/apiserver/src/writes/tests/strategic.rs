use proptest::prelude::*;
use serde_json::{Value, json};

use super::owner;
use crate::writes::strategic::{Strategic, merge};

const OLD: Strategic = Strategic { drops_directives: false };
const NEW: Strategic = Strategic { drops_directives: true };

fn merged(language: Strategic, metadata: &Value, patch: &Value) -> Result<Value, String> {
    let mut object = json!({ "metadata": metadata });
    let patch = json!({ "metadata": patch });
    merge(language, &mut object, patch.as_object().unwrap().clone())?;
    Ok(object["metadata"].take())
}

fn full() -> Value {
    json!({
        "labels": {"a": "b"},
        "finalizers": ["a/1", "a/2", "a/3"],
        "ownerReferences": [
            owner("a", json!({})), owner("b", json!({})), owner("a", json!({"controller": false})), owner("c", json!({})),
        ],
    })
}

/// Patches of the metadata above, and the resulting owner references: each uid with the field that
/// is set.
#[test]
fn owner_references_are_merged_by_uid() {
    let a2 = ("a", "controller");
    let cases = [
        (json!([{"$patch": "delete", "uid": "a"}]), vec![("b", ""), ("c", "")]),
        (
            json!([{"$patch": "delete", "uid": "b"}, {"$patch": "delete", "uid": "zz"}]),
            vec![("a", ""), a2, ("c", "")],
        ),
        (
            json!([{"uid": "a", "blockOwnerDeletion": true}]),
            vec![("a", "blockOwnerDeletion"), a2, ("b", ""), ("c", "")],
        ),
        (
            json!([{"uid": "c", "blockOwnerDeletion": true}]),
            vec![("a", ""), a2, ("b", ""), ("c", "blockOwnerDeletion")],
        ),
        (json!([owner("n", json!({}))]), vec![("n", ""), ("a", ""), a2, ("b", ""), ("c", "")]),
        (
            json!([owner("n", json!({})), owner("c", json!({})), {"$patch": "delete", "uid": "b"}]),
            vec![("n", ""), ("a", ""), a2, ("c", "")],
        ),
        (json!([{"$patch": "replace"}, owner("n", json!({}))]), vec![("n", "")]),
        (json!([]), vec![("a", ""), a2, ("b", ""), ("c", "")]),
    ];
    for (patch, expected) in cases {
        for language in [OLD, NEW] {
            let found = merged(language, &full(), &json!({ "ownerReferences": patch })).unwrap();
            let found: Vec<(&str, &str)> = found["ownerReferences"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| {
                    let more = ["controller", "blockOwnerDeletion"]
                        .into_iter()
                        .find(|field| one.get(field).is_some());
                    (one["uid"].as_str().unwrap(), more.unwrap_or_default())
                })
                .collect();
            assert_eq!(found, expected, "{patch}");
        }
    }
}

#[test]
fn finalizers_are_a_set() {
    for (patch, expected) in [
        (json!({"finalizers": ["a/9"]}), vec!["a/9", "a/1", "a/2", "a/3"]),
        (json!({"finalizers": ["a/3", "a/1"]}), vec!["a/2", "a/3", "a/1"]),
        (json!({"$setElementOrder/finalizers": ["a/3", "a/1"]}), vec!["a/2", "a/3", "a/1"]),
        (
            json!({
                "$setElementOrder/finalizers": ["a/3", "a/9", "a/1"], "finalizers": ["a/9"],
                "$deleteFromPrimitiveList/finalizers": ["a/2"],
            }),
            vec!["a/3", "a/9", "a/1"],
        ),
        (json!({"$deleteFromPrimitiveList/finalizers": ["a/2"]}), vec!["a/1", "a/3"]),
    ] {
        assert_eq!(merged(NEW, &full(), &patch).unwrap()["finalizers"], json!(expected), "{patch}");
    }
    let order = json!({"$setElementOrder/ownerReferences": [{"uid": "c"}, {"uid": "b"}]});
    let uids: Vec<Value> = merged(NEW, &full(), &order).unwrap()["ownerReferences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["uid"].clone())
        .collect();
    assert_eq!(uids, ["a", "a", "c", "b"]);
}

#[test]
fn maps_are_merged_replaced_and_emptied() {
    for (patch, expected) in [
        (json!({"labels": {"c": "d", "a": null}}), json!({"c": "d"})),
        (json!({"labels": {"$patch": "replace", "q": "r"}}), json!({"q": "r"})),
        (json!({"labels": {"$patch": "delete"}}), json!({})),
    ] {
        assert_eq!(merged(OLD, &full(), &patch).unwrap()["labels"], expected, "{patch}");
    }
    let none = json!({"finalizers": null, "ownerReferences": null, "labels": null});
    assert_eq!(merged(OLD, &full(), &none), Ok(json!({})));
}

#[test]
fn fields_that_cannot_be_merged_are_rejected() {
    for (patch, message) in [
        (
            json!([{"blockOwnerDeletion": true}]),
            "map: {\"blockOwnerDeletion\":true} does not contain declared merge key: uid",
        ),
        (
            json!([{"$patch": "delete"}]),
            "map: {\"$patch\":\"delete\"} does not contain declared merge key: uid",
        ),
        (
            json!([{"$patch": "foo", "uid": "a"}]),
            "unknown patch type: foo in map: {\"$patch\":\"foo\",\"uid\":\"a\"}",
        ),
        (json!([7]), "list element types are not identical: 7"),
    ] {
        let refused = merged(OLD, &full(), &json!({ "ownerReferences": patch }));
        assert_eq!(refused, Err(message.to_owned()));
    }
    let order =
        json!({"$setElementOrder/ownerReferences": [{"uid": "c"}], "ownerReferences": [{"uid": "b"}]});
    assert!(merged(OLD, &full(), &order).unwrap_err().starts_with("The order in patch list:"));
}

#[test]
fn old_releases_treat_directives_about_absent_fields_as_content() {
    let patch = json!({
        "ownerReferences": [{"$patch": "delete", "uid": "zz"}], "labels": {"q": null},
        "$deleteFromPrimitiveList/finalizers": ["a/b"],
    });
    let old = json!({
        "ownerReferences": [{"$patch": "delete", "uid": "zz"}], "labels": {"q": null}, "finalizers": ["a/b"],
    });
    assert_eq!(merged(OLD, &json!({}), &patch), Ok(old));
    assert_eq!(merged(NEW, &json!({}), &patch), Ok(json!({"ownerReferences": [], "labels": {}})));
}

#[test]
fn containers_are_merged_by_name_and_other_lists_replaced() {
    let mut pod = json!({"spec": {
        "containers": [{"name": "a", "image": "x", "args": ["1"]}, {"name": "b", "image": "y"}],
        "tolerations": [{"key": "k"}],
    }});
    let patch = json!({"spec": {
        "containers": [{"name": "a", "image": "z", "args": ["2", "3"]}], "tolerations": [{"key": "l"}],
    }});
    merge(NEW, &mut pod, patch.as_object().unwrap().clone()).unwrap();
    let expected = json!({"spec": {
        "containers": [{"name": "a", "image": "z", "args": ["2", "3"]}, {"name": "b", "image": "y"}],
        "tolerations": [{"key": "l"}],
    }});
    assert_eq!(pod, expected);
}

proptest! {
    /// Without duplicates, a list of owner references is a map by uid.
    #[test]
    fn merging_agrees_with_a_map(
        before in prop::collection::btree_map("[a-f]", any::<bool>(), 0..6),
        puts in prop::collection::btree_map("[a-f]", any::<bool>(), 0..4),
        gone in prop::collection::btree_set("[a-f]", 0..4),
    ) {
        let reference = |(uid, controller): (&String, &bool)| owner(uid, json!({"controller": controller}));
        let original = json!({"ownerReferences": before.iter().map(reference).collect::<Vec<_>>()});
        let deletions = gone.iter().map(|uid| json!({"$patch": "delete", "uid": uid}));
        let patch: Vec<Value> = puts.iter().map(reference).chain(deletions).collect();
        let merged = merged(NEW, &original, &json!({"ownerReferences": patch})).unwrap();

        let mut expected = before.clone();
        expected.retain(|uid, _| !gone.contains(uid));
        expected.extend(puts.clone());
        let mut found = std::collections::BTreeMap::new();
        for one in merged["ownerReferences"].as_array().unwrap() {
            let uid = one["uid"].as_str().unwrap().to_owned();
            prop_assert_eq!(found.insert(uid, one["controller"] == true), None);
        }
        prop_assert_eq!(found, expected);
    }
}
