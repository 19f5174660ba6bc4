//! Metrics of stuck objects, and the reasons why objects are stuck.

use std::time::Duration;

use super::{Value, float, gauge, names};

/// Why an object is not finished yet. A worker gives one of these when it puts a key back, and
/// the graph gives the ones that no worker retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StuckReason {
    /// The object changed between the decision and the write.
    Conflict,
    /// The API server, RBAC or an admission webhook denies the write.
    Denied,
    /// The API server failed or did not answer.
    Failed,
    /// The API server answered with 429 and asked for a later retry.
    Throttled,
    /// The worker panicked on it.
    Panicked,
    /// The kind or version of an owner is not served, or the lookup of the owner failed.
    Unresolved,
    /// An owner exists that no monitor has shown yet.
    NotObserved,
    /// Dependents block its foreground deletion.
    Blocked,
    /// Its dependents are being orphaned.
    Orphaning,
    /// A cluster-scoped object that names a namespaced kind of owner.
    InvalidScope,
    /// kube-gc wrote the object, and the watch has not shown that write.
    UnseenWrite,
    /// The brake is engaged. Nothing is deleted until a person resumes deletion.
    Braked,
    /// The request was not sent: the API server is unreachable, or requests of this kind hang.
    Deferred,
}

impl StuckReason {
    /// All variants.
    pub const ALL: [Self; 13] = [
        Self::Conflict,
        Self::Denied,
        Self::Failed,
        Self::Throttled,
        Self::Panicked,
        Self::Unresolved,
        Self::NotObserved,
        Self::Blocked,
        Self::Orphaning,
        Self::InvalidScope,
        Self::UnseenWrite,
        Self::Braked,
        Self::Deferred,
    ];

    /// The name in metrics and on the debug pages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::Throttled => "throttled",
            Self::Panicked => "panicked",
            Self::Unresolved => "unresolved",
            Self::NotObserved => "not_observed",
            Self::Blocked => "blocked",
            Self::Orphaning => "orphaning",
            Self::InvalidScope => "invalid_scope",
            Self::UnseenWrite => "unseen_write",
            Self::Braked => "braked",
            Self::Deferred => "deferred",
        }
    }

    /// Whether the object waits for something else to change, and not for a request to succeed.
    #[must_use]
    pub const fn is_parked(self) -> bool {
        match self {
            Self::Unresolved
            | Self::NotObserved
            | Self::Blocked
            | Self::Orphaning
            | Self::InvalidScope
            | Self::UnseenWrite
            | Self::Braked => true,
            Self::Conflict
            | Self::Denied
            | Self::Failed
            | Self::Throttled
            | Self::Panicked
            | Self::Deferred => false,
        }
    }

    /// Parses a name of [`as_str`](Self::as_str).
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }

    /// How long an object must have been in this state to count as stuck. A single conflict, a
    /// late list or a successful orphaning ends within moments; a denial does not.
    #[must_use]
    pub const fn patience(self) -> Duration {
        match self {
            Self::Denied | Self::Panicked | Self::Blocked | Self::InvalidScope | Self::Braked => {
                Duration::ZERO
            }
            Self::Conflict
            | Self::Failed
            | Self::Deferred
            | Self::Throttled
            | Self::Unresolved
            | Self::NotObserved
            | Self::Orphaning
            | Self::UnseenWrite => Duration::from_secs(2),
        }
    }
}

/// Records how many objects are stuck for this reason, and the age of the oldest.
pub fn stuck(reason: StuckReason, count: usize, oldest: Duration) {
    let labels = || [Value::Static(reason.as_str())];
    gauge(&names::STUCK_OBJECTS, labels()).set(float(count));
    gauge(&names::STUCK_OLDEST_AGE, labels()).set(oldest);
}

/// Creates the series of this module with the value zero.
pub(super) fn zeros() {
    for reason in StuckReason::ALL {
        stuck(reason, 0, Duration::ZERO);
    }
}
