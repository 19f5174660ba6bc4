//! What is known of the owner that a reference names.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::api::ApiError;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::OwnerReference;
use kube_gc_core::text::word;
use kube_gc_core::verdict::{Confirmation, ReferenceClass};

/// How it is known what an owner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The catalog alone: the kind is not served, or has the wrong scope.
    Catalog,
    /// A synced monitor shows it, or it was proved absent and is kept as such.
    Graph,
    /// It was proved absent not long ago.
    Remembered,
    /// Looked up just now, or within the last second for another dependent.
    Live,
    /// It is not known: nothing would follow from it.
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
    /// How it is known.
    pub evidence: Evidence,
    /// What a waiting owner's class rests on.
    pub confirmed: Option<Box<Confirmation>>,
    /// Why it could not be looked up.
    pub(super) error: Option<Arc<str>>,
    /// How long the API server asks to be left alone with it.
    pub retry_after: Option<Duration>,
    /// Why nobody was asked, if the request was held back.
    pub deferred: Option<Box<ApiError>>,
    /// Whether the request for it got no answer.
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

    /// Whether nothing can bring the owner back.
    pub(super) const fn is_gone(&self) -> bool {
        matches!(self.class, ReferenceClass::Absent | ReferenceClass::Orphaned)
    }

    /// Why it could not be found out what the owner of this reference is, if it could not.
    /// Made up when it is asked for: thousands of references may have the same reason.
    #[must_use]
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
