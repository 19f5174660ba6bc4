//! Streamed lists.

use std::sync::Arc;

use super::*;
use kube_gc_core::object::{GroupResource, ResourceType};

/// The bookmark that ends a list.
pub(super) fn end(version: &str) -> String {
    format!(
        r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#
    )
}

fn streaming(server: &Server, page_size: u32, start: Start) -> ListWatch {
    let settings = ApiSettings { seed: 1, page_size, streaming_lists: true, ..ApiSettings::default() };
    watch_from(&server.api_with(settings, WriteGate::open()), start)
}

/// Fails unless these steps follow from these replies, after these requests at first.
async fn stream(start: Start, replies: Vec<Reply>, expected: &str, requests: &str) -> Server {
    let server = Server::replying(replies);
    follows(&mut streaming(&server, 2, start), expected).await;
    assert_asked(&server, requests);
    server
}

fn whole(version: u64) -> Reply {
    Reply::stream([lines([&event("ADDED", "a", 1), &end(&version.to_string())]), Part::Hang])
}

/// Rule 1.30.
#[tokio::test(start_paused = true)]
async fn a_list_is_streamed_and_its_stream_goes_on_as_the_watch() {
    let parts = [
        lines([&event("ADDED", "a", 1), &event("ADDED", "b", 2)]),
        Part::Pause(Duration::from_secs(9)),
        lines([&end("10"), &event("ADDED", "c", 11), &bookmark(12), GONE]),
    ];
    let steps = "began; items a,b; listed 10; +c; bookmark 12; expired; began; items a; listed 20";
    let replies = vec![Reply::stream(parts), whole(20)];
    let server = stream(seen_up_to(0), replies, steps, "stream 0; stream 12").await;
    let request = &server.seen()[1];
    for (key, value) in [
        ("watch", Some("1")),
        ("resourceVersionMatch", Some("NotOlderThan")),
        ("allowWatchBookmarks", Some("true")),
        ("limit", None),
    ] {
        assert_eq!(request.query(key), value, "{key}");
    }
}

/// Rule 1.30. The version that the request requires is the least that the list can have.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_comes_in_batches_that_are_not_older_than_what_was_seen() {
    let server = Server::replying([Reply::stream([
        lines([&event("ADDED", "a", 1), &event("ADDED", "b", 2), &event("ADDED", "c", 3)]),
        lines([&end("60")]),
        Part::Hang,
    ])]);
    let mut watch = streaming(&server, 2, seen_up_to(50));
    // A connection is driven by the thread that opened it.
    assert_eq!(watch.next_in(Phase::List).await, Err(Phase::Watch));
    assert!(server.seen().is_empty());
    let least = Some(ResourceVersion::number(50));
    assert_eq!(watch.next_in(Phase::Watch).await, Ok(Some(Step::Init { resource_version: least })));
    follows(&mut watch, "items a,b; items c; listed 60").await;
    assert_asked(&server, "stream 50");
}

/// Rule 1.30. Only the marked bookmark ends the list, and what happens before it belongs to the list.
#[tokio::test(start_paused = true)]
async fn objects_may_come_twice_change_and_go_before_the_list_ends() {
    let (a, b) = (event("ADDED", "a", 1), event("ADDED", "b", 2));
    let (changed, gone) = (event("MODIFIED", "a", 8), event("DELETED", "b", 9));
    let parts = [lines([&a, &b, &a, &bookmark(7)]), lines([&changed, &gone, &end("10")]), Part::Hang];
    let server = Server::replying([Reply::stream(parts)]);
    let mut watch = streaming(&server, 500, seen_up_to(0));
    follows(&mut watch, "began; items a,b,a,a,-b; listed 10").await;
}

