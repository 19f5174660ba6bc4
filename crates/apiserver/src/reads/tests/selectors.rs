//! Label and field selectors.

use super::*;
use crate::object::Object;
use crate::reads::selectors::{Fields, Labels};

fn selected(selector: &str) -> Vec<&'static str> {
    let labels = Labels::parse(selector).unwrap();
    let objects =
        [("one", json!({"n": "1", "app.io/x": "y"})), ("two", json!({"n": "2"})), ("none", json!({}))];
    let object = |labels: &Value| Object::new(json!({"metadata": {"labels": labels}}));
    objects.iter().filter(|(_, given)| labels.match_object(&object(given))).map(|(name, _)| *name).collect()
}

#[test]
fn labels_are_selected_by_equality_sets_existence_and_comparison() {
    let cases: [(&str, &[&str]); 16] = [
        ("", &["one", "two", "none"]),
        ("n=1", &["one"]),
        ("n==2", &["two"]),
        ("n != 1", &["two", "none"]),
        ("n=", &[]),
        ("n in (1, 2)", &["one", "two"]),
        ("n notin (1,3)", &["two", "none"]),
        ("n in ()", &[]),
        ("n", &["one", "two"]),
        ("!n", &["none"]),
        ("n>1", &["two"]),
        ("n < 2", &["one"]),
        ("n,app.io/x=y", &["one"]),
        ("app.io/x,!n", &[]),
        ("in", &[]),
        ("n in (1,),n=1", &["one"]),
    ];
    for (selector, names) in cases {
        assert_eq!(selected(selector), names, "{selector}");
    }
}

#[test]
fn a_malformed_label_selector_is_rejected() {
    let malformed =
        ["-=a", "a/=b", "a=-", "a>b", "!", "a!b", "a in b", "a==,", "(", "a in (x", "a b", "n=a b", ","];
    for selector in malformed {
        assert_eq!(Labels::parse(selector).unwrap_err().code, 400, "{selector}");
    }
}

#[test]
fn fields_are_name_and_namespace() {
    let mut fixture = Fixture::new(Release::V1_36);
    for (namespace, name) in [("a", "1"), ("a", "2"), ("b", "1")] {
        fixture.put(namespace, name, json!({}));
    }
    let cases = [
        ("metadata.name=1", 2),
        ("metadata.name==1,metadata.namespace=a", 1),
        ("metadata.name!=1", 1),
        ("metadata.name=1,metadata.name=2", 0),
        ("metadata.namespace=c", 0),
        ("", 3),
    ];
    for (selector, count) in cases {
        let (code, list) = fixture.get(&format!("/api/v1/configmaps?fieldSelector={selector}"));
        assert_eq!((code, list["items"].as_array().map(Vec::len)), (200, Some(count)), "{selector}");
    }
}

#[test]
fn a_malformed_field_selector_is_rejected() {
    let mut fixture = Fixture::new(Release::V1_36);
    for (resource, selector) in [
        ("configmaps", "foo=bar"),
        ("configmaps", "metadata.name"),
        ("pods", "foo=bar"),
        ("namespaces", "metadata.namespace=a"),
    ] {
        assert_eq!(fixture.get(&format!("/api/v1/{resource}?fieldSelector={selector}")).0, 400, "{selector}");
    }
}

#[test]
fn some_types_have_further_selectable_fields() {
    let fixture = Fixture::new(Release::V1_36);
    let secrets = fixture.server.catalog.served("", "v1", "secrets").unwrap().clone();
    let of_a_type = Fields::parse("type=Opaque", &secrets).unwrap();
    assert!(of_a_type.match_object(&Object::new(json!({"type": "Opaque"}))));
    assert!(!of_a_type.match_object(&Object::new(json!({}))));
    let nodes = fixture.server.catalog.served("", "v1", "nodes").unwrap().clone();
    let schedulable = Fields::parse("spec.unschedulable!=true", &nodes).unwrap();
    assert!(schedulable.match_object(&Object::new(json!({}))));
    assert!(!schedulable.match_object(&Object::new(json!({"spec": {"unschedulable": true}}))));
}
