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

fn settings(page_size: u32) -> ApiSettings {
    ApiSettings { seed: 1, page_size, streaming_lists: true, ..ApiSettings::default() }
}

fn api(server: &Server) -> Api {
    server.api_with(settings(500), WriteGate::open())
}

fn seen_up_to(version: u64) -> WatchStart {
    let high_water = HighWater::default();
    high_water.advance(&widgets().group_resource, &ResourceVersion::number(version));
    start(&high_water)
}

fn streaming(server: &Server) -> ListWatch {
    api(server).watch(widgets(), start(&HighWater::default()))
}

fn whole(version: u64) -> Reply {
    Reply::stream([lines([&event("ADDED", "a", 1), &end(&version.to_string())]), Part::Hang])
}

/// Rule 1.30.
#[tokio::test(start_paused = true)]
async fn a_list_is_streamed_and_its_stream_goes_on_as_the_watch() {
    let server = Server::replying([
        Reply::stream([
            lines([&event("ADDED", "a", 1), &event("ADDED", "b", 2)]),
            Part::Pause(Duration::from_secs(9)),
            lines([&end("10"), &event("ADDED", "c", 11), &bookmark(12), GONE]),
        ]),
        whole(20),
    ]);
    let mut watch = streaming(&server);
    let expected = ["began", "items a,b", "listed 10", "+c", "bookmark 12", "expired", "began"];
    assert_eq!(steps(&mut watch, 7).await, expected);
    assert_eq!(steps(&mut watch, 2).await, ["items a", "listed 20"]);
    assert_eq!(kinds(&server), ["stream 0", "stream 12"]);
    let request = &server.seen()[1];
    for (key, value) in [
        ("watch", "1"),
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
        ("allowWatchBookmarks", "true"),
    ] {
        assert_eq!(request.query(key), Some(value), "{key}");
    }
    assert_eq!(request.query("limit"), None);
}

/// Rule 1.30. The version that the request requires is the least that the list can have.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_comes_in_batches_that_are_not_older_than_what_was_seen() {
    let server = Server::replying([Reply::stream([
        lines([&event("ADDED", "a", 1), &event("ADDED", "b", 2), &event("ADDED", "c", 3)]),
        lines([&end("60")]),
        Part::Hang,
    ])]);
    let mut watch = server.api_with(settings(2), WriteGate::open()).watch(widgets(), seen_up_to(50));
    let least = Some(ResourceVersion::number(50));
    assert_eq!(watch.next().await, Some(Step::Init { resource_version: least }));
    assert_eq!(steps(&mut watch, 3).await, ["items a,b", "items c", "listed 60"]);
    assert_eq!(kinds(&server), ["stream 50"]);
}

/// Rule 1.30. Only the marked bookmark ends the list, and what happens before it belongs to the list.
#[tokio::test(start_paused = true)]
async fn objects_may_come_twice_change_and_go_before_the_list_ends() {
    let (a, b) = (event("ADDED", "a", 1), event("ADDED", "b", 2));
    let (changed, gone) = (event("MODIFIED", "a", 8), event("DELETED", "b", 9));
    let server = Server::replying([Reply::stream([
        lines([&a, &b, &a, &bookmark(7)]),
        lines([&changed, &gone, &end("10")]),
        Part::Hang,
    ])]);
    let mut watch = streaming(&server);
    assert_eq!(steps(&mut watch, 3).await, ["began", "items a,b,a,a,-b", "listed 10"]);
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
        let server = Server::replying([Reply::stream(first.into_iter().chain(broken)), whole(10)]);
        let mut watch =
            server.api_with(settings(2), WriteGate::open()).watch(widgets(), start(&HighWater::default()));
        let failed = format!("failed {class}");
        let expected = ["began", "items a,b", &failed, "began", "items a", "listed 10"];
        assert_eq!(steps(&mut watch, 6).await, expected);
        // What was shown counts as seen.
        assert_eq!(kinds(&server), ["stream 0", "stream 7"]);
    }
}

