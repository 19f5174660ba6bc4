//! What is known of the owner that a reference names.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::api::ApiError;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::OwnerReference;
use kube_gc_core::text::word;
use kube_gc_core::verdict::{Confirmation, ReferenceClass};

/// What the class of an owner rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Discovery: the kind is not served, or has the wrong scope.
    Catalog,
    /// The graph: a synced monitor shows the owner, or the graph has it as absent.
    Graph,
    /// The absent owner cache.
    Remembered,
    /// A look-up just now, or within the last second for another dependent.
    Live,
    /// Nothing: the owner was not looked up, because its class would change nothing.
    NotAsked,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Catalog => "catalog",
            Self::Graph => "graph",
            Self::Remembered => "remembered",
            Self::Live => "live",
            Self::NotAsked => "not asked",
        })
    }
}

/// One reference, classified.
#[derive(Clone, Debug)]
pub struct Classified {
    /// The class.
    pub class: ReferenceClass,
    /// What the class rests on.
    pub evidence: Evidence,
    /// What a waiting owner's class rests on.
    pub confirmed: Option<Box<Confirmation>>,
    /// Why it could not be looked up.
    pub(super) error: Option<Arc<str>>,
    /// How long the API server asks to wait before the next look-up.
    pub retry_after: Option<Duration>,
    /// Why the look-up was not sent, if it was deferred.
    pub deferred: Option<Box<ApiError>>,
    /// Whether the look-up got no answer.
    pub is_unanswered: bool,
}

impl Classified {
    pub(super) const fn new(class: ReferenceClass, evidence: Evidence) -> Self {
        Self {
            class,
            evidence,
            confirmed: None,
            error: None,
            retry_after: None,
            deferred: None,
            is_unanswered: false,
        }
    }

    /// Of an owner that could not be looked up.
    #[cfg(test)]
    pub(crate) fn unresolved(is_unanswered: bool) -> Self {
        Self { is_unanswered, ..Self::new(ReferenceClass::Unresolved, Evidence::Live) }
    }

    /// Whether the owner is gone for good.
    pub(super) const fn is_gone(&self) -> bool {
        matches!(self.class, ReferenceClass::Absent | ReferenceClass::Orphaned)
    }

    /// Why the owner of this reference could not be resolved. The text is built on demand, since
    /// thousands of references may have the same reason.
    pub fn error(&self, reference: &OwnerReference) -> Option<Arc<str>> {
        match (&self.error, self.class, self.evidence) {
            (Some(error), _, _) => Some(Arc::clone(error)),
            (None, ReferenceClass::Unresolved, Evidence::Catalog) => {
                let OwnerReference { api_version, kind, .. } = reference;
                Some(format!("the API server serves no {} in {}", word(kind), word(api_version)).into())
            }
            (None, _, _) => None,
        }
    }

    /// A kind that the catalog does not know.
    pub(super) fn not_served() -> Self {
        let class = match mutation::is(Mutation::UnresolvedIsAbsent) {
            true => ReferenceClass::Absent,
            false => ReferenceClass::Unresolved,
        };
        Self::new(class, Evidence::Catalog)
    }

    /// An owner that has not been looked up.
    pub(super) const fn not_asked() -> Self {
        Self::new(ReferenceClass::Unresolved, Evidence::NotAsked)
    }
}
