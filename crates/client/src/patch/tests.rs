use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::testing::{Reply, Server, widget, widget_json};
use kube_gc_core::graph::DeletesProve;

const OWNERS: &str = r#","ownerReferences":[
    {"apiVersion":"v1","kind":"A","name":"a","uid":"ua","blockOwnerDeletion":true,"later":{"x": 1.0}},
    {"apiVersion":"v1","kind":"B","name":"b","uid":"ub","controller":true},
    {"apiVersion":"v2","kind":"B","name":"b","uid":"ub"}]"#;

fn uid(text: &str) -> Uid {
    Uid::parse(text).unwrap()
}

fn reference(api_version: &str, name: &str, blocks: bool) -> OwnerReference {
    OwnerReference {
        api_version: api_version.into(),
        kind: name.to_uppercase().into(),
        name: name.into(),
        uid: uid(&format!("u{name}")),
        controller: false,
        block_owner_deletion: blocks,
    }
}

fn unsupported() -> Reply {
    Reply::status(415, "the body of the request was in an unknown format", "{}")
}

/// Removes references on a server with these replies.
async fn remove_references(
    replies: Vec<Reply>,
    references: &References,
    version: Option<u64>,
) -> (Server, Result<Patched, ApiError>) {
    let server = Server::replying(replies);
    let version = version.map(ResourceVersion::number);
    let patched = server.api().remove_references(&widget(), references, version.as_ref()).await;
    (server, patched)
}

fn changed(patched: Result<Patched, ApiError>) -> ObjectFacts {
    match patched {
        Ok(Patched::Changed(facts)) => facts,
        other => panic!("{other:?}"),
    }
}

/// Rules 6.1 and 6.10.
#[tokio::test]
async fn a_strategic_patch_names_uid_version_and_owners() {
    let owners = References::OfOwners(vec![uid("ua"), uid("uc")]);
    let done = vec![Reply::ok(widget_json(""))];
    let (server, patched) = remove_references(done, &owners, Some(7)).await;
    assert_eq!(changed(patched).owners, []);
    let request = &server.seen()[0];
    assert_eq!(request.line(), "PATCH /apis/example.com/v1/namespaces/ns/widgets/w?fieldManager=kube-gc");
    assert_eq!(request.header("content-type"), "application/strategic-merge-patch+json");
    assert!(request.header("user-agent").starts_with("kube-gc/"));
    assert_eq!(
        request.json(),
        json!({"metadata": {"uid": "u", "resourceVersion": "7", "ownerReferences": [
            {"$patch": "delete", "uid": "ua"}, {"$patch": "delete", "uid": "uc"}]}})
    );
}

