//! `DeleteOptions`, as JSON and as protobuf.

use serde::Serialize;

use crate::api::media_type::JSON;
use kube_gc_core::object::{PropagationPolicy, ResourceVersion, Uid};
use kube_gc_decode::{Encoding, PROTOBUF, PROTOBUF_MAGIC};

/// The body of a DELETE.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOptions<'a> {
    kind: &'static str,
    api_version: &'static str,
    propagation_policy: PropagationPolicy,
    preconditions: Preconditions<'a>,
}

/// The preconditions of a DELETE.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<&'a Uid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<&'a ResourceVersion>,
}

impl<'a> DeleteOptions<'a> {
    pub const fn new(policy: PropagationPolicy, preconditions: Preconditions<'a>) -> Self {
        Self { kind: "DeleteOptions", api_version: "v1", propagation_policy: policy, preconditions }
    }

    /// Content type and body.
    ///
    /// # Errors
    /// The options cannot be serialized.
    pub fn write(&self, encoding: Encoding) -> Result<(&'static str, Vec<u8>), serde_json::Error> {
        Ok(match encoding {
            Encoding::Json => (JSON, serde_json::to_vec(self)?),
            Encoding::Protobuf => (PROTOBUF, self.protobuf()),
        })
    }

    /// The field numbers come from `generated.proto` in
    /// `k8s.io/apimachinery/pkg/apis/meta/v1` and `pkg/runtime`.
    fn protobuf(&self) -> Vec<u8> {
        let Self { kind, api_version, propagation_policy, preconditions } = self;
        let mut conditions = Vec::new();
        if let Some(uid) = preconditions.uid {
            put(&mut conditions, 1, uid.to_string().as_bytes());
        }
        if let Some(version) = preconditions.resource_version {
            put(&mut conditions, 2, version.to_string().as_bytes());
        }
        let mut options = Vec::new();
        put(&mut options, 2, &conditions);
        put(&mut options, 4, propagation_policy.as_str().as_bytes());
        let mut typed = Vec::new();
        put(&mut typed, 1, api_version.as_bytes());
        put(&mut typed, 2, kind.as_bytes());
        let mut message = PROTOBUF_MAGIC.to_vec();
        put(&mut message, 1, &typed);
        put(&mut message, 2, &options);
        message
    }
}

/// Appends a length-delimited field: a string or a message.
fn put(message: &mut Vec<u8>, number: u8, content: &[u8]) {
    const LENGTH_DELIMITED: u8 = 2;
    message.push(number << 3 | LENGTH_DELIMITED);
    let mut length = content.len();
    loop {
        let [lowest, ..] = length.to_le_bytes();
        length >>= 7;
        if length == 0 {
            message.push(lowest);
            break;
        }
        message.push(lowest | 0x80);
    }
    message.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(uid: Option<&str>, version: Option<u64>) -> Vec<u8> {
        let uid = uid.map(|uid| Uid::parse(uid).unwrap());
        let version = version.map(ResourceVersion::number);
        let preconditions = Preconditions { uid: uid.as_ref(), resource_version: version.as_ref() };
        let options = DeleteOptions::new(PropagationPolicy::Orphan, preconditions);
        let (content_type, body) = options.write(Encoding::Protobuf).unwrap();
        assert_eq!(content_type, "application/vnd.kubernetes.protobuf");
        body
    }

    const TYPED: &[u8] = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions";

    #[test]
    fn uid_version_and_policy_are_encoded_as_kubernetes_expects() {
        let options = b"\x12\x10\x12\x06\x0a\x01u\x12\x017\x22\x06Orphan";
        assert_eq!(write(Some("u"), Some(7)), [TYPED, options].concat());
        let options = b"\x12\x0d\x12\x03\x0a\x01u\x22\x06Orphan";
        assert_eq!(write(Some("u"), None), [TYPED, options].concat());
        let options = b"\x12\x0d\x12\x03\x12\x017\x22\x06Orphan";
        assert_eq!(write(None, Some(7)), [TYPED, options].concat());
    }

    #[test]
    fn a_length_has_as_many_bytes_as_it_needs() {
        let uid = "u".repeat(300);
        let options = [b"\x12\xba\x02\x12\xaf\x02\x0a\xac\x02", uid.as_bytes(), b"\x22\x06Orphan"].concat();
        assert_eq!(write(Some(&uid), None), [TYPED, &options].concat());
    }
}
