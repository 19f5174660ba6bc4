//! Owner references with which something is wrong.
//!
//! A [`Survey`] looks at all objects of a graph that lists have filled, and finds the few that may
//! have something wrong. [`check_object`] asks what is needed about each of them, which may take
//! live reads, and classifies its references. The effect of an object is the collector's verdict
//! on it.

mod object;
mod survey;

use serde::Serialize;
use strum::IntoStaticStr;

use crate::advice::Advice;
use crate::name::{ObjectName, Report};

pub use object::{CheckedObject, check_object};
pub use survey::{Circles, Survey, Suspect};

/// What is wrong with an owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, IntoStaticStr)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
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
    #[strum(serialize = "self")]
    Itself,
    /// The object is in a circle of objects that own each other.
    Ring,
}

/// What follows for an object from all of its references, by the collector's verdict. The worst
/// comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, IntoStaticStr)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum CheckEffect {
    /// The collector deletes the object.
    Deletes,
    /// The collector never decides about the object, so it stays when its owners are gone.
    Leaks,
    /// The verdict depends on an owner that could not be looked at.
    Unknown,
    /// An owner exists, which may go. The collector may remove references from the object.
    Odd,
}

/// An owner reference with which something is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
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
    /// What is known of the reference.
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

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CheckReport {
    /// The first findings, the worst first.
    pub findings: Vec<Finding>,
    /// The number of all findings.
    pub finding_count: usize,
    /// The number of objects that were looked at.
    pub objects: usize,
    /// The number of their owner references.
    pub references: usize,
    /// The number of references with findings.
    pub broken_references: usize,
    /// The number of objects with findings.
    pub broken_objects: EffectCounts,
}

/// A number of objects of each effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EffectCounts {
    pub deletes: usize,
    pub leaks: usize,
    pub unknown: usize,
    pub odd: usize,
}

impl Report for CheckReport {}

impl CheckReport {
    pub fn new(survey: &Survey) -> Self {
        Self { objects: survey.objects, references: survey.references, ..Self::default() }
    }

    /// Adds what is wrong with an object. The findings beyond the first `most` are only counted.
    pub fn add(&mut self, checked: CheckedObject, most: usize) {
        let CheckedObject { effect, findings, .. } = checked;
        if findings.is_empty() {
            return;
        }
        let mut places: Vec<usize> = findings.iter().map(|finding| finding.place).collect();
        places.sort_unstable();
        places.dedup();
        self.broken_references += places.len();
        self.finding_count += findings.len();
        *match effect {
            CheckEffect::Deletes => &mut self.broken_objects.deletes,
            CheckEffect::Leaks => &mut self.broken_objects.leaks,
            CheckEffect::Unknown => &mut self.broken_objects.unknown,
            CheckEffect::Odd => &mut self.broken_objects.odd,
        } += 1;
        self.findings.extend(findings);
        if self.findings.len() > most.saturating_mul(2) {
            self.keep_first(most);
        }
    }

    /// How to keep the objects that a collector deletes, or may delete.
    pub fn advice(&self) -> Option<String> {
        let mut objects = self.findings.iter().filter_map(|of| match (of.effect, of.class) {
            (CheckEffect::Deletes | CheckEffect::Unknown, _)
            | (CheckEffect::Leaks, Class::Unresolved | Class::UnservedVersion) => Some(&of.object),
            _ => None,
        });
        let first = objects.next()?;
        let others = usize::from(objects.any(|other| other != first));
        Some(Advice::to_keep(first, 1 + others).into())
    }

    /// Sorts the findings.
    pub fn keep_first(&mut self, most: usize) {
        self.findings.sort_by(|a, b| a.rank().cmp(&b.rank()));
        self.findings.truncate(most);
    }
}
