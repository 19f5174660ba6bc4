//! The forms in which objects are shown.

use super::*;
use crate::reads::Form;
use crate::reads::show::Meta;
use crate::resources::Catalog;

#[test]
fn accept_is_negotiated() {
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let wanted = [
        ("", Form::Full),
        ("*/*", Form::Full),
        ("application/json", Form::Full),
        ("application/vnd.kubernetes.protobuf, application/json", Form::Full),
        (METADATA, Form::Metadata(Meta::V1)),
        (METADATA_LIST, Form::MetadataList(Meta::V1)),
        ("application/json;as=Nonsense;g=meta.k8s.io;v=v1,application/json", Form::Full),
        (&format!("{table},{METADATA}"), Form::Table(Meta::V1)),
        (&format!("{table};q=0.5,{METADATA};q=0.8"), Form::Metadata(Meta::V1)),
    ];
    let catalog = Catalog::new(Release::V1_36);
    let configmaps = catalog.get("", "configmaps").unwrap();
    for (accept, form) in wanted {
        assert_eq!(Form::wanted(accept, configmaps), Ok(form), "{accept}");
    }
    for accept in
        ["application/vnd.kubernetes.protobuf", "text/plain", "application/json;as=Table;g=else;v=v1"]
    {
        let status = Form::wanted(accept, configmaps).unwrap_err();
        assert_eq!((status.code, status.reason), (406, "NotAcceptable"), "{accept}");
    }
}

#[test]
fn metadata_is_returned_without_the_rest() {
    let (mut fixture, [c1, ..]) = Fixture::filled(Release::V1_36);
    let (_, object) = fixture.get_as(METADATA, "/api/v1/namespaces/shop/configmaps/c1");
    assert_eq!(object["kind"], "PartialObjectMetadata");
    assert_eq!(object["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(object["metadata"]["resourceVersion"], c1.to_string());
    assert_eq!(object.as_object().unwrap().len(), 3);

    let (_, list) = fixture.get_as(METADATA_LIST, "/api/v1/configmaps");
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"].as_array().unwrap().len(), 5);
    assert_eq!(list["items"][0], object);

    let mut watch = fixture.watch_as(METADATA, "allowWatchBookmarks=true");
    let lines = fixture.lines(&mut watch);
    assert_eq!(lines[0], json!({"type": "ADDED", "object": object}));
    fixture.wait(60);
    assert_eq!(fixture.lines(&mut watch)[0]["object"]["kind"], "PartialObjectMetadata");
}

#[test]
fn an_object_is_not_a_list_and_a_list_is_not_an_object() {
    let (mut fixture, _) = Fixture::filled(Release::V1_36);
    let (code, status) = fixture.get_as(METADATA, "/api/v1/configmaps");
    assert_eq!((code, &status["reason"]), (406, &json!("NotAcceptable")));
    assert_eq!(fixture.get_as(METADATA_LIST, "/api/v1/namespaces/shop/configmaps/c1").0, 406);
}

#[test]
fn an_object_has_the_requested_version() {
    let mut fixture = Fixture::new(Release::V1_20);
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "i", "namespace": "shop"}});
    let (_, _) = fixture.get("/apis/extensions/v1beta1/ingresses");
    let stored =
        fixture.server.catalog.served("extensions", "v1beta1", "ingresses").unwrap().stored_as.clone();
    fixture.server.store.write(&stored, &Key::new(Some("shop"), "i"), ingress, &Cause::server("test"));
    for api_version in ["networking.k8s.io/v1", "extensions/v1beta1"] {
        let (code, object) = fixture.get(&format!("/apis/{api_version}/namespaces/shop/ingresses/i"));
        assert_eq!((code, &object["apiVersion"]), (200, &json!(api_version)));
        let Answer::Watch(mut watch) = fixture.ask("", &format!("/apis/{api_version}/ingresses?watch=1"))
        else {
            panic!("no watch")
        };
        assert_eq!(fixture.lines(&mut watch)[0]["object"]["apiVersion"], api_version);
    }
}

#[test]
fn metadata_and_tables_have_the_requested_version() {
    const BETA: &str = "meta.k8s.io/v1beta1";
    let beta = |kind: &str| format!("application/json;as={kind};g=meta.k8s.io;v=v1beta1");
    let (mut fixture, _) = Fixture::filled(Release::V1_36);
    let partial = beta("PartialObjectMetadata");
    let (_, object) = fixture.get_as(&partial, "/api/v1/namespaces/shop/configmaps/c1");
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("PartialObjectMetadata"), &json!(BETA)));
    let (_, list) = fixture.get_as(&beta("PartialObjectMetadataList"), "/api/v1/configmaps");
    assert_eq!((&list["apiVersion"], &list["items"][0]), (&json!(BETA), &object));
    let (_, table) = fixture.get_as(&beta("Table"), "/api/v1/configmaps");
    assert_eq!((&table["apiVersion"], &table["rows"][0]["object"]), (&json!(BETA), &object));
    for accept in [partial, beta("Table")] {
        let mut watch = fixture.watch_as(&accept, "allowWatchBookmarks=true");
        let mut lines = fixture.lines(&mut watch);
        fixture.wait(60);
        lines.extend(fixture.lines(&mut watch));
        assert_eq!(lines.last().unwrap()["type"], "BOOKMARK");
        assert!(lines.iter().all(|line| line["object"]["apiVersion"] == BETA), "{lines:?}");
    }
}

#[test]
fn a_table_of_one_object_has_its_version() {
    const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let (mut fixture, [c1, ..]) = Fixture::filled(Release::V1_36);
    let (_, table) = fixture.get_as(TABLE, "/api/v1/namespaces/shop/configmaps/c1");
    assert_eq!(table["metadata"], json!({"resourceVersion": c1.to_string()}));
    let mut watch = fixture.watch_as(TABLE, "labelSelector=app=x");
    assert_eq!(fixture.lines(&mut watch)[0]["object"]["metadata"]["resourceVersion"], c1.to_string());
    let left = fixture.put("shop", "c1", json!({}));
    let lines = fixture.lines(&mut watch);
    assert_eq!(lines[0]["type"], "DELETED");
    assert_eq!(lines[0]["object"]["metadata"]["resourceVersion"], left.to_string());
}
