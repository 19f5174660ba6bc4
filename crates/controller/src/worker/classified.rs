//! What is known of the owner that a reference names.

use std::fmt;
use std::sync::Arc;

use kube_gc_client::{ApiError, ErrorClass};
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::OwnerReference;
use kube_gc_core::text::{bounded, word};
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
    pub failure: Option<Arc<ApiError>>,
}

impl Classified {
    pub(super) const fn new(class: ReferenceClass, evidence: Evidence) -> Self {
        Self { class, evidence, confirmed: None, failure: None }
    }

    /// Of an owner whose look-up failed.
    pub fn failed(error: ApiError) -> Self {
        Self { failure: Some(Arc::new(error)), ..Self::new(ReferenceClass::Unresolved, Evidence::Live) }
    }

    /// Whether the owner is gone for good.
    pub(super) const fn is_gone(&self) -> bool {
        matches!(self.class, ReferenceClass::Absent | ReferenceClass::Orphaned)
    }

    /// Why the look-up was not sent, if it was deferred.
    pub fn deferred(&self) -> Option<&ApiError> {
        self.failure.as_deref().filter(|error| matches!(error.class, ErrorClass::Deferred { .. }))
    }

    /// Why the owner of this reference could not be resolved. The text is built on demand, since
    /// thousands of references may have the same reason.
    pub fn error(&self, reference: &OwnerReference) -> Option<String> {
        let OwnerReference { api_version, kind, .. } = reference;
        match (&self.failure, self.class, self.evidence) {
            (Some(error), _, _) => Some(bounded(error)),
            (None, ReferenceClass::Unresolved, Evidence::Catalog) => {
                Some(format!("the API server serves no {} in {}", word(kind), word(api_version)))
            }
            (None, _, _) => None,
        }
    }

    /// Of a reference that names no owner, because of its kind.
    pub(super) fn of_nobody(class: ReferenceClass) -> Self {
        let mistake = match class {
            ReferenceClass::Unresolved => Mutation::UnresolvedIsAbsent,
            _ => Mutation::InvalidScopeIsAbsent,
        };
        Self::new(if mutation::is(mistake) { ReferenceClass::Absent } else { class }, Evidence::Catalog)
    }
}
