//! Kubernetes' protobuf encoding of the objects that `kubectl create namespace`, `configmap`, `secret` and
//! `serviceaccount` send. kubectl uses it for no others.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use serde::Serialize;
use serde_json::Value;

pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The prefix of such messages.
const MAGIC: &[u8] = b"k8s\0";

#[derive(Message)]
struct Envelope {
    #[prost(message, required, tag = "1")]
    of: TypeMeta,
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

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
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
    #[serde(skip)]
    owner_references: Vec<Vec<u8>>,
    #[prost(string, repeated, tag = "14")]
    finalizers: Vec<String>,
}

/// A Namespace or a ServiceAccount.
#[derive(Message, Serialize)]
struct Plain {
    #[prost(message, required, tag = "1")]
    metadata: Metadata,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(skip)]
    rest: Vec<u8>,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigMap {
    #[prost(message, required, tag = "1")]
    metadata: Metadata,
    #[prost(btree_map = "string, string", tag = "2")]
    data: BTreeMap<String, String>,
    #[prost(btree_map = "string, bytes", tag = "3")]
    #[serde(serialize_with = "encoded")]
    binary_data: BTreeMap<String, Vec<u8>>,
    #[prost(bool, optional, tag = "4")]
    immutable: Option<bool>,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Secret {
    #[prost(message, required, tag = "1")]
    metadata: Metadata,
    #[prost(btree_map = "string, bytes", tag = "2")]
    #[serde(serialize_with = "encoded")]
    data: BTreeMap<String, Vec<u8>>,
    #[prost(string, tag = "3")]
    r#type: String,
    #[prost(btree_map = "string, string", tag = "4")]
    string_data: BTreeMap<String, String>,
    #[prost(bool, optional, tag = "5")]
    immutable: Option<bool>,
}

/// In JSON, binary values are base64.
fn encoded<S: serde::Serializer>(data: &BTreeMap<String, Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(data.iter().map(|(key, value)| (key, STANDARD.encode(value))))
}

/// Decodes a message if it contains one of these objects, and nothing that would be lost.
pub(super) fn read(body: &[u8]) -> Option<Value> {
    let Envelope { of, object } = Envelope::decode(body.strip_prefix(MAGIC)?).ok()?;
    let (value, metadata) = match (&*of.api_version, &*of.kind) {
        ("v1", "Namespace" | "ServiceAccount") => {
            let object = Plain::decode(&*object).ok().filter(|object| object.rest.is_empty())?;
            (serde_json::to_value(&object), object.metadata)
        }
        ("v1", "ConfigMap") => {
            let object = ConfigMap::decode(&*object).ok()?;
            (serde_json::to_value(&object), object.metadata)
        }
        ("v1", "Secret") => {
            let object = Secret::decode(&*object).ok()?;
            (serde_json::to_value(&object), object.metadata)
        }
        _ => return None,
    };
    let mut value = value.ok().filter(|_| metadata.owner_references.is_empty())?;
    let empty = |content: &Value| content.as_object().is_some_and(serde_json::Map::is_empty);
    value.as_object_mut()?.retain(|_, content| !content.is_null() && *content != "" && !empty(content));
    value["apiVersion"] = of.api_version.into();
    value["kind"] = of.kind.into();
    Some(value)
}
