//! Objects that another API server answers for: it may ignore what a DELETE is bound to.

use crate::actors::tests::in_system;
use crate::worker::delete::tests::scene::{FOREGROUND, Scene, Thing};
use kube_gc_client::testing::{Reply, Server};
use kube_gc_client::{ApiSettings, Watchable};
use kube_gc_core::graph::DeletesProve;
use kube_gc_core::mailbox::Completion;
use kube_gc_observe::telemetry::StuckReason;

/// Decides on an object of an owner that is gone, while a GET shows the object in another state.
/// Returns the outcome, the requests, and the precondition of the last one.
fn decide(
    now: &Thing,
    deletes_prove: DeletesProve,
) -> (Completion<StuckReason>, Vec<String>, serde_json::Value) {
    let now = now.reply();
    in_system(async move {
        let gone = Thing::new("gone", 1, &[]);
        let dependent = Thing::new("dependent", 2, &[&gone]);
        let server = Server::answering(move |seen| match &*seen.method {
            "GET" => now.clone(),
            _ => Reply::ok(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#),
        });
        let settings = ApiSettings { seed: 1, ..ApiSettings::default() };
        let scene = Scene::set(&server, settings, &[&gone, &dependent]).await;
        let resource = dependent.identity.resource.clone();
        scene.work.context.api.set_aggregated(&[Watchable { resource, deletes_prove }]);
        scene.lose(&Thing { version: 101, ..gone }).await;
        let outcome = scene.decide(&dependent).await;
        let requests = server.seen().into_iter().map(|seen| seen.method);
        let last = server.seen().pop().unwrap();
        let precondition = match &*last.method {
            "DELETE" => last.json()["preconditions"]["resourceVersion"].clone(),
            _ => serde_json::Value::Null,
        };
        (outcome, requests.collect(), precondition)
    })
}

fn dependent(version: u64, owners: &[&Thing]) -> Thing {
    Thing::new("dependent", version, owners)
}

/// Rule 1.25.
#[test]
fn an_object_of_an_aggregated_api_is_read_right_before_its_delete_and_others_are_not() {
    let gone = Thing::new("gone", 1, &[]);
    let unchanged = dependent(2, &[&gone]);
    let (outcome, requests, version) = decide(&unchanged, DeletesProve::Nothing);
    assert!(matches!(outcome, Completion::Done), "{outcome:?}");
    assert_eq!((requests, version), (vec!["GET".into(), "DELETE".into()], "2".into()));
    let (_, requests, version) = decide(&unchanged, DeletesProve::Absence);
    assert_eq!((requests, version), (vec!["DELETE".into()], "2".into()), "no GET for ordinary types");
    let (_, requests, version) = decide(&dependent(3, &[&gone]), DeletesProve::Nothing);
    assert_eq!((requests, version), (vec!["GET".into(), "DELETE".into()], "3".into()), "as it is now");
}

/// Fails if the collector sends the DELETE and relies on the server to reject it.
#[test]
fn a_changed_object_is_not_deleted() {
    let (gone, saviour) = (Thing::new("gone", 1, &[]), Thing::new("saviour", 1, &[]));
    let unchanged = dependent(2, &[&gone]);
    let mut re_created = unchanged.clone();
    re_created.identity.uid = kube_gc_core::object::Uid::parse("another").unwrap();
    for now in [
        dependent(3, &[&gone, &saviour]),
        dependent(3, &[]),
        Thing { version: 3, ..re_created },
        unchanged.deleted(3, FOREGROUND),
    ] {
        let (_, requests, _) = decide(&now, DeletesProve::Nothing);
        assert_eq!(requests, ["GET"], "{now:?}");
    }
}
