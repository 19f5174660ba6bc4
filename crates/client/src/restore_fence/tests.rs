use super::*;
use crate::list_watch::{ListWatch, Step};
use crate::testing::{Part, ReceivedRequest, Reply, Server, lines, order, widget, widget_json, widgets};
use crate::{Api, ApiError, ApiSettings, Deleted, ErrorClass, EventType, Finalizer, GateClosed};
use kube_gc_core::graph::DeletesProve;

fn list(version: u64) -> Reply {
    Reply::ok(format!(r#"{{"kind":"List","metadata":{{"resourceVersion":"{version}"}},"items":[]}}"#))
}

/// A server that shows widgets up to version 60; what is asked then is up to the test.
fn server(mut then: impl FnMut(&ReceivedRequest) -> Reply + Send + 'static) -> Server {
    Server::answering(move |seen| match (seen.query("watch"), seen.query("limit")) {
        (Some(_), _) => {
            let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"60"}}}"#;
            Reply::stream([lines([bookmark]), Part::Break])
        }
        (None, None) if seen.method == "GET" && !seen.path.ends_with("/w") => list(50),
        _ => then(seen),
    })
}

async fn follow(api: &Api, resource: &Arc<ResourceType>, deletes_prove: DeletesProve) -> ListWatch {
    let mut watch = api.watch(Arc::clone(resource), deletes_prove);
    while !matches!(watch.next().await, Some(Step::Failed { .. })) {}
    watch
}

/// A server that deletes, and whose store is at this version.
fn storing(version: u64) -> Server {
    server(move |seen| match seen.method.as_str() {
        "DELETE" => Reply::ok(widget_json("")),
        _ => list(version),
    })
}

/// A client whose watch of widgets has just broken.
async fn broken(server: &Server) -> Api {
    let api = server.api();
    follow(&api, &widgets(), DeletesProve::Absence).await;
    api
}

async fn delete(api: &Api) -> Result<Deleted, ApiError> {
    api.delete(&order(&widget()), None).await
}

/// The requests since the watch began.
fn asked(server: &Server) -> Vec<String> {
    let line =
        |seen: &ReceivedRequest| format!("{} {}", seen.method, seen.path.split('/').next_back().unwrap());
    let all: Vec<_> = server.seen().iter().map(line).collect();
    let began = all.iter().rposition(|line| line.contains("watch=1")).unwrap();
    all[began + 1..].to_vec()
}

