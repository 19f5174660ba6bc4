//! What is left in a namespace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use kube_gc_core::object::{DeletionState, Identity};

use super::finalizers::FinalizerReport;
use super::name::{ObjectName, Unseen};

/// What is known of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceContents {
    /// All objects in it that could be listed.
    pub objects: Vec<(Identity, DeletionState)>,
    /// What the namespace controller says.
    pub conditions: Vec<NamespaceCondition>,
    /// Parts of the API that do not answer. A namespace only goes after all of them have.
    pub silent_apis: Vec<Unseen>,
}

/// A condition of a namespace that is true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceCondition {
    pub kind: String,
    pub message: String,
}

/// What is left in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceReport {
    /// The number of objects that are left.
    pub left: usize,
    /// How many of them are being deleted.
    pub being_deleted: usize,
    pub by_type: Vec<TypeLeft>,
    /// The finalizers that hold objects, those of most objects first.
    pub held: Vec<HeldObjects>,
    /// How many objects were not read, because there are too many.
    pub not_read: usize,
    pub conditions: Vec<NamespaceCondition>,
    pub silent_apis: Vec<Unseen>,
}

impl NamespaceReport {
    /// Whether one finalizer holds everything, and nothing else keeps the namespace.
    pub(super) fn is_held_by_one(&self) -> bool {
        // These conditions say that something is left, and not why.
        let says_what_is_left = |condition: &NamespaceCondition| {
            matches!(&*condition.kind, "NamespaceContentRemaining" | "NamespaceFinalizersRemaining")
        };
        matches!(&self.held[..], [only] if only.count == self.left)
            && self.silent_apis.is_empty()
            && self.conditions.iter().all(says_what_is_left)
    }
}

/// The objects of one type that are left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TypeLeft {
    pub kind: String,
    /// Resource and group as kubectl writes them.
    pub resource: String,
    pub count: usize,
}

/// The objects that one finalizer holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldObjects {
    pub finalizer: FinalizerReport,
    /// When whoever set it did so first on one of them, as far as that was read.
    pub first_set: Option<String>,
    /// When the same manager last wrote any object of the namespace, as far as that was read.
    pub last_write: Option<String>,
    pub count: usize,
    /// The first of them.
    pub objects: Vec<ObjectName>,
}
