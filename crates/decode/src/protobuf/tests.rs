use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::encoder::{field, frame, list, status, typed};
use crate::fuzzing::{Event, read_watch};
use crate::testing::objects::{event, object};
use crate::{Decoded, Encoding, Envelope, ListReader};
use kube_gc_core::object::{ObjectFacts, ResourceVersion};

type ListMeta = (Vec<Option<ObjectFacts>>, Envelope);

fn read(encoding: Encoding, body: &[u8], cut: usize) -> Result<ListMeta, String> {
    let mut reader = ListReader::new(encoding);
    let mut items = Vec::new();
    for chunk in body.chunks(cut) {
        reader.feed(chunk, &mut |item| {
            items.push(Decoded::read(encoding, item)?.object);
            Ok(())
        })?;
    }
    Ok((items, reader.finish()?))
}

fn error(body: &[u8]) -> String {
    read(Encoding::Protobuf, body, usize::MAX).unwrap_err()
}

fn events(encoding: Encoding, body: &[u8]) -> Vec<Result<Event, String>> {
    read_watch(encoding, body, body.len())
}

fn line(event: &Value) -> Vec<u8> {
    format!("{event}\n").into_bytes()
}

fn pod() -> Value {
    json!({"metadata": {
        "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "v", "controller": true}],
        "finalizers": ["foregroundDeletion", "x.io/y"], "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 30, "labels": {"a": "b"},
    }})
}

proptest! {
    #[test]
    fn a_list_in_protobuf_equals_its_json(
        items in prop::collection::vec(object(), 0..6),
        version in prop_oneof![Just("12"), Just("")],
        next in "[a-z]{0,3}",
        cut in 1_usize..400,
    ) {
        let metadata = json!({"resourceVersion": version, "continue": next});
        let tree = json!({"kind": "PartialObjectMetadataList", "metadata": metadata, "items": items});
        let expected = read(Encoding::Json, tree.to_string().as_bytes(), usize::MAX);
        prop_assert!(expected.is_ok());
        prop_assert_eq!(read(Encoding::Protobuf, &list(&tree), cut), expected);
    }

    #[test]
    fn an_event_in_protobuf_equals_its_json(event in event()) {
        let expected = events(Encoding::Json, &line(&event));
        prop_assert_eq!(expected.len(), 1);
        prop_assert_eq!(events(Encoding::Protobuf, &frame(&event)), expected);
    }

    #[test]
    fn no_prefix_of_a_list_is_a_valid_list(items in prop::collection::vec(object(), 0..3), cut in 0_usize..2000) {
        let body = list(&json!({"metadata": {"resourceVersion": "5"}, "items": items}));
        // Two empty fields come after the list.
        let cut = cut % (body.len() - 4);
        prop_assert!(read(Encoding::Protobuf, &body[..cut], 50).is_err());
    }

    #[test]
    fn texts_are_those_of_gos_json(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0xe0_u8..0xf8], 0..12)) {
        // Like Go, replaces invalid bytes one by one.
        let mut expected = String::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let length = (1..=rest.len().min(4)).find(|length| std::str::from_utf8(&rest[..*length]).is_ok());
            expected += length.map_or("\u{fffd}", |length| std::str::from_utf8(&rest[..length]).unwrap());
            rest = &rest[length.unwrap_or(1)..];
        }
        prop_assert_eq!(string(bytes), expected);
    }
}

#[test]
fn errors_in_a_watch_equal_their_json() {
    let details = json!({
        "name": "n", "group": "g", "kind": "k", "retryAfterSeconds": 3,
        "causes": [{"reason": "ResourceVersionTooLarge", "field": "f"}],
    });
    for object in [
        json!({"message": "too old", "reason": "Expired", "code": 410}),
        json!({"message": "Timeout", "reason": "Timeout", "code": 504, "details": details}),
    ] {
        let event = json!({"type": "ERROR", "object": object});
        let expected = events(Encoding::Json, &line(&event));
        assert!(matches!(&*expected, [Ok(Event::Other(DecodedEvent::Error(status)))] if status.code > 400));
        assert_eq!(events(Encoding::Protobuf, &frame(&event)), expected);
        let body = typed("v1", "Status", &status(&object));
        let Some(Ok(Event::Other(DecodedEvent::Error(expected)))) = expected.first().cloned() else {
            unreachable!()
        };
        assert_eq!(Status::read(Encoding::Protobuf, &body), expected);
    }
    assert_eq!(Status::read(Encoding::Protobuf, b"{}"), Status::default());
}

#[test]
fn the_version_is_known_before_the_items() {
    let body = list(&json!({"metadata": {"resourceVersion": "5"}, "items": [pod()]}));
    let mut reader = ListReader::new(Encoding::Protobuf);
    reader.feed(&body[..body.len() - 50], &mut |_| panic!("an item that has not come")).unwrap();
    assert_eq!(reader.preview().unwrap().resource_version, Some(ResourceVersion::number(5)));
}

#[test]
fn other_messages_are_no_lists_of_metadata() {
    let of = |api_version: &str, kind: &str| typed(api_version, kind, &field(1, &field(2, b"5")));
    assert!(read(Encoding::Protobuf, &of("meta.k8s.io/v1", "PartialObjectMetadataList"), 9).is_ok());
    for body in [
        of("v1", "PodList"),
        of("v1", "PartialObjectMetadataList"),
        of("meta.k8s.io/v1", "PartialObjectMetadata"),
        of("v1", "Status"),
    ] {
        assert_eq!(error(&body), "the response is not a list of metadata");
    }
    assert_eq!(
        error(br#"{"kind":"PodList","items":[]}"#),
        "malformed protobuf: the message does not begin with Kubernetes' prefix"
    );
    assert_eq!(error(b""), "the list is cut off");
    let empty = typed("meta.k8s.io/v1", "PartialObjectMetadataList", b"");
    assert_eq!(error(&empty), "the list has no metadata");
}

#[test]
fn a_declared_length_is_not_trusted() {
    // A list of four gigabytes with an item of one: nothing is set aside for it.
    let mut body = typed("meta.k8s.io/v1", "PartialObjectMetadataList", b"");
    body.truncate(body.len() - 6);
    body.extend([2 << 3 | 2, 0xff, 0xff, 0xff, 0xff, 0x0f, 2 << 3 | 2, 0xff, 0xff, 0xff, 0xff, 0x03]);
    assert_eq!(error(&body), "a part of the list is longer than 16777216 bytes");
}

#[test]
fn at_most_one_item_is_buffered() {
    let items: Vec<Value> = (0..10_000)
        .map(|number| json!({"metadata": {"name": format!("o{number}"), "uid": "u", "labels": {"a": "b".repeat(300)}}}))
        .collect();
    let body = list(&json!({"metadata": {"resourceVersion": "5"}, "items": items}));
    assert!(body.len() > 3_000_000);
    let mut parser = ListParser::default();
    let mut seen = 0;
    for chunk in body.chunks(100) {
        let on_item = &mut |_: &[u8]| {
            seen += 1;
            Ok(())
        };
        parser.feed(chunk, on_item).unwrap();
        assert!(parser.buffer.capacity() < 2000, "{} bytes are held", parser.buffer.capacity());
    }
    assert_eq!(seen, 10_000);
    assert_eq!(parser.finish().unwrap().resource_version, Some(ResourceVersion::number(5)));
}
