//! The `Accept` headers of requests.
//!
//! The server takes the first media type that it knows. All but the last ask for metadata
//! only; the last is for servers that can only send whole objects.

use kube_gc_decode::Encoding;

pub(super) const JSON: &str = "application/json";

/// One object's metadata, or the whole object.
pub(super) const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// A list of metadata, or of whole objects.
pub(super) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The `Accept` header of a watch.
pub(super) const fn watch_accept(preferred: Encoding) -> &'static str {
    match preferred {
        Encoding::Json => METADATA,
        Encoding::Protobuf => {
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        }
    }
}

/// The `Accept` header of a list.
pub(super) const fn list_accept(preferred: Encoding) -> &'static str {
    match preferred {
        Encoding::Json => METADATA_LIST,
        Encoding::Protobuf => {
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        }
    }
}
