//! Kubernetes' protobuf encoding of the objects that `kubectl create namespace`, `configmap`,
//! `secret` and `serviceaccount` send. kubectl uses it for no others.
//!
//! All other messages are rejected as if protobuf were not supported. Clients that can choose fall
//! back on JSON.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use serde_json::{Value, json};

pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The prefix of such messages.
const MAGIC: &[u8] = b"k8s\0";

#[derive(Message)]
struct Envelope {
    #[prost(message, optional, tag = "1")]
    of: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    object: Vec<u8>,
}

#[derive(Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

/// A Namespace or a ServiceAccount.
#[derive(Message)]
struct Plain {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(bytes = "vec", tag = "2")]
    rest: Vec<u8>,
}

#[derive(Message)]
struct ConfigMap {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(btree_map = "string, string", tag = "2")]
    data: BTreeMap<String, String>,
    #[prost(btree_map = "string, bytes", tag = "3")]
    binary_data: BTreeMap<String, Vec<u8>>,
    #[prost(bool, optional, tag = "4")]
    immutable: Option<bool>,
}

#[derive(Message)]
struct Secret {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(btree_map = "string, bytes", tag = "2")]
    data: BTreeMap<String, Vec<u8>>,
    #[prost(string, tag = "3")]
    r#type: String,
    #[prost(btree_map = "string, string", tag = "4")]
    string_data: BTreeMap<String, String>,
    #[prost(bool, optional, tag = "5")]
    immutable: Option<bool>,
}

#[derive(Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    generate_name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    annotations: BTreeMap<String, String>,
    #[prost(bytes = "vec", repeated, tag = "13")]
    owner_references: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "14")]
    finalizers: Vec<Vec<u8>>,
}

impl Metadata {
    fn to_value(&self) -> Value {
        let Self { name, generate_name, namespace, labels, annotations, .. } = self;
        json!({
            "name": name, "generateName": generate_name, "namespace": namespace,
            "labels": labels, "annotations": annotations,
        })
    }
}

/// Decodes a message if it contains one of these objects, and nothing that would be lost.
pub(super) fn read(body: &[u8]) -> Option<Value> {
    let Envelope { of: Some(of), object } = Envelope::decode(body.strip_prefix(MAGIC)?).ok()? else {
        return None;
    };
    let encoded = |data: BTreeMap<String, Vec<u8>>| -> BTreeMap<String, String> {
        data.into_iter().map(|(key, value)| (key, STANDARD.encode(value))).collect()
    };
    let (mut value, metadata) = match (&*of.api_version, &*of.kind) {
        ("v1", "Namespace" | "ServiceAccount") => {
            let object = Plain::decode(&*object).ok().filter(|object| object.rest.is_empty())?;
            (json!({}), object.metadata)
        }
        ("v1", "ConfigMap") => {
            let object = ConfigMap::decode(&*object).ok()?;
            let binary = encoded(object.binary_data);
            let value = json!({"data": object.data, "binaryData": binary, "immutable": object.immutable});
            (value, object.metadata)
        }
        ("v1", "Secret") => {
            let object = Secret::decode(&*object).ok()?;
            let value = json!({
                "data": encoded(object.data), "type": object.r#type, "stringData": object.string_data,
                "immutable": object.immutable,
            });
            (value, object.metadata)
        }
        _ => return None,
    };
    let metadata = metadata.unwrap_or_default();
    if !metadata.owner_references.is_empty() || !metadata.finalizers.is_empty() {
        return None;
    }
    if let Some(fields) = value.as_object_mut() {
        let empty = |content: &Value| content.as_object().is_some_and(serde_json::Map::is_empty);
        fields.retain(|_, content| !content.is_null() && *content != "" && !empty(content));
    }
    value["apiVersion"] = of.api_version.into();
    value["kind"] = of.kind.into();
    value["metadata"] = metadata.to_value();
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, object: Vec<u8>) -> Vec<u8> {
        let of = TypeMeta { api_version: "v1".to_owned(), kind: kind.to_owned() };
        [MAGIC.to_vec(), Envelope { of: Some(of), object }.encode_to_vec()].concat()
    }

    #[test]
    fn objects_that_kubectl_creates_are_decoded() {
        let metadata = Metadata {
            name: "settings".to_owned(),
            labels: BTreeMap::from([("app".to_owned(), "web".to_owned())]),
            ..Metadata::default()
        };
        let data = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let object = ConfigMap { metadata: Some(metadata), data, ..ConfigMap::default() }.encode_to_vec();
        let read_back = read(&message("ConfigMap", object.clone())).unwrap();
        assert_eq!(read_back["data"], json!({"a": "b"}));
        assert_eq!(read_back["metadata"]["labels"], json!({"app": "web"}));
        assert_eq!((&read_back["kind"], &read_back["binaryData"]), (&json!("ConfigMap"), &Value::Null));
        assert_eq!(read(&message("Secret", object.clone())).unwrap()["data"], json!({"a": "Yg=="}));
        assert_eq!(read(&message("Pod", object)), None);
        assert_eq!(read(b"k8s\0\xff\xff"), None);
        assert_eq!(read(b"{}"), None);
    }
}
