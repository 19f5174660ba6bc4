use std::time::Duration;

use super::*;
use crate::testing::{Reply, Server, namespace, widget};

const OBJECT: &str = r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"ns","uid":"u","resourceVersion":"7",
    "deletionTimestamp":"2026-01-01T00:00:00Z","labels":{"kept":"verbatim"},"managedFields":[{"manager":"other",
    "time":"2026-01-01T00:00:01Z","fieldsV1":{"f:status":{"f:conditions":{".":{},
    "k:{\"type\":\"NamespaceContentRemaining\"}":{}}}}},{"manager":"kubectl","fieldsV1":{"f:metadata":{}}}]},
    "spec":{"finalizers":["kubernetes","example.com/more"]},"status":{"phase":"Terminating","conditions":[
    {"type":"NamespaceContentRemaining","status":"True","reason":"R","message":"m","lastTransitionTime":"t"}]}}"#;

async fn read(object: &str) -> Result<Option<LiveNamespace>, ApiError> {
    Server::replying([Reply::ok(object)]).api().live_namespace(&namespace()).await
}

/// Rule 11.1.
#[tokio::test]
async fn a_namespace_is_terminating_only_by_both_signs() {
    let live = read(OBJECT).await.unwrap().unwrap();
    assert!(live.is_terminating() && live.is_held());
    assert!(live.order(widget()).is_some() && live.order(namespace()).is_none(), "what it contains");
    for other in [
        OBJECT.replace("\"phase\":\"Terminating\"", "\"phase\":\"Active\""),
        OBJECT.replace("\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"", "\"deletionTimestamp\":null"),
    ] {
        let live = read(&other).await.unwrap().unwrap();
        assert!(!live.is_terminating() && live.order(widget()).is_none(), "{other}");
    }
    let finalized = OBJECT.replace("\"kubernetes\",", "");
    assert!(!read(&finalized).await.unwrap().unwrap().is_held());
    assert!(read(&OBJECT.replace(r#""uid":"u""#, r#""uid":"""#)).await.is_err());
    assert!(read(&OBJECT.replace(r#""name":"ns""#, r#""name":"another""#)).await.is_err());
}

#[tokio::test]
async fn the_owner_of_a_condition_is_in_the_managed_fields() {
    let live = read(OBJECT).await.unwrap().unwrap();
    let owners = live.condition_owners();
    let [owner] = &owners[..] else { panic!("{owners:?}") };
    assert_eq!((&*owner.manager, &*owner.conditions[0]), ("other", "NamespaceContentRemaining"));
    assert_eq!(owner.at, Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_601)));
    assert!(live.conditions()[0].is_true);
}

/// Rule 11.5.
#[tokio::test]
async fn writes_carry_the_uid_and_the_version_that_was_read() {
    let finalized = OBJECT.replace("\"kubernetes\",", "");
    let server = Server::replying([Reply::ok(OBJECT), Reply::ok(OBJECT), Reply::ok(finalized)]);
    let api = server.api();
    let live = api.live_namespace(&namespace()).await.unwrap().unwrap();
    api.set_conditions(&namespace(), &live, &live.conditions()).await.unwrap();
    api.finalize_namespace(&namespace(), &live).await.unwrap();
    let seen = server.seen();
    assert_eq!(seen[1].line(), "PATCH /api/v1/namespaces/ns/status?fieldManager=kube-gc");
    assert_eq!(seen[2].line(), "PUT /api/v1/namespaces/ns/finalize?fieldManager=kube-gc");
    for request in &seen[1..] {
        let metadata = &request.json()["metadata"];
        assert_eq!((&metadata["uid"], &metadata["resourceVersion"]), (&json!("u"), &json!("7")));
    }
    assert_eq!(seen[1].json()["status"]["conditions"][0]["type"], "NamespaceContentRemaining");
    let put = seen[2].json();
    assert_eq!(put["spec"]["finalizers"], json!(["example.com/more"]));
    assert_eq!(put["metadata"]["labels"]["kept"], "verbatim");
}

/// Rules 1.26 and 6.14. Fails if the namespace counts as finalized: it would stay.
#[tokio::test]
async fn a_namespace_is_finalized_only_if_the_answer_or_a_get_shows_it() {
    let own = || Reply::status(404, "namespaces \"ns\" not found", r#"{"name":"ns","kind":"namespaces"}"#);
    for (replies, class) in [
        (vec![own(), own()], None),
        (vec![own(), Reply::ok(OBJECT)], Some(ErrorClass::Denied)),
        (vec![Reply::ok(OBJECT)], Some(ErrorClass::Denied)),
    ] {
        let server = Server::replying([vec![Reply::ok(OBJECT)], replies].concat());
        let api = server.api();
        let live = api.live_namespace(&namespace()).await.unwrap().unwrap();
        let finalized = api.finalize_namespace(&namespace(), &live).await;
        assert_eq!(finalized.err().map(|error| error.class), class);
    }
}

async fn listed(body: &str) -> Result<Page, ApiError> {
    let server = Server::replying([Reply::ok(body)]);
    server.api().content_page(&widget().resource, "ns", "").await
}

/// Rule 11.2.
#[tokio::test]
async fn only_a_list_shows_that_nothing_is_there() {
    for list in [
        r#"{"kind":"PartialObjectMetadataList","metadata":{},"items":[]}"#,
        r#"{"kind":"WidgetList","metadata":{"resourceVersion":"1"},"items":null}"#,
    ] {
        assert_eq!(listed(list).await.unwrap(), Page::default());
    }
    for other in [
        "{}",
        "[]",
        r#"{"kind":"WidgetList","metadata":{}}"#,
        r#"{"kind":"Widget","metadata":{},"items":[]}"#,
        r#"{"kind":"Status","status":"Failure"}"#,
        r#"{"kind":"WidgetList","metadata":{},"items":"#,
    ] {
        assert!(listed(other).await.is_err(), "{other}");
    }
}

#[tokio::test]
async fn every_object_in_a_list_counts() {
    let list = r#"{"kind":"WidgetList","metadata":{"continue":"c","remainingItemCount":3},"items":[{},
        {"metadata":{"name":"w","uid":"u","resourceVersion":"1","deletionTimestamp":"t","finalizers":["a"]}}]}"#;
    let page = listed(list).await.unwrap();
    assert_eq!((page.items.len(), &*page.next, page.more), (2, "c", 3));
    let item = &page.items[1];
    assert!(item.being_deleted && item.finalizers == ["a"] && item.uid.is_some());
    let without = list.replace(",\"remainingItemCount\":3", "");
    assert_eq!(listed(&without).await.unwrap().more, 1, "the next page is not empty");
}

#[tokio::test]
async fn a_lease_that_is_not_there_is_distinguished_from_one_that_cannot_be_read() {
    let read = async |reply| Server::replying([reply]).api().controller_manager_lease().await;
    let details = r#"{"name":"kube-controller-manager","group":"coordination.k8s.io","kind":"leases"}"#;
    assert_eq!(read(Reply::status(404, "not found", details)).await.unwrap(), None);
    assert!(read(Reply::status(403, "no", "{}")).await.is_err());
    assert!(read(Reply::ok("{}")).await.is_err());
    let lease = r#"{"metadata":{"resourceVersion":"5"},"spec":{"holderIdentity":"host_1",
        "renewTime":"2026-01-01T00:00:00.000000Z"}}"#;
    let record = read(Reply::ok(lease)).await.unwrap().unwrap();
    assert_eq!((&*record.holder, &*record.version), ("host_1", "5"));
    assert_eq!(record.renewed, Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600)));
}

