//! Kubernetes' protobuf encoding of the objects that `kubectl create namespace`, `configmap`,
//! `secret` and `serviceaccount` send. kubectl uses it for no others.
//!
//! All other messages are rejected as if protobuf were not supported. Clients that can choose fall
//! back on JSON, and no object is stored incompletely.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The prefix of such messages.
const MAGIC: &[u8] = b"k8s\0";

/// The metadata field of every object.
const METADATA: u64 = 1;

/// The maximum depth at which unknown fields are checked for content. Below that they count as
/// content.
const NESTED: usize = 4;

/// Decodes a message if it contains a known type only.
pub(super) fn read(body: &[u8]) -> Option<Value> {
    let envelope = Message::read(body.strip_prefix(MAGIC)?)?;
    let kind = Message::read(envelope.bytes(1)?)?;
    let (api_version, kind) = (kind.text(1)?, kind.text(2)?);
    let object = Message::read(envelope.bytes(2)?)?;
    let understood: &[u64] = match (api_version, kind) {
        ("v1", "Namespace" | "ServiceAccount") => &[METADATA],
        ("v1", "ConfigMap") => &[METADATA, 2, 3],
        ("v1", "Secret") => &[METADATA, 2, 3, 4],
        _ => return None,
    };
    if object.says_more_than(understood) {
        return None;
    }
    let mut value = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata(&object)?});
    match (api_version, kind) {
        ("v1", "Namespace" | "ServiceAccount") => {}
        ("v1", "ConfigMap") => {
            set(&mut value, "data", object.map(2, text)?);
            set(&mut value, "binaryData", object.map(3, encoded)?);
        }
        ("v1", "Secret") => {
            set(&mut value, "data", object.map(2, encoded)?);
            set(&mut value, "type", object.text(3).unwrap_or_default().into());
            set(&mut value, "stringData", object.map(4, text)?);
        }
        _ => return None,
    }
    Some(value)
}

fn metadata(object: &Message<'_>) -> Option<Value> {
    let mut value = json!({});
    let Some(metadata) = object.bytes(METADATA) else { return Some(value) };
    let metadata = Message::read(metadata)?;
    for (number, field) in
        [(1, "name"), (2, "generateName"), (3, "namespace"), (5, "uid"), (6, "resourceVersion")]
    {
        set(&mut value, field, metadata.text(number).unwrap_or_default().into());
    }
    set(&mut value, "labels", metadata.map(11, text)?);
    set(&mut value, "annotations", metadata.map(12, text)?);
    let owners: Option<Vec<Value>> = metadata.all(13).map(owner).collect();
    set(&mut value, "ownerReferences", owners?.into());
    let finalizers: Option<Vec<Value>> = metadata.all(14).map(text).collect();
    set(&mut value, "finalizers", finalizers?.into());
    Some(value)
}

fn owner(bytes: &[u8]) -> Option<Value> {
    let owner = Message::read(bytes)?;
    let mut value = json!({});
    for (number, field) in [(5, "apiVersion"), (1, "kind"), (3, "name"), (4, "uid")] {
        value[field] = owner.text(number).unwrap_or_default().into();
    }
    for (number, field) in [(6, "controller"), (7, "blockOwnerDeletion")] {
        if let Some(flag) = owner.number(number) {
            value[field] = (flag != 0).into();
        }
    }
    Some(value)
}

/// Sets a field, unless the value is empty.
fn set(value: &mut Value, field: &str, content: Value) {
    let empty = match &content {
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if !empty {
        value[field] = content;
    }
}

fn text(bytes: &[u8]) -> Option<Value> {
    std::str::from_utf8(bytes).ok().map(Value::from)
}

#[expect(clippy::unnecessary_wraps, reason = "has the signature of functions that can fail")]
fn encoded(bytes: &[u8]) -> Option<Value> {
    Some(STANDARD.encode(bytes).into())
}

/// The fields of a message, in order.
struct Message<'a>(Vec<(u64, Field<'a>)>);

