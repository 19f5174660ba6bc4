//! Signs that another controller finalizes namespaces. Two of them would undo each other's
//! conditions, and each would rely on a look that the other one takes.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::condition::ConditionKind;
use crate::text::word;

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
    let is_ours = |kind: &String| ConditionKind::ALL.iter().any(|known| known.name() == kind);
    owners
        .iter()
        .filter(|owner| owner.manager != own && owner.conditions.iter().any(is_ours))
        .find(|owner| owner.at.is_none_or(|at| at >= since))
        .map(|owner| Rival::Conditions { manager: owner.manager.clone() })
}