/// Rule 11.3.
#[tokio::test]
async fn a_collection_is_deleted_in_the_background_and_in_pages() {
    let page = |next| format!(r#"{{"kind":"WidgetList","metadata":{{"continue":"{next}"}},"items":[]}}"#);
    let status = r#"{"kind":"Status","metadata":{},"status":"Success"}"#;
    let server =
        Server::replying([page("a/b="), page(""), status.to_owned(), "{}".to_owned()].map(Reply::ok));
    let api = server.api();
    let delete = async |next| api.delete_content_page(&widget().resource, "ns", next).await.unwrap().next;
    assert_eq!(delete("").await, "a/b=");
    assert_eq!(delete("a/b=").await, "");
    assert_eq!(delete("").await, "");
    assert_eq!(delete("").await, "");
    let seen = server.seen();
    assert_eq!(seen[0].line(), "DELETE /apis/example.com/v1/namespaces/ns/widgets?limit=500");
    let next = "DELETE /apis/example.com/v1/namespaces/ns/widgets?limit=500&continue=a%2Fb%3D";
    assert_eq!(seen[1].line(), next);
    assert_eq!(seen[1].json()["propagationPolicy"], "Background");
}

#[tokio::test]
async fn a_deletion_in_pages_that_would_never_end_is_an_error() {
    let page =
        |next: &str| format!(r#"{{"kind":"WidgetList","metadata":{{"continue":"{next}"}},"items":[]}}"#);
    let server = Server::replying([page("a"), page(&"a".repeat(1 << 20))].map(Reply::ok));
    let api = server.api();
    for next in ["a", ""] {
        let error = api.delete_content_page(&widget().resource, "ns", next).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Unusable, "{error}");
    }
}

#[tokio::test]
async fn only_a_review_says_that_a_right_is_missing() {
    let allowed = |allowed: bool| Reply::code(201, format!(r#"{{"status":{{"allowed":{allowed}}}}}"#));
    let server = Server::replying([allowed(true), allowed(false), Reply::code(201, "{}")]);
    let (all, one) = (["deletecollection", "*", "*"], ["update", "", "namespaces/finalize"]);
    assert_eq!(server.api().missing_rights(&[all, one]).await.unwrap(), ["update namespaces/finalize"]);
    assert_eq!(server.api().missing_rights(&[one]).await.unwrap_err().class, ErrorClass::Unusable);
    let seen = server.seen();
    assert_eq!(seen[0].line(), "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
    let attributes = |number: usize| seen[number].json()["spec"]["resourceAttributes"].clone();
    let attributes = [attributes(0), attributes(1)];
    let expected = |verb, group, resource, subresource| json!({ "verb": verb, "group": group, "resource": resource, "subresource": subresource });
    assert_eq!(attributes[0], expected("deletecollection", "*", "*", ""));
    assert_eq!(attributes[1], expected("update", "", "namespaces", "finalize"));
}
