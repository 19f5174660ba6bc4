//! What the pages show of a dry run beside another collector.

use std::fmt;

use serde::Serialize;

use super::{Check, Timestamp};
use kube_gc_core::object::Identity;

/// How many of another collector's doings were as a dry run would have had them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// So many were.
    pub agreed: u64,
    /// So many it has not done.
    pub disagreed: u64,
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} agreed, {} disagreed", self.agreed, self.disagreed)
    }
}

impl Compared {
    /// One line of readiness. A disagreement is somebody's to look at, for as long as this
    /// process lives.
    pub(super) fn check(self) -> Check {
        match self.disagreed {
            0 => Check::fine(format!("dry-run: {self}")),
            _ => Check::warning("dry-run", format!("{self}; see /debug/decisions")),
        }
    }
}

/// Something that a dry run would have done and nobody else has, on `/debug/decisions`. The
/// fields are an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disagreement {
    /// The object.
    pub object: Identity,
    /// What would have been done.
    pub action: &'static str,
    /// With which propagation policy; `null` unless it is a deletion.
    pub policy: Option<String>,
    /// Which references or which finalizer the object would be without; `null` if it is
    /// about none.
    pub detail: Option<String>,
    /// Every owner that the object names, and what was known of it.
    pub owners: Vec<String>,
    /// When it was decided first.
    pub predicted: Timestamp,
    /// When it was decided again and found not to be done.
    pub found: Timestamp,
    /// What the object looks like now.
    pub now: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Readiness;

    #[test]
    fn a_disagreement_is_a_warning_and_no_reason_not_to_be_ready() {
        let line = |agreed, disagreed| {
            let readiness = Readiness { checks: vec![Compared { agreed, disagreed }.check()] };
            assert!(readiness.ready());
            readiness.verbose("readyz").lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(line(3, 0), "[+]dry-run: 3 agreed, 0 disagreed ok");
        assert_eq!(line(3, 1), "[!]dry-run warning: 3 agreed, 1 disagreed; see /debug/decisions");
    }
}
