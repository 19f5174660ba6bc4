//! What the collector did wrong.

use std::fmt;

use kube_gc_apiserver::store::Change;

/// The rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// An owner was neither absent nor waiting (rules 4.13 and 10.1).
    WrongfulDelete,
    /// A write is not bound to what was decided on (rules 4.21 to 4.23).
    Precondition,
    /// A DELETE has another policy than the object asks for (rules 4.18 and 4.20).
    Policy,
    /// An owner reference was removed, or stopped blocking, without need (rules 4.15 and
    /// 4.19).
    WrongfulPatch,
    /// A patch changed something that the collector must not change (rule 1.10).
    ForeignWrite,
    /// An orphan deletion did not keep a dependent (rule 10.3).
    LostOrphan,
    /// An owner did not wait for a dependent that blocks it (rule 1.7).
    WaitedTooShort,
    /// Garbage is left, and nothing says why (rule 10.2).
    LostGarbage,
    /// A reference is left that should have been removed (rule 4.15).
    LeftReference,
    /// A finalizer is left that nothing holds (rule 10.4).
    StuckFinalizer,
    /// Something was not decided, and nothing shows it (rule 10.6).
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
