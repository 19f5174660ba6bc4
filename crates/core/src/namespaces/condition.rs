//! The conditions of a terminating namespace, and signs that another controller finalizes namespaces.
//!
//! Types, reasons and messages are those of Kubernetes' own namespace controller, because people and
//! programs read them. Two controllers would undo each other's conditions, and each would rely on a look
//! that the other one takes.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::time::{Duration, SystemTime};

use super::Survey;
use crate::object::GroupResource;
use crate::text::{self, word};

/// What a condition is about.
struct Kind {
    /// The `type` of the condition.
    name: &'static str,
    /// The reason while there is a problem.
    problem: &'static str,
    /// The reason and the message while there is none.
    fine: (&'static str, &'static str),
    /// The message about a problem.
    find: fn(&Survey) -> Option<String>,
}

/// All, in the order of the status.
const KINDS: [Kind; 5] = [
    Kind {
        name: "NamespaceDeletionDiscoveryFailure",
        problem: "DiscoveryFailed",
        fine: ("ResourcesDiscovered", "All resources successfully discovered"),
        find: undiscovered,
    },
    Kind {
        name: "NamespaceDeletionGroupVersionParsingFailure",
        problem: "GroupVersionParsingFailed",
        fine: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        find: unparsed,
    },
    Kind {
        name: "NamespaceDeletionContentFailure",
        problem: "ContentDeletionFailed",
        fine: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        find: undeleted,
    },
    Kind {
        name: "NamespaceContentRemaining",
        problem: "SomeResourcesRemain",
        fine: ("ContentRemoved", "All content successfully removed"),
        find: remaining,
    },
    Kind {
        name: "NamespaceFinalizersRemaining",
        problem: "SomeFinalizersRemain",
        fine: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        find: finalizers,
    },
];

/// A condition in the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub kind: String,
    pub is_true: bool,
    pub reason: String,
    pub message: String,
    /// When `is_true` last changed, as the API server writes times.
    pub since: String,
}

/// The conditions that a look leads to (rule 11.6).
pub fn conditions(survey: &Survey, now: &str) -> Vec<Condition> {
    let condition = |Kind { name, problem, fine: (fine, all_is_well), find }: &Kind| {
        let message = find(survey);
        Condition {
            kind: (*name).to_owned(),
            is_true: message.is_some(),
            reason: if message.is_some() { *problem } else { *fine }.to_owned(),
            message: message.unwrap_or_else(|| (*all_is_well).to_owned()),
            since: now.to_owned(),
        }
    };
    KINDS.iter().map(condition).collect()
}

/// The conditions of a status with these in place; `None` if that changes nothing. Conditions of
/// other types stay.
pub fn merged(old: &[Condition], new: Vec<Condition>) -> Option<Vec<Condition>> {
    let mut merged = old.to_vec();
    let mut is_changed = false;
    for mut condition in new {
        let Some(known) = merged.iter_mut().find(|known| known.kind == condition.kind) else {
            merged.push(condition);
            is_changed = true;
            continue;
        };
        if known.is_true == condition.is_true {
            condition.since.clone_from(&known.since);
        }
        is_changed |= *known != condition;
        *known = condition;
    }
    is_changed.then_some(merged)
}

fn undiscovered(Survey { undiscovered, .. }: &Survey) -> Option<String> {
    let begin = format!(
        "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: ",
        undiscovered.len()
    );
    listed(&begin, undiscovered.iter().map(|(part, why)| format!("{part}: {why}")).collect())
}

fn unparsed(survey: &Survey) -> Option<String> {
    listed("", survey.unparsed.iter().map(|text| format!("unexpected GroupVersion string: {text}")).collect())
}

fn undeleted(survey: &Survey) -> Option<String> {
    let unlisted = survey.types.iter().filter_map(|of_type| of_type.found.as_ref().err());
    let failures: Vec<_> = unlisted.chain(&survey.failures).collect();
    listed(&format!("Failed to delete all resource types, {} remaining: ", failures.len()), failures)
}

