//! Recording what cannot be finished.

use std::time::Duration;

use super::{Value, float, gauge, names};

/// Why an object cannot be finished now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StuckReason {
    /// It changes whenever it is decided on.
    Conflict,
    /// The API server, a role or an admission webhook says no.
    Denied,
    /// The API server failed or did not answer.
    Failed,
    /// The API server asked to come back later.
    Throttled,
    /// The worker panicked on it.
    Panicked,
    /// What one of its references names cannot be found out.
    Unresolved,
    /// An owner exists that no monitor shows.
    NotObserved,
    /// Dependents block its foreground deletion.
    Blocked,
    /// Its dependents are being orphaned.
    Orphaning,
    /// A cluster-scoped object that names a namespaced kind of owner.
    InvalidScope,
    /// It was written, and the event of that does not come.
    UnseenWrite,
    /// The brake is engaged.
    Braked,
    /// Requests are held: the API server cannot be reached, or requests of this kind hang.
    Deferred,
}

impl StuckReason {
    /// All of them.
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

    /// The word, in metrics and on the debug pages.
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

    /// The reason of a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word)
    }

    /// How long an object must have been in this state to be called stuck. A single
    /// conflict, a list that is a moment late or an orphaning that goes well is over
    /// before anybody could look; a denial is not.
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

/// So many objects are stuck for this reason, the first of them for so long.
pub fn stuck(reason: StuckReason, count: usize, oldest: Duration) {
    let labels = || [Value::Static(reason.as_str())];
    gauge(&names::STUCK_OBJECTS, labels()).set(float(count));
    gauge(&names::STUCK_OLDEST_AGE, labels()).set(oldest);
}

/// The series of this part, as zeros.
pub(super) fn zeros() {
    for reason in StuckReason::ALL {
        stuck(reason, 0, Duration::ZERO);
    }
}
