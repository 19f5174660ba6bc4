//! The numbers of a summary: decisions by action, resource type and outcome.

use std::fmt::{self, Display};
use std::sync::Arc;

use serde::ser::{Serialize, SerializeSeq as _, SerializeStruct as _, Serializer};

use kube_gc_core::object::ResourceType;
use kube_gc_core::text::{LISTED, listed};

/// What a decision is counted by.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The action, as in the line of a decision.
    pub action: &'static str,
    /// The type of the object.
    pub resource: Arc<ResourceType>,
    /// The outcome, as in the line of a decision.
    pub outcome: &'static str,
}

impl Counted {
    fn is_like(&self, other: &Self) -> bool {
        self.action == other.action
            && self.outcome == other.outcome
            && self.resource.group_resource == other.resource.group_resource
    }
}

/// Counts decisions. The number of different entries is bounded, because the types come from the
/// cluster; the total counts all.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    total: u64,
    each: Vec<(Counted, u64)>,
}

impl Counts {
    /// Counts one decision.
    pub fn add(&mut self, decision: Counted) {
        self.add_many(decision, 1);
        self.total += 1;
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: Self) {
        self.total += other.total;
        for (decision, count) in other.each {
            self.add_many(decision, count);
        }
    }

    /// The number of all decisions.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    fn add_many(&mut self, decision: Counted, count: u64) {
        if let Some((_, known)) = self.each.iter_mut().find(|(known, _)| known.is_like(&decision)) {
            *known += count;
        } else if self.each.len() < LISTED {
            self.each.push((decision, count));
        }
    }

    /// The number of decisions that no entry counts.
    fn rest(&self) -> u64 {
        self.total - self.each.iter().map(|(_, count)| count).sum::<u64>()
    }
}

impl Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct One<'a>(&'a Counted, u64);
        impl Display for One<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Self(Counted { action, resource, outcome }, count) = self;
                write!(f, "{count} {action} {} {outcome}", resource.group_resource)
            }
        }
        let entries = self.each.iter().map(|(decision, count)| One(decision, *count));
        let mut text = listed("; ", self.each.len(), entries);
        if self.rest() > 0 {
            text = format!("{text}; {} others", self.rest());
        }
        // Quoted, because it has spaces.
        fmt::Debug::fmt(&text, f)
    }
}

/// An array with an object for each entry.
impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct One<'a>(&'a Counted, u64);
        impl Serialize for One<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let Self(Counted { action, resource, outcome }, count) = self;
                let mut fields = serializer.serialize_struct("Count", 4)?;
                fields.serialize_field("action", action)?;
                fields.serialize_field("resource", &resource.group_resource.to_string())?;
                fields.serialize_field("outcome", outcome)?;
                fields.serialize_field("count", count)?;
                fields.end()
            }
        }
        let mut entries = serializer.serialize_seq(Some(self.each.len()))?;
        for (decision, count) in &self.each {
            entries.serialize_element(&One(decision, *count))?;
        }
        entries.end()
    }
}
