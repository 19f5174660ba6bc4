//! What can be wrong with an owner reference, and what follows from it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::name::ObjectName;

/// What is wrong with an owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The owner does not exist, and no known object has its uid.
    Absent,
    /// The owner's name belongs to another object now.
    Recreated,
    /// The object with this uid is in another namespace.
    OtherNamespace,
    /// The object with this uid has another name.
    OtherName,
    /// The object with this uid is of another kind.
    OtherKind,
    /// The server does not serve the kind, or that part of the API does not answer.
    Unresolved,
    /// The server serves the kind, but not in this version of its group.
    UnservedVersion,
    /// The object is cluster-scoped, and the owner's kind is namespaced.
    InvalidScope,
    /// Different objects, or references to different objects, have one uid.
    Collision,
    /// An earlier reference names the same owner.
    Duplicate,
    /// The object names itself.
    #[serde(rename = "self")]
    Itself,
    /// The object is in a circle of objects that own each other.
    Ring,
}

impl Class {
    pub const ALL: [Self; 12] = [
        Self::Absent,
        Self::Recreated,
        Self::OtherNamespace,
        Self::OtherName,
        Self::OtherKind,
        Self::Unresolved,
        Self::UnservedVersion,
        Self::InvalidScope,
        Self::Collision,
        Self::Duplicate,
        Self::Itself,
        Self::Ring,
    ];

    /// For people. JSON has the same words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Recreated => "recreated",
            Self::OtherNamespace => "other_namespace",
            Self::OtherName => "other_name",
            Self::OtherKind => "other_kind",
            Self::Unresolved => "unresolved",
            Self::UnservedVersion => "unserved_version",
            Self::InvalidScope => "invalid_scope",
            Self::Collision => "collision",
            Self::Duplicate => "duplicate",
            Self::Itself => "self",
            Self::Ring => "ring",
        }
    }
}

/// What follows for an object from all of its references, by the collector's verdict. The worst
/// comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckEffect {
    /// The collector deletes the object.
    Deletes,
    /// The collector never decides about the object, so it stays when its owners are gone.
    Leaks,
    /// The verdict depends on an owner that could not be looked at.
    Unknown,
    /// The object stays. The collector may remove references from it.
    Odd,
}

impl CheckEffect {
    pub const ALL: [Self; 4] = [Self::Deletes, Self::Leaks, Self::Unknown, Self::Odd];

    /// For people. JSON has the same words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deletes => "deletes",
            Self::Leaks => "leaks",
            Self::Unknown => "unknown",
            Self::Odd => "odd",
        }
    }
}

/// An owner reference with which something is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Of the object, not of this reference alone.
    pub effect: CheckEffect,
    pub class: Class,
    pub object: ObjectName,
    /// The owner as the reference names it.
    pub owner: ObjectName,
    /// What the reference may mean: the object that has its uid, or else its name.
    pub found: Option<ObjectName>,
    /// An `apiVersion` in which the server serves the owner's kind, if not in the reference's.
    pub served_as: Option<String>,
    /// What a person can do.
    pub hint: String,
    /// The place among the object's references.
    #[serde(skip)]
    pub place: usize,
}

impl Finding {
    /// The order in which findings are shown.
    pub(super) fn rank(&self) -> impl Ord + '_ {
        let ObjectName { namespace, kind, name, uid, .. } = &self.object;
        (self.effect, namespace, kind, name, uid, self.place, self.class)
    }
}
