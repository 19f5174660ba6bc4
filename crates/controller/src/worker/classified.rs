//! What is known of the owner that a reference names.

use std::sync::Arc;

use kube_gc_client::{AbsenceProof, ApiError, ErrorClass, Ground};
use kube_gc_core::graph::OwnerState;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::OwnerReference;
use kube_gc_core::text::{bounded, word};
use kube_gc_core::verdict::{Confirmation, ReferenceClass};

/// What the class of an owner rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
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
    #[strum(serialize = "not asked")]
    NotAsked,
}

/// One reference, classified.
#[derive(Clone, Debug)]
pub struct Classified {
    pub class: ReferenceClass,
    pub evidence: Evidence,
    /// What an absent owner's class rests on.
    pub proof: Option<AbsenceProof>,
    /// What a waiting owner's class rests on.
    pub confirmed: Option<Box<Confirmation>>,
    pub failure: Option<Arc<ApiError>>,
}

impl Classified {
    pub(super) const fn new(class: ReferenceClass, evidence: Evidence) -> Self {
        Self { class, evidence, proof: None, confirmed: None, failure: None }
    }

    /// Of an owner that was proved absent.
    pub(super) fn absent(proof: AbsenceProof, evidence: Evidence) -> Self {
        Self { proof: Some(proof), ..Self::new(ReferenceClass::Absent, evidence) }
    }

    /// Why the reference does not keep the object, if so.
    pub(super) fn ground(&self) -> Option<Ground<'_>> {
        match self.class {
            ReferenceClass::Absent => self.proof.map(Ground::Absent),
            ReferenceClass::Waiting => self.confirmed.as_deref().map(Ground::Waiting),
            ReferenceClass::Solid
            | ReferenceClass::Orphaned
            | ReferenceClass::Unresolved
            | ReferenceClass::InvalidScope => None,
        }
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
        let made_up = AbsenceProof::of_graph(&OwnerState::Absent).filter(|_| mutation::is(mistake));
        made_up.map_or(Self::new(class, Evidence::Catalog), |proof| Self::absent(proof, Evidence::Catalog))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_gc_client::DeleteOrder;
    use kube_gc_core::object::PropagationPolicy;
    use kube_gc_core::verdict::testing::item;

    /// Rule 4.13. Fails if a class that nothing proves lets an object go.
    #[test]
    fn a_delete_needs_a_ground_for_each_reference() {
        let of = |class| Classified::new(class, Evidence::Live);
        let absent = || Classified::absent(AbsenceProof::of_test(), Evidence::Live);
        for (owners, classified, is_ordered) in [
            (1, vec![absent()], true),
            (2, vec![absent(), absent()], true),
            (2, vec![absent()], false),
            (0, vec![], false),
            (1, vec![of(ReferenceClass::Absent)], false),
            (1, vec![of(ReferenceClass::Waiting)], false),
            (2, vec![absent(), of(ReferenceClass::Solid)], false),
        ] {
            let grounds = classified.iter().map(Classified::ground);
            let order = DeleteOrder::of_garbage(&item(owners), PropagationPolicy::Background, grounds);
            assert_eq!(order.is_some(), is_ordered, "{owners} owners: {classified:?}");
        }
    }
}