/// Rule 1.31.
#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_before_its_end_begins_again() {
    let error = r#"{"type":"ERROR","object":{"code":503,"message":"shutting down"}}"#;
    for (broken, class) in [
        (vec![Part::Break], "transient"),
        (Vec::new(), "transient"),
        (vec![Part::Hang], "transient"),
        (vec![lines([error])], "transient"),
        (vec![lines(["nonsense"])], "unusable"),
        (vec![lines([&end("")])], "unusable"),
    ] {
        let first = [lines([&event("ADDED", "a", 7), &event("ADDED", "b", 6)])];
        let replies = vec![Reply::stream(first.into_iter().chain(broken)), whole(10)];
        let steps = format!("began; items a,b; failed {class}; began; items a; listed 10");
        // What was shown counts as seen.
        stream(seen_up_to(0), replies, &steps, "stream 0; stream 7").await;
    }
}

/// Rule 1.31.
#[tokio::test(start_paused = true)]
async fn an_expired_or_older_stream_leads_to_a_consistent_list() {
    let listed = "began; items a; listed 60";
    for (reply, version, steps) in [
        (Reply::stream([lines([&event("ADDED", "a", 1), GONE])]), 60, listed),
        (Reply::status(410, "too old", "{}"), 60, listed),
        (too_large(), 60, listed),
        // A server that ignores the version of the request.
        (whole(40), 60, listed),
        // The store was restored.
        (too_large(), 8, "restored 50 8; began; items a; listed 8"),
    ] {
        let replies = vec![reply, list(version, &["a"])];
        stream(seen_up_to(50), replies, steps, "stream 50; list store").await;
    }
}

/// Rule 1.32.
#[tokio::test(start_paused = true)]
async fn a_refusal_of_streamed_lists_is_remembered_for_all_types() {
    for refusal in [
        Reply::status(422, "sendInitialEvents is forbidden for watch", "{}"),
        Reply::status(400, "unknown parameter", "{}"),
    ] {
        let server = Server::answering(move |seen| match kind(seen).split_once(' ') {
            Some(("stream", _)) => refusal.clone(),
            Some(("list", _)) => list(10, &["a"]),
            _ => Reply::never(),
        });
        let api = streaming(&server, 500, seen_up_to(0)).api;
        let gadgets =
            ResourceType { group_resource: GroupResource::parse("gadgets"), ..(*widgets()).clone() };
        for resource in [widgets(), Arc::new(gadgets)] {
            follows(&mut api.watch(resource, DeletesProve::Absence), "began; items a; listed 10").await;
        }
        assert_eq!(server.seen().iter().map(kind).collect::<Vec<_>>(), ["stream 0", "list 0", "list 0"]);
    }
}

/// Rule 1.32. Without a feature of etcd, a stream is answered with an internal error.
#[tokio::test(start_paused = true)]
async fn a_type_whose_stream_is_denied_or_fails_in_the_server_is_listed_at_once() {
    let failing = r#"{"type":"ERROR","object":{"code":500,"message":"a storage feature is disabled"}}"#;
    for refusal in [
        Reply::stream([lines([failing])]),
        Reply::code(500, "oops"),
        Reply::status(403, "widgets is forbidden", "{}"),
    ] {
        let replies = vec![refusal, list(10, &["a"])];
        stream(seen_up_to(0), replies, "began; items a; listed 10", "stream 0; list 0").await;
    }
}

/// Rule 1.32. It begins a watch that never ends its list.
#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_what_it_does_not_know_is_listed_after_some_streams() {
    let endless = || Reply::stream([lines([&event("ADDED", "a", 1), &bookmark(5)]), Part::Hang]);
    let replies = vec![endless(), endless(), endless(), list(10, &["a"])];
    let steps = ["began; items a; failed transient"; 3].join("; ") + "; began; items a; listed 10";
    stream(seen_up_to(0), replies, &steps, "stream 0; stream 1; stream 1; list 1").await;
}

/// Rule 1.32.
#[tokio::test(start_paused = true)]
async fn an_aggregated_api_is_not_asked_for_streamed_lists() {
    stream(aggregated(0), vec![list(10, &["a"])], "began; items a; listed 10", "list 0").await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_drained_before_its_end_ends_at_once() {
    let server = Server::replying([Reply::stream([lines([&event("ADDED", "a", 1)]), Part::Hang])]);
    let mut watch = streaming(&server, 500, seen_up_to(0));
    follows(&mut watch, "began; items a").await;
    watch.drain();
    follows(&mut watch, "ended").await;
}
