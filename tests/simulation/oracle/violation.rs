//! What the collector did wrong.

use std::fmt;

use kube_gc_apiserver::store::Change;

/// The rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Invariant 1: an owner was neither absent nor waiting.
    WrongfulDelete,
    /// Section 4: a write that is not bound to what was decided on.
    Precondition,
    /// Section 4: a DELETE with another policy than the object asks for.
    Policy,
    /// Section 4: an owner reference went, or stopped blocking, without need.
    WrongfulPatch,
    /// Section 6: a patch changed something that is not the collector's to change.
    ForeignWrite,
    /// Invariant 3: an orphan deletion did not keep a dependent.
    LostOrphan,
    /// Section 4: an owner did not wait for a dependent that blocks it.
    WaitedTooShort,
    /// Invariant 2: garbage is left, and nothing says why.
    LostGarbage,
    /// Section 4: a reference is left that ought to have gone.
    LeftReference,
    /// Invariant 4: a finalizer is left that nothing holds.
    StuckFinalizer,
    /// Invariant 6: something was not decided, and that shows nowhere.
    Hidden,
}

/// A rule, who broke it, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// What was written, or what is left.
    pub what: String,
    /// Why that is wrong.
    pub why: String,
}

impl Violation {
    /// By a change.
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

impl std::error::Error for Violation {}
