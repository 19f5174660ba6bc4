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
async fn protobuf_and_json_give_the_same_result() {
    let events = [event("ADDED", "c", 11), event("DELETED", "a", 12), bookmark(20)];
    let server = Server::replying([
        protobuf_list(10, &["a", "b"]),
        protobuf_watch(&[&events[0], &events[1], &events[2], GONE]),
        protobuf_list(30, &[]),
    ]);
    let mut watch = watch(&server);
    let expected =
        ["began", "items a,b", "listed 10", "+c -a", "bookmark 20", "expired", "began", "listed 30"];
    assert_eq!(steps(&mut watch, 8).await, expected);
    assert_eq!(kinds(&server), ["list 0", "watch 10", "list 20"]);
    assert_eq!(asked_for_protobuf(&server), [true; 3]);
    let accept = server.seen()[0].header("accept").to_owned();
    assert!(
        accept.contains("as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as="),
        "{accept}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_streamed_list_is_read_in_protobuf() {
    let added = event("ADDED", "a", 1);
    let server = Server::replying([protobuf_watch(&[&added, &bookmark(5), &super::streaming::end("10")])]);
    let settings = ApiSettings { streaming_lists: true, ..ApiSettings::default() };
    let mut watch =
        server.api_with(settings, WriteGate::open()).watch(widgets(), start(&HighWater::default()));
    assert_eq!(steps(&mut watch, 3).await, ["began", "items a", "listed 10"]);
    assert_eq!(asked_for_protobuf(&server), [true]);
}

#[tokio::test(start_paused = true)]
async fn each_answer_is_read_in_its_own_encoding() {
    let added = event("ADDED", "b", 11);
    let deleted = event("DELETED", "b", 12);
    let server = Server::replying([
        protobuf_list(10, &["a"]),
        Reply::stream([lines([&added])]).header("content-type", "application/json;stream=watch"),
        // The version is asked for after an early close.
        list(11, &[]),
        protobuf_watch(&[&deleted]),
    ]);
    let mut watch = watch(&server);
    let expected = ["began", "items a", "listed 10", "+b", "watch ended", "-b"];
    assert_eq!(steps(&mut watch, 6).await, expected);
    assert_eq!(asked_for_protobuf(&server), [true; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_type_that_cannot_be_read_in_protobuf_is_requested_in_json() {
    let full = encoder::typed("v1", "PodList", b"");
    let server = Server::replying([
        of(full, LIST),
        list(10, &["a"]),
        Reply::stream([lines([&event("DELETED", "a", 12)])]),
    ]);
    let mut watch = watch(&server);
    let Some(Step::Failed { error, .. }) = watch.next().await else { panic!("no failure") };
    assert_eq!(error.class, ErrorClass::Unusable);
    assert_eq!(error.message, "the response is not a list of metadata; JSON is requested from now on");
    assert_eq!(steps(&mut watch, 4).await, ["began", "items a", "listed 10", "-a"]);
    assert_eq!(asked_for_protobuf(&server), [true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_event_is_never_skipped() {
    let unknown = event("ADDED", "b", 11).replace("ADDED", "VANISHED");
    let server = Server::replying([
        protobuf_list(10, &["a"]),
        protobuf_watch(&[&event("MODIFIED", "a", 11), &unknown, &event("MODIFIED", "a", 13)]),
        list(14, &["a"]),
    ]);
    let mut watch = watch(&server);
    let expected =
        ["began", "items a", "listed 10", "+a", "failed unusable", "began", "items a", "listed 14"];
    assert_eq!(steps(&mut watch, 8).await, expected);
    assert_eq!(asked_for_protobuf(&server), [true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_rejects_the_accept_header_is_asked_for_json() {
    for code in [406, 415] {
        let refusal = move || Reply::status(code, "only the following media types are accepted", "{}");
        let server = Server::replying([refusal(), list(10, &["a"])]);
        let mut watch = watch(&server);
        assert_eq!(steps(&mut watch, 3).await, ["began", "items a", "listed 10"]);
        assert_eq!(kinds(&server), ["list 0", "list 0"]);
        assert_eq!(asked_for_protobuf(&server), [true, false]);

        let server =
            Server::replying([protobuf_list(10, &[]), refusal(), Reply::stream([lines([&bookmark(12)])])]);
        let mut watch = self::watch(&server);
        assert_eq!(steps(&mut watch, 3).await, ["began", "listed 10", "bookmark 12"]);
        assert_eq!(asked_for_protobuf(&server), [true, true, false]);

        // In JSON, it is a refusal like any other.
        let server = Server::answering(move |_| refusal());
        let mut watch = self::watch(&server);
        assert_eq!(steps(&mut watch, 1).await, ["failed refused"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_truncated_list_does_not_switch_to_json() {
    let whole = encoder::list(&tree(10, "", &["a", "b"]));
    let server =
        Server::replying([of(whole[..whole.len() - 20].to_vec(), LIST), protobuf_list(10, &["a", "b"])]);
    let mut watch = watch(&server);
    assert_eq!(steps(&mut watch, 4).await, ["failed transient", "began", "items a,b", "listed 10"]);
    assert_eq!(asked_for_protobuf(&server), [true; 2]);
}

#[tokio::test(start_paused = true)]
async fn json_only_and_compression_can_be_configured() {
    let lists = |settings: ApiSettings| async {
        let server = Server::replying([list(10, &[])]);
        let mut watch =
            server.api_with(settings, WriteGate::open()).watch(widgets(), start(&HighWater::default()));
        steps(&mut watch, 2).await;
        let compression = server.seen()[0].header("accept-encoding").to_owned();
        (asked_for_protobuf(&server)[0], compression)
    };
    let default = ApiSettings::default;
    assert_eq!(lists(default()).await, (true, "identity".into()));
    assert_eq!(
        lists(ApiSettings { encoding: Encoding::Json, ..default() }).await,
        (false, "identity".into())
    );
    // Without a header of ours, the underlying client adds its own.
    assert_eq!(lists(ApiSettings { compressed_lists: true, ..default() }).await, (true, String::new()));
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
    let listed = api.list(&widgets(), None, |facts| names.push(facts.name.to_string())).await;
    assert_eq!(listed.unwrap_err().class, ErrorClass::Refused);
    assert_eq!(names, ["a", "b"]);
    assert_eq!(asked_for_protobuf(&server), [true, true, false, false]);
    let pages: Vec<String> =
        server.seen().iter().filter_map(|seen| seen.query("continue").map(str::to_owned)).collect();
    assert_eq!(pages, ["t", "t", "u"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_in_protobuf_is_understood() {
    let status = json!({"message": "no way", "code": 403});
    let body = encoder::typed("v1", "Status", &encoder::status(&status));
    let server = Server::replying([of(body, LIST).with_code(403)]);
    let mut watch = watch(&server);
    let Some(Step::Failed { error, .. }) = watch.next().await else { panic!("no failure") };
    assert_eq!((error.class, &*error.message), (ErrorClass::Denied, "no way"));
}
