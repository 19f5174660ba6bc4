//! The life of custom resource definitions.

use serde_json::{Value, json};

use super::Stage;
use crate::controllers::REACTION;
use crate::guards::Conversion;
use crate::resources::ResourceName;
use crate::server::Release;
use crate::store::Change;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/toys.shop.example";
const TOYS: &str = "/apis/shop.example/v1/namespaces/default/toys";

fn definition(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.shop.example")},
        "spec": {
            "group": "shop.example", "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, "shortNames": [plural[..1]]},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}},
                {"name": "v1beta1", "served": true, "storage": false},
                {"name": "v2alpha1", "served": false, "storage": false},
            ],
        },
    })
}

fn toy(name: &str) -> Value {
    json!({"apiVersion": "shop.example/v1", "kind": "Toy", "metadata": {"name": name}})
}

fn condition(crd: &Value, name: &str) -> (String, String) {
    let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = conditions.into_iter().find(|one| one["type"] == name).unwrap_or_default();
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

fn stage() -> Stage {
    let mut stage = Stage::new(Release::V1_36);
    stage.create(CRDS, &definition("toys", "Toy"));
    stage.settle();
    stage
}

#[test]
fn a_definition_is_established_and_served_after_a_delay() {
    let mut stage = Stage::new(Release::V1_36);
    stage.create(CRDS, &definition("toys", "Toy"));
    stage.now += REACTION;
    let (_, crd) = stage.get(CRD);
    assert_eq!(condition(&crd, "NamesAccepted"), ("True".into(), "NoConflicts".into()));
    assert_eq!(condition(&crd, "Established"), ("True".into(), "InitialNamesAccepted".into()));
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(
        crd["status"]["acceptedNames"],
        json!({"plural": "toys", "singular": "toy", "kind": "Toy", "listKind": "ToyList", "shortNames": ["t"]})
    );
    assert_eq!(crd["metadata"]["finalizers"], Value::Null);
    assert_eq!(stage.get("/apis/shop.example").0, 404, "it is not served yet");
    stage.settle();
    let (_, group) = stage.get("/apis/shop.example");
    assert_eq!(group["preferredVersion"]["version"], "v1");
    assert_eq!(group["versions"].as_array().unwrap().len(), 2, "one is not served: {group}");
    let (_, types) = stage.get("/apis/shop.example/v1beta1");
    assert_eq!(types["resources"][0]["singularName"], "toy");
    stage.create(TOYS, &toy("a"));
    assert_eq!(stage.get("/apis/shop.example/v1beta1/toys").0, 200);
    assert_eq!(stage.get("/apis/shop.example/v2alpha1/toys").0, 404);
}

#[test]
fn the_group_of_a_custom_resource_gets_api_services() {
    let mut stage = stage();
    let path = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.shop.example";
    let (code, service) = stage.get(path);
    assert_eq!((code, &service["spec"]["group"]), (200, &json!("shop.example")));
    assert_eq!(condition(&service, "Available"), ("True".into(), "Local".into()));
    stage.delete(CRD);
    stage.settle();
    assert_eq!(stage.get(path).0, 404);
}

#[test]
fn versions_can_be_unserved() {
    let mut stage = stage();
    stage.patch(CRD, &json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true}]}}));
    assert_eq!(stage.get("/apis/shop.example/v1beta1").0, 200, "not yet");
    stage.settle();
    assert_eq!(stage.get("/apis/shop.example/v1beta1").0, 404);
    assert_eq!(stage.get("/apis/shop.example/v1").0, 200);
}

