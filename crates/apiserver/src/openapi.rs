//! Empty OpenAPI documents.
//!
//! Some clients read the document before they send a request. They leave the validation of types
//! that it does not describe to the server.

use bytes::Bytes;
use serde_json::{Value, json};

use super::reply::{Body, Reply};

/// The content type of answers. Requests have an `@` in place of the second dot, which is no valid
/// media type.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const TITLE: &str = "Kubernetes";

/// `/openapi/v2`.
pub(super) fn v2(accept: &str, version: &str) -> Reply {
    if !accept.contains("proto-openapi") {
        return Reply::json(
            200,
            json!({"swagger": "2.0", "info": {"title": TITLE, "version": version}, "paths": {}}),
        );
    }
    let info = [field(1, TITLE.as_bytes()), field(2, version.as_bytes())].concat();
    let paths = field(8, &[]);
    let document = [field(1, b"2.0"), field(2, &info), paths].concat();
    Reply { code: 200, body: Body::Written(Bytes::from(document), PROTOBUF) }
}

/// `/openapi/v3`: the list of documents, one for each group and version.
pub(super) fn v3() -> Value {
    json!({"paths": {}})
}

/// A length-delimited field of a protobuf message. The number and the length must fit into one byte
/// each.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    const LENGTH_DELIMITED: u8 = 2;
    let length = u8::try_from(content.len()).unwrap_or(u8::MAX);
    debug_assert!(number < 16 && length < 128, "the number and the length fit into one byte");
    [&[number << 3 | LENGTH_DELIMITED, length][..], content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_openapi_document_is_readable_by_kubectl() {
        let Body::Written(bytes, content_type) = v2(PROTOBUF, "v1").body else { panic!("no protobuf") };
        assert_eq!(content_type, PROTOBUF);
        assert_eq!(&*bytes, b"\x0a\x032.0\x12\x10\x0a\x0aKubernetes\x12\x02v1\x42\x00");
        let Body::Json(document, _) = v2("application/json", "v1").body else { panic!("no JSON") };
        assert_eq!(document["swagger"], "2.0");
    }
}
