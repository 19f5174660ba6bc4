//! Owner references.

use std::sync::Arc;

use serde::Serialize;

use super::Uid;

/// One entry of `metadata.ownerReferences`.
///
/// The API server checks neither that the owner exists nor its namespace or scope, so nothing here
/// is reliable before it is verified.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    pub api_version: Arc<str>,
    /// May be in lower case.
    pub kind: Arc<str>,
    pub name: Arc<str>,
    pub uid: Uid,
    /// Whether the owner is the managing controller.
    pub controller: bool,
    /// Whether a foreground deletion of the owner waits for this dependent.
    pub block_owner_deletion: bool,
}