#[test]
fn a_definition_is_deleted_after_its_objects() {
    let mut stage = stage();
    stage.create(TOYS, &toy("free"));
    let mut held = toy("held");
    held["metadata"]["finalizers"] = json!(["shop.example/held"]);
    stage.create(TOYS, &held);
    let (code, crd) = stage.delete(CRD);
    assert_eq!((code, condition(&crd, "Terminating").1.as_str()), (200, "InstanceDeletionPending"));
    assert_eq!(crd["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    stage.settle();
    let (_, crd) = stage.get(CRD);
    assert_eq!(condition(&crd, "Terminating").1, "InstanceDeletionInProgress");
    assert_eq!(stage.get(&format!("{TOYS}/free")).0, 404);
    assert!(stage.get(&format!("{TOYS}/held")).1["metadata"]["deletionTimestamp"].is_string());

    let (code, refused) = stage.send("POST", TOYS, "", &toy("late"));
    assert_eq!((code, &refused["reason"]), (405, &json!("MethodNotAllowed")));
    assert_eq!(refused["message"], "create not allowed while custom resource definition is terminating");
    let (_, types) = stage.get("/apis/shop.example/v1");
    assert_eq!(types["resources"][0]["verbs"], json!(["delete", "deletecollection", "get", "list", "watch"]));

    let (code, _) = stage.patch(&format!("{TOYS}/held"), &json!({"metadata": {"finalizers": null}}));
    assert_eq!(code, 200);
    stage.settle();
    assert_eq!(stage.get(CRD).0, 404);
    assert_eq!(stage.get("/apis/shop.example"), (404, json!("404 page not found\n")));
    assert_eq!(stage.get(TOYS), (404, json!("404 page not found\n")));
    let toys = ResourceName::new("shop.example", "toys");
    let removed = |change: &&std::sync::Arc<Change>| change.removed;
    let removed = stage.server.store.changes_since(&toys, 0).unwrap().filter(removed).count();
    assert_eq!(removed, 2, "a watch shows each deletion");
}

#[test]
fn a_definition_with_another_finalizer_reports_that_its_objects_are_gone() {
    let mut stage = stage();
    stage.patch(CRD, &json!({"metadata": {"finalizers": ["shop.example/held"]}}));
    stage.create(TOYS, &toy("a"));
    stage.delete(CRD);
    stage.settle();
    let (_, crd) = stage.get(CRD);
    assert_eq!(crd["metadata"]["finalizers"], json!(["shop.example/held"]));
    assert_eq!(condition(&crd, "Terminating"), ("False".into(), "InstanceDeletionCompleted".into()));
    stage.patch(CRD, &json!({"metadata": {"finalizers": null}}));
    stage.settle();
    assert_eq!(stage.get(CRD).0, 404);
}

#[test]
fn names_are_taken_until_their_definition_is_gone() {
    let mut stage = stage();
    stage.create(CRDS, &definition("tools", "Toy"));
    stage.settle();
    let tools = format!("{CRDS}/tools.shop.example");
    let (_, crd) = stage.get(&tools);
    assert_eq!(condition(&crd, "NamesAccepted").0, "False");
    assert_eq!(condition(&crd, "Established"), ("False".into(), "NotAccepted".into()));
    assert_eq!(stage.get("/apis/shop.example/v1/tools").0, 404);
    stage.delete(CRD);
    stage.settle();
    let (_, crd) = stage.get(&tools);
    assert_eq!(condition(&crd, "Established").0, "True");
    assert_eq!(stage.get("/apis/shop.example/v1/tools").0, 200);
}

#[test]
fn an_object_that_cannot_be_converted_cannot_be_read() {
    let mut stage = Stage::new(Release::V1_36);
    let mut crd = definition("toys", "Toy");
    crd["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "default", "name": "nobody", "path": "/convert"}},
        },
    });
    stage.create(CRDS, &crd);
    stage.settle();
    let converted = "/apis/shop.example/v1beta1/toys";
    assert_eq!(stage.get(converted).0, 200, "no conversion is necessary");
    stage.create(TOYS, &toy("a"));
    assert_eq!(stage.get("/apis/shop.example/v1/toys").0, 200);
    for path in [converted, "/apis/shop.example/v1beta1/namespaces/default/toys/a"] {
        let (code, status) = stage.get(path);
        let message = status["message"].as_str().unwrap();
        assert_eq!(code, 500);
        assert!(
            message.starts_with("conversion webhook for shop.example/v1, Kind=Toy failed: "),
            "{message}"
        );
        assert_eq!(status.get("reason"), None);
    }
    stage.server.guards.conversion = Some(Conversion::new(|| Err("not today".to_owned())));
    let message = "conversion webhook for shop.example/v1, Kind=Toy failed: not today";
    assert_eq!(stage.get(converted).1["message"], message);
    stage.server.guards.conversion = Some(Conversion::new(|| Ok(())));
    let (code, list) = stage.get(converted);
    assert_eq!((code, &list["items"][0]["apiVersion"]), (200, &json!("shop.example/v1beta1")));
    stage.server.guards.conversion = None;
    stage.patch(
        CRD,
        &json!({"spec": {"versions": [
            {"name": "v1", "served": true, "storage": false},
            {"name": "v1beta1", "served": true, "storage": true},
        ]}}),
    );
    stage.settle();
    assert_eq!(stage.get(CRD).1["status"]["storedVersions"], json!(["v1", "v1beta1"]));
    stage.delete(CRD);
    stage.settle();
    let (_, crd) = stage.get(CRD);
    assert_eq!(condition(&crd, "Terminating").1, "InstanceDeletionFailed", "deletions fail, too");
}

#[test]
fn a_recreated_definition_defines_another_type() {
    let mut stage = stage();
    let uid = |stage: &Stage| {
        let resource = stage.server.catalog.get("shop.example", "toys").unwrap();
        resource.definition.as_ref().unwrap().uid.clone()
    };
    let first = uid(&stage);
    stage.delete(CRD);
    stage.now += REACTION;
    assert_eq!(stage.get(CRD).0, 404);
    stage.create(CRDS, &definition("toys", "Toy"));
    stage.settle();
    assert_ne!(uid(&stage), first);
    stage.create(TOYS, &toy("a"));
}