/// Rule 1.31.
#[tokio::test(start_paused = true)]
async fn an_expired_or_older_stream_leads_to_a_consistent_list() {
    let too_large = r#"{"causes":[{"reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":1}"#;
    for reply in [
        Reply::stream([lines([&event("ADDED", "a", 1), GONE])]),
        Reply::status(410, "too old", "{}"),
        Reply::status(504, "Timeout: Too large resource version: 50, current: 7", too_large),
        // A server that ignores the version of the request.
        whole(40),
    ] {
        let server = Server::replying([reply, list(60, &["a"])]);
        let mut watch = api(&server).watch(widgets(), seen_up_to(50));
        assert_eq!(steps(&mut watch, 3).await, ["began", "items a", "listed 60"]);
        assert_eq!(kinds(&server), ["stream 50", "list store"]);
    }
    // The store was restored.
    let reply = Reply::status(504, "Timeout: Too large resource version: 50, current: 7", too_large);
    let server = Server::replying([reply, list(8, &["a"])]);
    let mut watch = api(&server).watch(widgets(), seen_up_to(50));
    assert_eq!(steps(&mut watch, 4).await, ["restored 50 8", "began", "items a", "listed 8"]);
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
        let api = api(&server);
        let gadgets =
            ResourceType { group_resource: GroupResource::parse("gadgets"), ..(*widgets()).clone() };
        for resource in [widgets(), Arc::new(gadgets)] {
            let mut watch = api.watch(resource, start(&HighWater::default()));
            assert_eq!(steps(&mut watch, 3).await, ["began", "items a", "listed 10"]);
        }
        assert_eq!(kinds(&server), ["stream 0", "list 0", "list 0"]);
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
        let server = Server::replying([refusal, list(10, &["a"])]);
        let mut watch = streaming(&server);
        assert_eq!(steps(&mut watch, 3).await, ["began", "items a", "listed 10"]);
        assert_eq!(kinds(&server), ["stream 0", "list 0"]);
    }
}

/// Rule 1.32. It begins a watch that never ends its list.
#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_what_it_does_not_know_is_listed_after_some_streams() {
    let server = Server::answering(|seen| match seen.query("watch") {
        Some(_) => Reply::stream([lines([&event("ADDED", "a", 1), &bookmark(5)]), Part::Hang]),
        None => list(10, &["a"]),
    });
    let mut watch = streaming(&server);
    for _ in 0..3 {
        assert_eq!(steps(&mut watch, 3).await, ["began", "items a", "failed transient"]);
    }
    assert_eq!(steps(&mut watch, 3).await, ["began", "items a", "listed 10"]);
    assert_eq!(kinds(&server), ["stream 0", "stream 1", "stream 1", "list 1"]);
}

/// Rule 1.32.
#[tokio::test(start_paused = true)]
async fn an_aggregated_api_is_not_asked_for_streamed_lists() {
    let server = Server::replying([list(10, &["a"])]);
    let aggregated = WatchStart { high_water: HighWater::default(), aggregated: true };
    let mut watch = api(&server).watch(widgets(), aggregated);
    assert_eq!(steps(&mut watch, 3).await, ["began", "items a", "listed 10"]);
    assert_eq!(kinds(&server), ["list 0"]);
}

/// A connection is driven by the thread that opened it.
#[tokio::test(start_paused = true)]
async fn a_stream_is_opened_and_read_in_the_phase_of_the_watch() {
    let server = Server::replying([whole(10)]);
    let mut watch = streaming(&server);
    assert_eq!(watch.next_in(Phase::List).await, Err(Phase::Watch));
    assert!(server.seen().is_empty());
    for said in ["began", "items a", "listed 10"] {
        assert_eq!(text(watch.next_in(Phase::Watch).await.unwrap()), said);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_drained_before_its_end_ends_at_once() {
    let server = Server::replying([Reply::stream([lines([&event("ADDED", "a", 1)]), Part::Hang])]);
    let mut watch = streaming(&server);
    assert_eq!(steps(&mut watch, 2).await, ["began", "items a"]);
    watch.drain();
    assert_eq!(steps(&mut watch, 1).await, ["ended"]);
}