#[tokio::test]
async fn custom_resources_get_the_remaining_list_verbatim_and_are_remembered() {
    let live = || Reply::ok(widget_json(OWNERS));
    let done = || Reply::ok(widget_json(""));
    let server = Server::replying([unsupported(), live(), done(), live(), done()]);
    let api = server.api();
    let owners = References::OfOwners(vec![uid("ub")]);
    let version = ResourceVersion::number(7);
    changed(api.remove_references(&widget(), &owners, Some(&version)).await);
    changed(api.remove_references(&widget(), &owners, None).await);
    let seen = server.seen();
    let methods: Vec<_> = seen.iter().map(|request| request.method.as_str()).collect();
    assert_eq!(methods, ["PATCH", "GET", "PATCH", "GET", "PATCH"]);
    assert_eq!(seen[2].header("content-type"), "application/merge-patch+json");
    assert!(
        seen[2].body.contains(r#"{"apiVersion":"v1","kind":"A","name":"a","uid":"ua","blockOwnerDeletion":true,"later":{"x": 1.0}}"#),
        "{}", seen[2].body
    );
    assert_eq!(seen[2].json()["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    assert_eq!(seen[2].json()["metadata"]["uid"], "u");
    assert_eq!(seen[2].json()["metadata"]["resourceVersion"], "7");
}

#[tokio::test]
async fn an_object_with_many_references_gets_no_strategic_patch() {
    let live = || Reply::ok(widget_json(OWNERS));
    let done = || Reply::ok(widget_json(""));
    let server = Server::replying([live(), done(), live(), done()]);
    let api = server.api();
    let unwanted = ["v1", "v2"].map(|version| reference(version, "b", false));
    let exactly = &References::Exactly(unwanted.to_vec());
    assert_eq!(api.requests_for_patch(&widget().resource.group_resource, exactly), 2);
    changed(api.remove_references(&widget(), exactly, None).await);
    let mut many: Vec<_> = (0..MANY_REFERENCES)
        .map(|number| OwnerReference { uid: uid(&format!("u{number}")), ..reference("v1", "a", true) })
        .collect();
    many.push(OwnerReference { uid: uid("ua"), ..reference("v1", "a", true) });
    changed(api.stop_blocking(&widget(), &many, None).await);
    let seen = server.seen();
    let methods: Vec<_> = seen.iter().map(|request| request.method.as_str()).collect();
    assert_eq!(methods, ["GET", "PATCH", "GET", "PATCH"]);
    for patch in [&seen[1], &seen[3]] {
        assert_eq!(patch.header("content-type"), "application/merge-patch+json");
    }
    let left = |request: usize| seen[request].json()["metadata"]["ownerReferences"].as_array().unwrap().len();
    assert_eq!((left(1), left(3)), (1, 3));
}

#[test]
fn one_of_many_references_is_not_removed_by_a_strategic_patch() {
    let removal = |count: usize| {
        let of = |number| OwnerReference { uid: uid(&format!("u{number}")), ..reference("v1", "a", true) };
        let all: Vec<_> = (0..count).map(of).collect();
        References::of(&all, vec![all[1].clone()])
    };
    assert!(matches!(removal(MANY_REFERENCES), References::OfOwners(_)));
    assert!(matches!(removal(MANY_REFERENCES + 1), References::Exactly(_)));
}

#[test]
fn a_dependent_with_many_references_is_orphaned_without_a_strategic_patch() {
    let removal = |reference_count: usize, shares_uid: bool| {
        let (identity, reference) = (widget(), reference("v1", "a", true));
        References::of_dependent(&DependentView { identity, reference, shares_uid, reference_count })
    };
    assert!(matches!(removal(MANY_REFERENCES, false), References::OfOwners(_)));
    assert!(matches!(removal(MANY_REFERENCES + 1, false), References::Exactly(_)));
    for count in [2, MANY_REFERENCES + 1] {
        assert!(matches!(removal(count, true), References::Exactly(_)));
    }
}

#[tokio::test]
async fn a_decision_on_another_version_is_not_patched() {
    let owners = References::OfOwners(vec![uid("ua")]);
    let replies = vec![unsupported(), Reply::ok(widget_json(OWNERS))];
    let (server, error) = remove_references(replies, &owners, Some(6)).await;
    assert_eq!(error.unwrap_err().class, ErrorClass::Conflict);
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn exact_references_are_removed_alone_although_they_share_a_uid() {
    let one = r#","ownerReferences":[{"apiVersion":"v1","kind":"A","name":"a","uid":"ua"}]"#;
    let left = json!([{"apiVersion": "v1"}, {"apiVersion": "v1"}]);
    // The last one leaves `null` behind.
    for (live, unwanted, left) in
        [(OWNERS, reference("v2", "b", false), left), (one, reference("v1", "a", true), Value::Null)]
    {
        let replies = vec![Reply::ok(widget_json(live)), Reply::ok(widget_json(""))];
        let (server, patched) = remove_references(replies, &References::Exactly(vec![unwanted]), None).await;
        changed(patched);
        let mut sent = server.seen()[1].json()["metadata"]["ownerReferences"].take();
        let sent_owners = sent.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
        sent_owners.for_each(|owner| owner.retain(|field, _| field == "apiVersion"));
        assert_eq!(sent, left);
    }
}

#[tokio::test]
async fn a_missing_reference_needs_no_patch() {
    // Old servers merge the entry in as an incomplete reference, and refuse it.
    let refused = Reply::status(422, "invalid", r#"{"causes":[{"field":"metadata.ownerReferences.name"}]}"#);
    let replies = vec![refused, Reply::ok(widget_json(""))];
    let (_, patched) = remove_references(replies, &References::OfOwners(vec![uid("uz")]), None).await;
    assert!(matches!(patched, Ok(Patched::Unneeded(_))), "{patched:?}");
}

#[tokio::test]
async fn a_missing_or_recreated_object_counts_as_gone() {
    let owners = References::OfOwners(vec![uid("ua")]);
    let other = Reply::ok(widget_json("").replace(r#""uid":"u""#, r#""uid":"other""#));
    let other_uid = || Reply::status(422, "no", r#"{"causes":[{"field":"metadata.uid"}]}"#);
    let live = || Reply::ok(widget_json(OWNERS));
    let namespace_gone = Reply::status(404, "no", r#"{"name":"ns","kind":"namespaces"}"#);
    for (replies, class) in [
        (vec![Reply::not_found(), Reply::not_found()], None),
        (vec![other_uid(), Reply::not_found()], None),
        (vec![unsupported(), Reply::not_found()], None),
        (vec![unsupported(), other], None),
        // Rule 1.26: a webhook may say so of an object that is there.
        (vec![Reply::not_found(), live()], Some(ErrorClass::Denied)),
        (vec![other_uid(), live()], Some(ErrorClass::Denied)),
        (vec![namespace_gone], Some(ErrorClass::NamespaceGone)),
    ] {
        let (_, patched) = remove_references(replies, &owners, None).await;
        match class {
            None => assert!(matches!(patched, Ok(Patched::Gone(_))), "{patched:?}"),
            Some(class) => assert_eq!(patched.unwrap_err().class, class),
        }
    }
}

#[tokio::test]
async fn a_conflict_is_returned_if_the_caller_gave_a_version_and_retried_otherwise() {
    let conflict = || Reply::status(409, "conflict", "{}");
    let live = || Reply::ok(widget_json(OWNERS));
    let replies = vec![live(), conflict(), live(), Reply::ok(widget_json(""))];
    let references = &References::Exactly(vec![reference("v1", "a", true)]);
    changed(remove_references(replies, references, None).await.1);
    let (_, error) = remove_references(vec![live(), conflict()], references, Some(7)).await;
    assert_eq!(error.unwrap_err().class, ErrorClass::Conflict);
}

#[tokio::test]
async fn blocking_stops_by_uid_or_by_the_whole_list() {
    let server = Server::replying([Reply::ok(widget_json(""))]);
    let references = [reference("v1", "a", true), reference("v1", "c", false)];
    changed(server.api().stop_blocking(&widget(), &references, None).await);
    assert_eq!(
        server.seen()[0].json(),
        json!({"metadata": {"uid": "u", "ownerReferences": [{"uid": "ua", "blockOwnerDeletion": false}]}})
    );
    // Two share a uid: merging by uid would miss one. Those after them stop blocking, too.
    let twins = OWNERS
        .replace(r#""uid":"ub"}]"#, r#""uid":"ub"},{"apiVersion":"v1","kind":"C","name":"c","uid":"uc"}]"#)
        .replace(r#""name":"b","uid":"ub""#, r#""name":"b","uid":"ub","blockOwnerDeletion":true"#)
        .replace(r#""uid":"uc""#, r#""uid":"uc","blockOwnerDeletion":true"#);
    let server = Server::replying([Reply::ok(widget_json(&twins)), Reply::ok(widget_json(""))]);
    let references = [reference("v1", "b", true), reference("v2", "b", true), reference("v1", "c", true)];
    changed(server.api().stop_blocking(&widget(), &references, None).await);
    let json = server.seen()[1].json();
    let owners = json["metadata"]["ownerReferences"].as_array().unwrap();
    let flags: Vec<_> = owners.iter().map(|owner| owner["blockOwnerDeletion"].as_bool().unwrap()).collect();
    assert_eq!(flags, [true, false, false, false], "ua was not among the given references");
}

/// Other API servers may ignore the uid and the version that a patch is bound to.
#[tokio::test]
async fn an_object_of_an_aggregated_api_is_read_before_it_is_patched() {
    let (owners, version) = (References::OfOwners(vec![uid("ub")]), ResourceVersion::number(7));
    for (found, outcome, requests) in [
        (widget_json(OWNERS), None, 2),
        (widget_json(OWNERS).replace(r#""uid":"u""#, r#""uid":"v""#), Some("gone"), 1),
        (widget_json(OWNERS).replace(r#"ion":"7""#, r#"ion":"8""#), Some("conflict"), 1),
    ] {
        let server = Server::answering(move |seen| match &*seen.method {
            "GET" => Reply::ok(&*found),
            _ => Reply::ok(widget_json("")),
        });
        let api = server.api();
        let resource = widget().resource;
        assert_eq!(api.requests_for_patch(&resource.group_resource, &owners), 1);
        let deletes_prove = DeletesProve::Nothing;
        api.set_aggregated(&[crate::Watchable { resource: Arc::clone(&resource), deletes_prove }]);
        assert_eq!(api.requests_for_patch(&resource.group_resource, &owners), 2);
        let patched = api.remove_references(&widget(), &owners, Some(&version)).await;
        assert_eq!(server.seen().len(), requests, "{:?}", server.requests());
        match outcome {
            None => assert_eq!(changed(patched).owners, []),
            Some("gone") => assert!(matches!(patched, Ok(Patched::Gone(_))), "{patched:?}"),
            Some(_) => assert_eq!(patched.unwrap_err().class, ErrorClass::Conflict),
        }
    }
}

/// Rules 5.17 and 6.14. A mutating webhook may add again what a patch removes. Fails if the code of the
/// answer counts: the owner would go, and the dependent with it.
#[tokio::test]
async fn a_patch_whose_answer_shows_what_it_removes_has_failed() {
    let owners = [uid("ua")];
    let exactly = [reference("v1", "a", true)];
    let live = || Reply::ok(widget_json(OWNERS));
    let refers = "refers to A a with the uid ua";
    for (references, replies, left) in [
        (References::OfOwners(owners.to_vec()), vec![live()], refers),
        (References::OfOwners(owners.to_vec()), vec![unsupported(), live(), live()], refers),
        (References::Exactly(exactly.to_vec()), vec![live(), live()], refers),
    ] {
        let error = remove_references(replies, &references, None).await.1.unwrap_err();
        assert_eq!(error.class, ErrorClass::Denied);
        assert_eq!(
            error.to_string(),
            format!(
                "PATCH widgets.example.com ns/w: 200 OK: the API server accepted the write, but the object \
                 still {left}: a mutating webhook or policy may have restored it"
            )
        );
    }
    for replies in [vec![live()], vec![unsupported(), live(), live()]] {
        let server = Server::replying(replies);
        let error = server.api().stop_blocking(&widget(), &exactly, None).await.unwrap_err();
        assert!(error.class == ErrorClass::Denied && error.message.contains("blocks A a"), "{error}");
    }
    // Another reference may stay or be added.
    changed(remove_references(vec![live()], &References::OfOwners(vec![uid("uz")]), None).await.1);
}

/// A webhook that denies with 415 says nothing about the format (rule 1.27).
#[tokio::test]
async fn a_denial_is_not_taken_for_an_unsupported_format() {
    let denial = Reply::status(415, r#"admission webhook "x" denied the request: no"#, "{}");
    let server = Server::answering(move |_| denial.clone());
    let (api, owners) = (server.api(), References::OfOwners(vec![uid("ua")]));
    for patches in 1..3 {
        let error = api.remove_references(&widget(), &owners, None).await.unwrap_err();
        assert_eq!((error.class, server.seen().len()), (ErrorClass::Denied, patches));
    }
    assert_eq!(server.seen()[1].header("content-type"), "application/strategic-merge-patch+json");
}

fn finalized(finalizers: &str) -> Reply {
    Reply::ok(widget_json(&format!(r#","deletionTimestamp":"t","finalizers":{finalizers}"#)))
}

async fn remove(server: &Server) -> Result<Patched, ApiError> {
    server.api().remove_finalizer(&widget(), None, Finalizer::Orphan).await
}

#[tokio::test]
async fn other_finalizers_stay_and_uid_and_version_are_preconditions() {
    let server = Server::replying([finalized(r#"["x/y","orphan","z"]"#), finalized(r#"["x/y","z"]"#)]);
    assert!(matches!(remove(&server).await, Ok(Patched::Changed(_))));
    let request = &server.seen()[1];
    assert_eq!(request.header("content-type"), "application/merge-patch+json");
    assert_eq!(
        request.json(),
        json!({"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": ["x/y", "z"]}})
    );
    let server = Server::replying([finalized(r#"["orphan"]"#), finalized("[]")]);
    remove(&server).await.unwrap();
    assert_eq!(server.seen()[1].json()["metadata"]["finalizers"], Value::Null);
}

/// Rule 1.10.
#[tokio::test]
async fn finalizers_are_patched_only_if_necessary() {
    let other = widget_json(r#","deletionTimestamp":"t","finalizers":["orphan"]"#)
        .replace(r#""uid":"u""#, r#""uid":"v""#);
    let living = widget_json(r#","finalizers":["orphan"]"#);
    for (reply, outcome) in [
        (finalized(r#"["z"]"#), "Unneeded"),
        (finalized("null"), "Unneeded"),
        (Reply::ok(living), "Unneeded"),
        (Reply::not_found(), "Gone"),
        (Reply::ok(other), "Gone"),
    ] {
        let server = Server::replying([reply]);
        let removal = remove(&server).await.unwrap();
        if let Patched::Unneeded(live) = &removal {
            assert_eq!(live.resource_version, Some(ResourceVersion::number(7)), "as it was read");
        }
        assert!(format!("{removal:?}").starts_with(outcome), "{removal:?}");
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn conflicts_lead_to_another_read_up_to_a_limit() {
    let conflict = || Reply::status(409, "conflict", "{}");
    let holding = || finalized(r#"["orphan"]"#);
    let server = Server::replying([holding(), conflict(), holding(), finalized("[]")]);
    assert!(matches!(remove(&server).await, Ok(Patched::Changed(_))));
    let server = Server::answering(move |seen| if seen.method == "GET" { holding() } else { conflict() });
    assert_eq!(remove(&server).await.unwrap_err().class, ErrorClass::Conflict);
    assert_eq!(server.seen().len(), 10);
}

#[tokio::test]
async fn an_object_recreated_in_between_is_left_alone() {
    let other_uid = || Reply::status(422, "no", r#"{"causes":[{"field":"metadata.uid"}]}"#);
    let holding = || finalized(r#"["orphan"]"#);
    let server = Server::replying([holding(), other_uid(), Reply::not_found()]);
    assert!(matches!(remove(&server).await, Ok(Patched::Gone(_))));
    // Rule 1.26: it may be a webhook that says so.
    let server = Server::replying([holding(), other_uid(), holding()]);
    assert_eq!(remove(&server).await.unwrap_err().class, ErrorClass::Denied);
}

/// Rule 6.14. Fails if the code of the answer counts: the owner would never be tried again.
#[tokio::test]
async fn a_finalizer_that_the_answer_shows_was_not_removed() {
    let holding = || finalized(r#"["orphan","z"]"#);
    let error = remove(&Server::replying([holding(), holding()])).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Denied);
    assert!(error.message.contains("still has the finalizer orphan: a mutating webhook"), "{error}");
}
