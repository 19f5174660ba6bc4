//! A violation of a rule by the collector.

use std::fmt;

use kube_gc_apiserver::store::Change;

/// The rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// An owner was neither absent nor waiting (rules 4.13 and 10.1).
    WrongfulDelete,
    /// A write does not carry the preconditions of its decision (rules 4.21 to 4.23).
    Precondition,
    /// The policy of a DELETE is not the one that the object asks for (rules 4.18 and 4.20).
    Policy,
    /// An owner reference was removed, or stopped blocking, without need (rules 4.15 and 4.19).
    WrongfulPatch,
    /// A patch changed something that the collector must not change (rule 1.10).
    ForeignWrite,
    /// An orphan deletion did not keep a dependent (rule 10.3).
    LostOrphan,
    /// An owner did not wait for a dependent that blocks it (rule 1.7).
    WaitedTooShort,
    /// Garbage is left, and nothing shows the reason (rule 10.2).
    LostGarbage,
    /// A reference is left that should have been removed (rule 4.15).
    LeftReference,
    /// A finalizer is left although nothing blocks its removal (rule 10.4).
    StuckFinalizer,
    /// An object is undecided, and nothing shows it (rule 10.6).
    Hidden,
}

/// A violated rule, by what, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The write, or the object that is left.
    pub what: String,
    /// The reason why that is wrong.
    pub why: String,
}

impl Violation {
    /// A violation by a change.
    pub fn of(change: &Change, rule: Rule, why: String) -> Self {
        let what = format!(
            "version {}: {} {} (uid {})",
            change.version,
            change.cause.method,
            change.cause.path,
            change.before.as_ref().unwrap_or(&change.after).uid()
        );
        Self { rule, what, why }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}: {}", self.rule, self.what, self.why)
    }
}
