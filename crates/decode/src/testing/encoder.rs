//! Writing protobuf as API servers do: naively, of the JSON that says the same.

use serde_json::{Value, json};

/// A `PartialObjectMetadataList` of a list in JSON.
pub fn list(list: &Value) -> Vec<u8> {
    let metadata = [
        field(1, b""),
        text(2, &list["metadata"]["resourceVersion"]),
        text(3, &list["metadata"]["continue"]),
    ];
    let mut raw = field(1, &metadata.concat());
    for item in list["items"].as_array().into_iter().flatten() {
        raw.extend(field(2, &object(item)));
    }
    typed("meta.k8s.io/v1", "PartialObjectMetadataList", &raw)
}

/// A frame of an event in JSON.
pub fn frame(event: &Value) -> Vec<u8> {
    let (api_version, kind, raw) = match event["type"].as_str() {
        Some("ERROR") => ("v1", "Status", status(&event["object"])),
        _ => ("meta.k8s.io/v1", "PartialObjectMetadata", object(&event["object"])),
    };
    let embedded = field(1, &typed(api_version, kind, &raw));
    let frame = [text(1, &event["type"]), field(2, &embedded)].concat();
    // Nothing accepts a frame of this length.
    let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], &frame].concat()
}

/// A message with its type.
pub fn typed(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [text(1, &json!(api_version)), text(2, &json!(kind))].concat();
    [b"k8s\0".to_vec(), field(1, &meta), field(2, raw), field(3, b""), field(4, b"")].concat()
}

fn object(object: &Value) -> Vec<u8> {
    let of = &object["metadata"];
    // In the order of the numbers, what is not wanted included, and texts also when
    // they are empty: so does Go.
    let mut metadata = [
        text(1, &of["name"]),
        field(2, b""),
        text(3, &of["namespace"]),
        field(4, b""),
        text(5, &of["uid"]),
        text(6, &of["resourceVersion"]),
        number(7, 3),
        field(8, &[number(1, 1_767_225_600), number(2, 0)].concat()),
    ]
    .concat();
    if !of["deletionTimestamp"].is_null() {
        metadata.extend(field(9, &[number(1, 1_767_225_600), number(2, 0)].concat()));
    }
    if let Some(seconds) = of["deletionGracePeriodSeconds"].as_i64() {
        metadata.extend(number(10, seconds.cast_unsigned()));
    }
    for (number, map) in [(11, &of["labels"]), (12, &of["annotations"])] {
        for (key, value) in map.as_object().into_iter().flatten() {
            let content = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            metadata.extend(field(number, &[text(1, &json!(key)), field(2, content.as_bytes())].concat()));
        }
    }
    for owner in of["ownerReferences"].as_array().into_iter().flatten() {
        let mut reference = [
            text(1, &owner["kind"]),
            text(3, &owner["name"]),
            text(4, &owner["uid"]),
            text(5, &owner["apiVersion"]),
        ]
        .concat();
        for (at, flag) in [(6, "controller"), (7, "blockOwnerDeletion")] {
            if let Some(flag) = owner[flag].as_bool() {
                reference.extend(number(at, flag.into()));
            }
        }
        metadata.extend(field(13, &reference));
    }
    for finalizer in of["finalizers"].as_array().into_iter().flatten() {
        metadata.extend(text(14, finalizer));
    }
    metadata.extend(field(17, of["managedFields"].to_string().as_bytes()));
    field(1, &metadata)
}

/// A `Status`, without its type.
pub fn status(status: &Value) -> Vec<u8> {
    let of = &status["details"];
    let mut details = [text(1, &of["name"]), text(2, &of["group"]), text(3, &of["kind"])].concat();
    for cause in of["causes"].as_array().into_iter().flatten() {
        details.extend(field(4, &[text(1, &cause["reason"]), text(3, &cause["field"])].concat()));
    }
    details.extend(number(5, of["retryAfterSeconds"].as_u64().unwrap_or_default()));
    let code = number(6, status["code"].as_u64().unwrap_or_default());
    [
        text(2, &json!("Failure")),
        text(3, &status["message"]),
        text(4, &status["reason"]),
        field(5, &details),
        code,
    ]
    .concat()
}

fn text(number: u8, text: &Value) -> Vec<u8> {
    field(number, text.as_str().unwrap_or_default().as_bytes())
}

/// A field of bytes.
pub fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [varint(u64::from(number) << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

fn number(number: u8, value: u64) -> Vec<u8> {
    [varint(u64::from(number) << 3), varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