#[derive(Clone, Copy)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Message<'a> {
    fn read(mut rest: &'a [u8]) -> Option<Self> {
        let mut fields = Vec::new();
        while !rest.is_empty() {
            let tag = number(&mut rest)?;
            let field = match tag & 7 {
                0 => Field::Number(number(&mut rest)?),
                1 => Field::Bytes(take(&mut rest, 8)?),
                2 => {
                    let length = number(&mut rest)?;
                    Field::Bytes(take(&mut rest, usize::try_from(length).ok()?)?)
                }
                5 => Field::Bytes(take(&mut rest, 4)?),
                _ => return None,
            };
            fields.push((tag >> 3, field));
        }
        Some(Self(fields))
    }

    fn all(&self, number: u64) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter_map(move |(of, field)| match field {
            Field::Bytes(bytes) if *of == number => Some(*bytes),
            _ => None,
        })
    }

    /// Whether any other field has content. kubectl also writes empty messages with empty texts and
    /// zeros.
    fn says_more_than(&self, fields: &[u64]) -> bool {
        self.0.iter().any(|(number, field)| {
            let says = match field {
                Field::Number(_) => true,
                Field::Bytes(bytes) => !is_unset(bytes, NESTED),
            };
            says && !fields.contains(number)
        })
    }

    fn bytes(&self, number: u64) -> Option<&'a [u8]> {
        self.all(number).last()
    }

    fn text(&self, number: u64) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(number)?).ok()
    }

    fn number(&self, number: u64) -> Option<u64> {
        self.0.iter().rev().find_map(|(of, field)| match field {
            Field::Number(value) if *of == number => Some(*value),
            _ => None,
        })
    }

    /// A map is a list of messages, each with a key and a value.
    fn map(&self, number: u64, value: fn(&[u8]) -> Option<Value>) -> Option<Value> {
        let mut map = Map::new();
        for entry in self.all(number) {
            let entry = Message::read(entry)?;
            let key = entry.text(1).unwrap_or_default().to_owned();
            map.insert(key, value(entry.bytes(2).unwrap_or_default())?);
        }
        Some(map.into())
    }
}

/// Whether a message has no content, up to this depth.
fn is_unset(bytes: &[u8], levels: usize) -> bool {
    let unset = |(_, field): &(u64, Field<'_>)| match field {
        Field::Number(number) => *number == 0,
        Field::Bytes(bytes) => bytes.is_empty() || levels > 0 && is_unset(bytes, levels - 1),
    };
    Message::read(bytes).is_some_and(|message| message.0.iter().all(unset))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let [byte] = take(rest, 1)? else { return None };
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()][..], content].concat()
    }

    fn message(kind: &str, object: &[u8]) -> Vec<u8> {
        let kind = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &kind), field(2, object), field(3, b""), field(4, b"")].concat()
    }

    #[test]
    fn objects_that_kubectl_creates_are_decoded() {
        let owner =
            [field(1, b"Pod"), field(3, b"p"), field(4, b"u"), field(5, b"v1"), vec![6 << 3, 0, 7 << 3, 1]];
        let metadata = [
            field(1, b"settings"),
            field(8, b""),
            field(11, &[field(1, b"app"), field(2, b"web")].concat()),
            field(13, &owner.concat()),
            field(14, b"example.com/held"),
        ];
        let data = [field(1, b"a"), field(2, b"b")].concat();
        let object = [field(1, &metadata.concat()), field(2, &data)].concat();
        assert_eq!(
            read(&message("ConfigMap", &object)),
            Some(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "name": "settings",
                    "labels": {"app": "web"},
                    "ownerReferences": [{
                        "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u",
                        "controller": false, "blockOwnerDeletion": true,
                    }],
                    "finalizers": ["example.com/held"],
                },
                "data": {"a": "b"},
            }))
        );
        assert_eq!(read(&message("Secret", &object)).unwrap()["data"], json!({"a": "Yg=="}));
    }

    #[test]
    fn unknown_types_are_not_decoded() {
        assert_eq!(read(&message("Pod", b"")), None);
        assert_eq!(read(b"k8s\0\xff\xff"), None);
        assert_eq!(read(b"{}"), None);
    }

    #[test]
    fn partially_known_fields_are_not_decoded() {
        // As kubectl sends it: no finalizers and an empty phase.
        let nothing = [field(2, b""), field(3, &field(1, b""))].concat();
        assert!(read(&message("Namespace", &nothing)).is_some());
        let held = field(2, &field(1, b"example.com/held"));
        assert_eq!(read(&message("Namespace", &held)), None, "the finalizers of its spec would be lost");
        let immutable = vec![4 << 3, 1];
        assert_eq!(read(&message("ConfigMap", &immutable)), None);
        assert_eq!(read(&message("ServiceAccount", &field(2, b"secret"))), None);
    }
}