/// Rule 1.22.
#[tokio::test(start_paused = true)]
async fn the_first_write_after_a_broken_watch_waits_for_a_consistent_list() {
    let server = storing(60);
    let api = broken(&server).await;
    let error = delete(&api).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Fenced);
    assert_eq!(asked(&server), ["GET namespaces?limit=1"], "what was decided before may be over");
    delete(&api).await.unwrap();
    delete(&api).await.unwrap();
    assert_eq!(asked(&server)[1..], ["DELETE w", "DELETE w"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_to_a_store_that_went_back() {
    let server = server(|_| list(59));
    let api = broken(&server).await;
    let mut restores = api.restore_fence().restores();
    assert_eq!(delete(&api).await.unwrap_err().class, ErrorClass::GateClosed);
    assert_eq!(asked(&server), ["GET namespaces?limit=1", "GET widgets?limit=1"]);
    assert!(restores.has_changed().unwrap());
    let proof = restores.borrow_and_update().clone();
    assert!(proof.contains("version 59 now, but widgets.example.com had reached version 60"), "{proof}");
    assert_eq!(api.gate().permit(), Err(GateClosed::Closed));
    // Everything was read again.
    api.restore_fence().reset();
    api.gate().resume();
    let _ = delete(&api).await;
    assert_eq!(asked(&server)[2..], ["DELETE w"]);
}

/// A backup may be younger than what was last seen of the type whose watch broke.
#[tokio::test(start_paused = true)]
async fn the_greatest_version_of_any_type_counts() {
    let server = server(|_| list(70));
    let api = broken(&server).await;
    api.restore_fence().lift(&widgets().group_resource, None);
    let gadgets = Arc::new(ResourceType {
        group_resource: GroupResource::parse("gadgets.example.com"),
        ..ResourceType::clone(&widgets())
    });
    api.restore_fence().follow(&gadgets);
    let high_water = api.high_water();
    high_water.set(&gadgets.group_resource, &ResourceVersion::number(80));
    api.restore_fence().raise(&widgets().group_resource);
    assert_eq!(delete(&api).await.unwrap_err().class, ErrorClass::GateClosed);
    assert_eq!(asked(&server), ["GET namespaces?limit=1", "GET gadgets?limit=1"]);
}

#[tokio::test(start_paused = true)]
async fn an_unlistable_type_does_not_keep_the_fence_raised() {
    for broken in ["widgets", "namespaces"] {
        let server = server(move |seen| match seen.method.as_str() {
            "DELETE" => Reply::ok(widget_json("")),
            _ if seen.path.contains(broken) => Reply::code(500, "oops"),
            _ => list(60),
        });
        let api = server.api();
        let mut watch = follow(&api, &widgets(), DeletesProve::Absence).await;
        if broken == "widgets" {
            assert!(matches!(watch.next().await, Some(Step::Failed { .. })));
        }
        delete(&api).await.unwrap_err();
        delete(&api).await.unwrap();
        assert_eq!(asked(&server).last().unwrap(), "DELETE w", "{broken}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_list_answers_all_waiting_writes_and_defers_them_if_it_fails() {
    for (reply, class, why, questions) in [
        (list(60), ErrorClass::Fenced, "", 1),
        (Reply::never(), ErrorClass::GateClosed, "within 10 s", 2),
        (Reply::code(500, "oops"), ErrorClass::GateClosed, "oops", 2),
    ] {
        let server = server(move |_| reply.clone());
        let api = broken(&server).await;
        let results = futures::future::join_all((0..5).map(|_| delete(&api))).await;
        let errors: Vec<_> = results.into_iter().map(Result::unwrap_err).collect();
        assert!(errors.iter().all(|error| error.class == class), "{errors:?}");
        assert!(errors[0].message.contains(why), "{}", errors[0]);
        assert_eq!(asked(&server).len(), questions);
        assert!(api.gate().permit().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn neither_an_event_nor_a_write_through_a_closed_gate_causes_a_list() {
    let server = server(|_| Reply::code(201, "{}"));
    let api = broken(&server).await;
    api.tell(&widget(), EventType::Warning, "r", "no such owner").await.unwrap();
    api.gate().pause();
    assert_eq!(delete(&api).await.unwrap_err().class, ErrorClass::GateClosed);
    assert_eq!(asked(&server), ["POST events?fieldManager=kube-gc"]);
}

#[tokio::test(start_paused = true)]
async fn a_monitors_own_list_lowers_the_fence() {
    let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"60"}}}"#;
    let server = Server::replying([
        list(50),
        Reply::stream([lines([bookmark]), Part::Break]),
        list(60),
        Reply::stream([lines([bookmark]), Part::Hang]),
        Reply::ok(widget_json("")),
    ]);
    let api = server.api();
    let mut watch = follow(&api, &widgets(), DeletesProve::Absence).await;
    assert!(matches!(watch.next().await, Some(Step::Bookmark { .. })));
    delete(&api).await.unwrap();
    assert_eq!(asked(&server), ["DELETE w"]);
}

/// Rule 1.24.
#[tokio::test(start_paused = true)]
async fn versions_of_aggregated_apis_are_not_those_of_the_store() {
    let server = server(|_| Reply::ok(widget_json("")));
    let api = server.api();
    follow(&api, &widgets(), DeletesProve::Nothing).await;
    delete(&api).await.unwrap();
    assert_eq!(asked(&server), ["DELETE w"]);
}

/// A list that was sent for another reason, for example to confirm that no object names an owner.
#[tokio::test(start_paused = true)]
async fn any_older_list_proves_a_restore() {
    for (version, proves) in [(59, true), (60, false)] {
        let server = server(move |_| list(version));
        let api = server.api();
        let watch = follow(&api, &widgets(), DeletesProve::Absence).await;
        let restores = api.restore_fence().restores();
        let listed = api.list(&widgets(), None, None, |_| {}).await;
        assert_eq!(listed.is_err_and(|error| error.class == ErrorClass::GateClosed), proves);
        assert_eq!(restores.has_changed().unwrap(), proves);
        assert_eq!(api.gate().permit().is_err(), proves);
        drop(watch);
    }
}

/// Rule 1.23. The object is at version 7.
#[tokio::test(start_paused = true)]
async fn an_object_at_a_lower_version_than_was_seen_proves_a_restore() {
    for (seen, deletes_prove, proves) in [
        (Some(8), DeletesProve::Absence, true),
        (Some(7), DeletesProve::Absence, false),
        (None, DeletesProve::Absence, false),
        (Some(8), DeletesProve::Nothing, false),
    ] {
        let seen = seen.map(ResourceVersion::number);
        for removes_finalizer in [false, true] {
            let server = server(|_| Reply::ok(widget_json("")));
            let api = server.api();
            follow(&api, &widgets(), deletes_prove).await;
            let restores = api.restore_fence().restores();
            let error = if removes_finalizer {
                api.remove_finalizer(&widget(), seen.as_ref(), Finalizer::Foreground).await.err()
            } else {
                api.look_up_after(&widget(), seen.as_ref()).await.err()
            };
            assert_eq!(error.is_some_and(|error| error.class == ErrorClass::GateClosed), proves, "{seen:?}");
            assert_eq!(restores.has_changed().unwrap(), proves);
        }
    }
}

/// A watch that is told again and again that its version is too old must not block every write.
#[tokio::test(start_paused = true)]
async fn an_answered_request_does_not_raise_the_fence() {
    let gone =
        r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
    for watched in [Reply::stream([lines([gone])]), Reply::code(500, "oops")] {
        let server = Server::answering(move |seen| match (seen.query("watch"), seen.method.as_str()) {
            (Some(_), _) => watched.clone(),
            (None, "GET") => list(50),
            _ => Reply::ok(widget_json("")),
        });
        let api = server.api();
        let mut watch = api.watch(widgets(), DeletesProve::Absence);
        while !matches!(watch.next().await, Some(Step::Failed { .. } | Step::Expired { .. })) {}
        delete(&api).await.unwrap();
    }
}

fn told_of_all(restore_fence: &RestoreFence) -> u64 {
    let number = restore_fence.disturbance().number;
    restore_fence.acknowledge(number);
    number
}

/// A restore that raises the version: no list shows anything.
#[tokio::test(start_paused = true)]
async fn a_decision_from_before_watches_broke_is_not_sent_after_the_check() {
    let server = storing(1_000_000);
    let api = server.api();
    let before = api.under(api.restore_fence().acknowledged());
    follow(&api, &widgets(), DeletesProve::Absence).await;
    told_of_all(api.restore_fence());
    delete(&api).await.unwrap_err();
    assert_eq!(api.restore_fence().disturbance().found, Some(ResourceVersion::number(1_000_000)));
    for _ in 0..2 {
        assert_eq!(delete(&before).await.unwrap_err().class, ErrorClass::Fenced);
    }
    assert_eq!(asked(&server), ["GET namespaces?limit=1"]);
    delete(&api.under(api.restore_fence().acknowledged())).await.unwrap();
}

/// A decision that is made after watches broke, but before all partitions have forgotten earlier
/// proofs, may be based on these proofs.
#[tokio::test(start_paused = true)]
async fn a_decision_counts_only_after_all_partitions_know_of_the_disturbance() {
    let server = storing(60);
    let api = broken(&server).await;
    let number = api.restore_fence().disturbance().number;
    let early = api.under(api.restore_fence().acknowledged());
    delete(&early).await.unwrap_err();
    let mut writing = std::pin::pin!(delete(&early));
    assert!(futures::poll!(&mut writing).is_pending(), "it would only be tried again at once");
    api.restore_fence().acknowledge(number);
    assert_eq!(writing.await.unwrap_err().class, ErrorClass::Fenced);
    delete(&api.under(api.restore_fence().acknowledged())).await.unwrap();
    assert_eq!(asked(&server), ["GET namespaces?limit=1", "DELETE w"]);
}

/// It is known that nothing was sent: such a write counts for nothing, and is decided again.
#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_a_connection_is_not_sent_when_watches_break() {
    let no_connection = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
        // hyper keeps a request, too, that waits for its connection.
        let _waiting = request;
        std::future::pending::<Result<http::Response<kube::client::Body>, std::convert::Infallible>>().await
    });
    let client = kube::Client::new(no_connection, "default");
    let api = Api::from_clients(client, ApiSettings::default(), WriteGate::open());
    let way = api.under(api.restore_fence().acknowledged());
    let mut writing = std::pin::pin!(delete(&way));
    assert!(futures::poll!(&mut writing).is_pending());
    let began = tokio::time::Instant::now();
    api.restore_fence().raise(&widgets().group_resource);
    let error = writing.await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Fenced, "{error}");
    assert!(!error.may_have_taken_effect());
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// A transport that does not tell whether a request has its connection.
#[tokio::test(start_paused = true)]
async fn a_write_in_flight_is_cancelled_when_watches_break() {
    let server = Server::answering(|seen| match seen.method.as_str() {
        "DELETE" => Reply::never(),
        _ => list(50),
    });
    let api = server.api();
    let way = api.under(api.restore_fence().acknowledged());
    let mut writing = std::pin::pin!(delete(&way));
    while server.seen().is_empty() {
        assert!(futures::poll!(&mut writing).is_pending());
        tokio::task::yield_now().await;
    }
    let began = tokio::time::Instant::now();
    api.restore_fence().raise(&widgets().group_resource);
    let error = writing.await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Transient, "what became of it is not known");
    assert!(error.message.contains("watches were interrupted"), "{error}");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// A store that is exchanged behind its API server: watches end with 410, and no
/// connection breaks.
#[tokio::test(start_paused = true)]
async fn a_watch_that_expires_early_raises_the_fence() {
    let gone =
        r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
    let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"60"}}}"#;
    let server = Server::answering(move |seen| match (seen.query("watch"), seen.method.as_str()) {
        (Some(_), _) => Reply::stream([lines([bookmark, gone])]),
        (None, "GET") if seen.path.contains("namespaces") => list(70),
        (None, "GET") => list(50),
        _ => Reply::ok(widget_json("")),
    });
    let api = server.api();
    let mut watch = api.watch(widgets(), DeletesProve::Absence);
    while !matches!(watch.next().await, Some(Step::Expired { .. })) {}
    assert_eq!(api.restore_fence().disturbance().number, 1);
    assert_eq!(delete(&api).await.unwrap_err().class, ErrorClass::Fenced);
    assert_eq!(asked(&server), ["GET namespaces?limit=1"]);
    delete(&api).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_restore_proved_by_the_graph_closes_the_gate_and_voids_decisions() {
    let server = Server::answering(|_| Reply::ok(widget_json("")));
    let api = server.api();
    let (way, restores) = (api.under(api.restore_fence().acknowledged()), api.restore_fence().restores());
    api.restore_fence().report_restore("an object is older than it was".into());
    assert!(restores.has_changed().unwrap());
    assert_eq!(delete(&way).await.unwrap_err().class, ErrorClass::GateClosed);
    // Everything was read again.
    api.restore_fence().reset();
    told_of_all(api.restore_fence());
    api.gate().resume();
    assert_eq!(delete(&way).await.unwrap_err().class, ErrorClass::Fenced);
    let now = api.restore_fence().disturbance();
    assert_eq!(now.found, Some(ResourceVersion::number(0)), "no watch from before goes on");
}

#[test]
fn the_high_water_mark_rises_with_events_and_falls_only_on_request() {
    let (high_water, pods) = (HighWater::default(), GroupResource::parse("pods"));
    let number = ResourceVersion::number;
    for version in [5, 9, 7] {
        high_water.clone().advance(&pods, &number(version));
    }
    assert_eq!(high_water.get(&pods), Some(number(9)));
    high_water.set(&pods, &number(3));
    assert_eq!(high_water.get(&pods), Some(number(3)));
    high_water.forget_all();
    assert_eq!(high_water.get(&pods), None);
}
