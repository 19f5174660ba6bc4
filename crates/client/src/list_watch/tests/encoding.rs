//! Protobuf where the server offers it, JSON where it does not.

use serde_json::{Value, json};

use super::*;
use crate::Encoding;
use kube_gc_decode::encoder;

const LIST: &str = "application/vnd.kubernetes.protobuf";
const WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

fn of(body: Vec<u8>, content_type: &str) -> Reply {
    Reply::stream([Part::Data(body.into())]).header("content-type", content_type)
}

fn tree(version: u64, next: &str, names: &[&str]) -> Value {
    let items: Vec<Value> = names.iter().map(|name| serde_json::from_str(&item(name, 1)).unwrap()).collect();
    json!({"metadata": {"resourceVersion": version.to_string(), "continue": next}, "items": items})
}

fn protobuf_list(version: u64, names: &[&str]) -> Reply {
    of(encoder::list(&tree(version, "", names)), LIST)
}

fn protobuf_watch(events: &[&str]) -> Reply {
    let frames = events.iter().flat_map(|event| encoder::frame(&serde_json::from_str(event).unwrap()));
    of(frames.collect(), WATCH)
}

/// Whether each request would take protobuf. All take JSON, in metadata or in full.
fn asked_for_protobuf(server: &Server) -> Vec<bool> {
    let asks = |seen: &ReceivedRequest| {
        let accept = seen.header("accept");
        assert!(accept.contains("application/json;as=PartialObjectMetadata"), "{accept}");
        assert!(accept.ends_with(",application/json"), "{accept}");
        accept.starts_with("application/vnd.kubernetes.protobuf;as=PartialObjectMetadata")
    };
    server.seen().iter().filter(|seen| kind(seen) != "check").map(asks).collect()
}

#[tokio::test(start_paused = true)]
async fn each_answer_is_read_in_its_own_encoding() {
    let (added, deleted) = (event("ADDED", "c", 11), event("DELETED", "a", 12));
    let in_json = Reply::stream([lines([&added])]).header("content-type", "application/json;stream=watch");
    let steps = "began; items a,b; listed 10; +c -a; bookmark 20; expired; began; items b; listed 30; +c; \
                 watch ended; -a";
    let server = play(
        seen_up_to(0),
        vec![
            protobuf_list(10, &["a", "b"]),
            protobuf_watch(&[&added, &deleted, &bookmark(20), GONE]),
            protobuf_list(30, &["b"]),
            in_json,
            // The version is asked for after an early close.
            list(31, &[]),
            protobuf_watch(&[&deleted]),
        ],
        steps,
        "list 0; watch 10; list 20; watch 30; check; watch 11",
    )
    .await;
    assert_eq!(asked_for_protobuf(&server), [true; 5]);
    let accept = server.seen()[0].header("accept").to_owned();
    assert!(
        accept.contains("as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as="),
        "{accept}"
    );
    // The end of a streamed list, too.
    let server = Server::replying([protobuf_watch(&[&added, &bookmark(5), &super::streaming::end("12")])]);
    let settings = ApiSettings { streaming_lists: true, ..ApiSettings::default() };
    let mut watch = server.api_with(settings, WriteGate::open()).watch(widgets(), DeletesProve::Absence);
    follows(&mut watch, "began; items c; listed 12").await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_in_protobuf_is_requested_in_json() {
    let full = || of(encoder::typed("v1", "PodList", b""), LIST);
    let unknown = event("ADDED", "b", 11).replace("ADDED", "VANISHED");
    let events = [&*event("MODIFIED", "a", 11), &unknown, &event("MODIFIED", "a", 13)];
    let whole = encoder::list(&tree(10, "", &["a", "b"]));
    let truncated = of(whole[..whole.len() - 20].to_vec(), LIST);
    for (replies, steps, asked) in [
        (
            vec![full(), list(10, &["a"]), Reply::stream([lines([&event("DELETED", "a", 12)])])],
            "failed unusable; began; items a; listed 10; -a",
            &[true, false, false][..],
        ),
        // An event is never skipped.
        (
            vec![protobuf_list(10, &["a"]), protobuf_watch(&events), list(14, &["a"])],
            "began; items a; listed 10; +a; failed unusable; began; items a; listed 14",
            &[true, true, false],
        ),
        (
            vec![truncated, protobuf_list(10, &["a", "b"])],
            "failed transient; began; items a,b; listed 10",
            &[true, true],
        ),
    ] {
        let server = play(seen_up_to(0), replies, steps, "list 0").await;
        assert_eq!(asked_for_protobuf(&server), asked, "{steps}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_rejects_the_accept_header_is_asked_for_json() {
    for code in [406, 415] {
        let refusal = || Reply::status(code, "only the following media types are accepted", "{}");
        for (replies, steps, asked) in [
            (vec![refusal(), list(10, &["a"])], "began; items a; listed 10", &[true, false][..]),
            (
                vec![protobuf_list(10, &[]), refusal(), Reply::stream([lines([&bookmark(12)])])],
                "began; listed 10; bookmark 12",
                &[true, true, false],
            ),
            // In JSON, it is a refusal like any other.
            (vec![refusal(), refusal(), refusal()], "failed refused", &[true, false, false]),
        ] {
            let server = play(seen_up_to(0), replies, steps, "list 0").await;
            assert_eq!(asked_for_protobuf(&server), asked, "{steps}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn json_only_and_compression_can_be_configured() {
    // Without a header of ours, the underlying client adds its own.
    for (encoding, compressed_lists, accepts) in [
        (Encoding::Protobuf, false, "identity"),
        (Encoding::Json, false, "identity"),
        (Encoding::Protobuf, true, ""),
    ] {
        let server = Server::replying([list(10, &[])]);
        let settings = ApiSettings { encoding, compressed_lists, ..paged() };
        let mut watch = server.api_with(settings, WriteGate::open()).watch(widgets(), DeletesProve::Absence);
        follows(&mut watch, "began; listed 10").await;
        assert_eq!(server.seen()[0].header("accept-encoding"), accepts);
        assert_eq!(asked_for_protobuf(&server), [encoding == Encoding::Protobuf]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_for_a_single_purpose_falls_back_to_json_page_by_page() {
    let server = Server::replying([
        of(encoder::list(&tree(10, "t", &["a"])), LIST),
        of(encoder::typed("v1", "PodList", b""), LIST),
        list_next(11, "u", &[item("b", 1)]),
        Reply::status(406, "no", "{}"),
    ]);
    let mut names = Vec::new();
    let api = server.api();
    let listed = api.list(&widgets(), None, None, |facts| names.push(facts.name.to_string())).await;
    assert_eq!(listed.unwrap_err().class, ErrorClass::Refused);
    assert_eq!(names, ["a", "b"]);
    assert_eq!(asked_for_protobuf(&server), [true, true, false, false]);
    assert_asked(&server, "list store; page t; page t; page u");
}
