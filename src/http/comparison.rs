//! The results of a dry run beside another collector, as the pages show them.

use std::fmt;

use serde::Serialize;

use super::view::is_zero;
use super::{Check, ObjectView, OwnerView, Timestamp};

/// How often another collector did what the dry run decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparisonCounts {
    /// Decisions that the other collector carried out.
    pub agreed: u64,
    /// Decisions that it did not carry out in time.
    pub disagreed: u64,
}

impl fmt::Display for ComparisonCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} agreed, {} disagreed", self.agreed, self.disagreed)
    }
}

impl ComparisonCounts {
    /// The check of `/readyz`. A disagreement stays a warning until the process ends, because
    /// a person should look at it.
    pub(super) fn check(self) -> Check {
        match self.disagreed {
            0 => Check::fine(format!("dry-run: {self}")),
            _ => Check::warning("dry-run", format!("{self}; see /debug/decisions")),
        }
    }
}

/// A decision of a dry run that nobody else has carried out, on `/debug/decisions`. The JSON
/// fields are a public interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DisagreementView {
    /// The object.
    pub object: ObjectView,
    /// The action that the dry run decided.
    pub action: &'static str,
    /// The propagation policy; `null` unless the action is a deletion.
    pub policy: Option<String>,
    /// The owner references or the finalizer to remove; `null` if there are none.
    pub detail: Option<String>,
    /// The owners of the object, each with its state at the decision; at most 16.
    pub owners: Vec<OwnerView>,
    /// The number of further owners.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_owners: usize,
    /// When the dry run first decided it.
    pub predicted: Timestamp,
    /// When the re-evaluation found that nobody had done it.
    pub found: Timestamp,
    /// The state of the object at the re-evaluation.
    pub now: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Readiness;

    #[test]
    fn a_disagreement_is_a_warning_and_no_reason_not_to_be_ready() {
        let line = |agreed, disagreed| {
            let readiness = Readiness { checks: vec![ComparisonCounts { agreed, disagreed }.check()] };
            assert!(readiness.ready());
            readiness.verbose("readyz").lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(line(3, 0), "[+]dry-run: 3 agreed, 0 disagreed ok");
        assert_eq!(line(3, 1), "[!]dry-run warning: 3 agreed, 1 disagreed; see /debug/decisions");
    }
}
