//! What is asked for: the `Accept` of each request.
//!
//! The server takes the first that it knows. Every clause but the last wants
//! metadata alone; the last is for servers that cannot cut it out.

use super::decode::Encoding;

/// Asks for JSON.
pub(super) const JSON: &str = "application/json";

/// Asks for one object's metadata; a server that cannot cut it out sends all.
pub(super) const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// Asks for a list of metadata; the same fallback.
pub(super) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// What to accept for the metadata of the objects in a watch.
pub(super) const fn watch_accept(preferred: Encoding) -> &'static str {
    match preferred {
        Encoding::Json => METADATA,
        Encoding::Protobuf => {
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        }
    }
}

/// What to accept for a list of metadata.
pub(super) const fn list_accept(preferred: Encoding) -> &'static str {
    match preferred {
        Encoding::Json => METADATA_LIST,
        Encoding::Protobuf => {
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        }
    }
}