fn remaining(survey: &Survey) -> Option<String> {
    let counts = survey.types.iter().filter_map(|of_type| {
        let count = of_type.found.as_ref().ok()?.count;
        let GroupResource { group, resource } = &of_type.resource;
        (count > 0).then(|| format!("{resource}.{group} has {count} resource instances"))
    });
    listed("Some resources are remaining: ", counts.collect())
}

fn finalizers(survey: &Survey) -> Option<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let found = survey.types.iter().filter_map(|of_type| of_type.found.as_ref().ok());
    for (finalizer, count) in found.flat_map(|found| &found.finalizers) {
        let known = counts.entry(finalizer).or_default();
        *known = known.saturating_add(*count);
    }
    let counts = counts.iter().map(|(name, count)| format!("{} in {count} resource instances", word(name)));
    listed("Some content in the namespace has finalizers remaining: ", counts.collect())
}

/// The items in a fixed order, so that the same state gives the same message.
fn listed<T: Display + Ord>(begin: &str, mut items: Vec<T>) -> Option<String> {
    if items.is_empty() {
        return None;
    }
    items.sort();
    Some(begin.to_owned() + &text::listed(", ", items.len(), items))
}

/// A sign of life that is not older than this counts. It is much longer than the lease of
/// kube-controller-manager (15 s), because the clocks of two machines may differ.
pub const RECENT: Duration = Duration::from_secs(300);

/// The Lease of a kube-controller-manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderRecord {
    /// Empty if nobody holds it.
    pub holder: String,
    /// `None` if the time cannot be read.
    pub renewed: Option<SystemTime>,
    /// Changes with each renewal.
    pub version: String,
}

/// Another controller that finalizes namespaces, or may do so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rival {
    /// A kube-controller-manager holds its Lease.
    Leader { holder: String },
    /// A pod of kube-controller-manager runs.
    Pod { name: String },
    /// Somebody else sets the conditions of terminating namespaces.
    Conditions { manager: String },
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leader { holder } => {
                write!(f, "{} holds the Lease kube-system/kube-controller-manager", word(holder))
            }
            Self::Pod { name } => {
                write!(f, "the pod kube-system/{} is a kube-controller-manager", word(name))
            }
            Self::Conditions { manager } => {
                write!(f, "{} sets the conditions of terminating namespaces", word(manager))
            }
        }
    }
}

impl LeaderRecord {
    /// Whether a kube-controller-manager holds the Lease now (rule 11.8). `before` is what an
    /// earlier look has shown. A time that cannot be read, or is in the future, counts as recent.
    pub fn rival(&self, before: Option<&Self>, now: SystemTime) -> Option<Rival> {
        if self.holder.is_empty() {
            return None;
        }
        let is_recent = self.renewed.is_none_or(|at| now.duration_since(at).is_ok_and(|age| age <= RECENT))
            || self.renewed.is_some_and(|at| at > now);
        // Without a clock: it was renewed between two looks.
        let is_renewed = before.is_some_and(|before| before.version != self.version);
        (is_recent || is_renewed).then(|| Rival::Leader { holder: self.holder.clone() })
    }
}

/// An entry of `metadata.managedFields` that owns conditions in the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldOwner {
    pub manager: String,
    /// When it last wrote; `None` if the time cannot be read.
    pub at: Option<SystemTime>,
    /// The types of the conditions that it owns.
    pub conditions: Vec<String>,
}

/// Another controller that has set one of our conditions since `since`.
pub fn wrote_conditions(owners: &[FieldOwner], own: &str, since: SystemTime) -> Option<Rival> {
    let is_ours = |kind: &String| KINDS.iter().any(|known| known.name == kind);
    owners
        .iter()
        .filter(|owner| owner.manager != own && owner.conditions.iter().any(is_ours))
        .find(|owner| owner.at.is_none_or(|at| at >= since))
        .map(|owner| Rival::Conditions { manager: owner.manager.clone() })
}
