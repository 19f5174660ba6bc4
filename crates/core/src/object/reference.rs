//! Owner references.

use std::sync::Arc;

use serde::Serialize;

use super::Uid;

/// One entry of `metadata.ownerReferences`, as written.
///
/// The API server checks neither that the owner exists nor its namespace or
/// scope, so nothing here may be taken for true before it is verified.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// Group and version of the owner's kind, as the writer knew it.
    pub api_version: Arc<str>,
    /// The owner's kind; may be written in all lower case.
    pub kind: Arc<str>,
    pub name: Arc<str>,
    pub uid: Uid,
    /// Whether this is the managing controller.
    pub controller: bool,
    /// Whether a foreground deletion of the owner waits for this dependent.
    pub block_owner_deletion: bool,
}
