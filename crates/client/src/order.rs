//! What a DELETE is made of: proof that it follows from a rule.

use super::read::AbsenceProof;
use kube_gc_core::graph::ObjectSnapshot;
use kube_gc_core::object::{Identity, PropagationPolicy};
use kube_gc_core::verdict::Confirmation;

/// Why an owner reference does not keep its object. Nobody makes a proof up:
///
/// ```compile_fail,E0423
/// let absent = kube_gc_client::AbsenceProof(());
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Ground<'a> {
    Absent(AbsenceProof),
    /// A live read has confirmed that the owner waits for its dependents.
    Waiting(&'a Confirmation),
}

/// The order to delete one object. No DELETE is sent without it, and only a rule gives it:
///
/// ```
/// use kube_gc_client::{AbsenceProof, DeleteOrder, Ground};
/// use kube_gc_core::{graph::ObjectSnapshot, object::PropagationPolicy::Background};
///
/// fn delete(object: &ObjectSnapshot, proof: AbsenceProof) -> Option<DeleteOrder> {
///     DeleteOrder::of_garbage(object, Background, [Some(Ground::Absent(proof))])
/// }
/// ```
///
/// ```compile_fail,E0451
/// use kube_gc_client::DeleteOrder;
/// use kube_gc_core::{graph::ObjectSnapshot, object::PropagationPolicy::Background};
///
/// fn delete(object: &ObjectSnapshot) -> DeleteOrder {
///     DeleteOrder { object: object.identity.clone(), policy: Background }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteOrder {
    object: Identity,
    policy: PropagationPolicy,
}

impl DeleteOrder {
    /// The order to delete an object of which no reference keeps it: there is a ground for each, in their
    /// order (rule 4.13).
    pub fn of_garbage<'a>(
        item: &ObjectSnapshot,
        policy: PropagationPolicy,
        grounds: impl IntoIterator<Item = Option<Ground<'a>>>,
    ) -> Option<Self> {
        let grounds: Vec<_> = grounds.into_iter().collect::<Option<_>>()?;
        let is_garbage = !grounds.is_empty() && grounds.len() == item.references.len();
        is_garbage.then(|| Self { object: item.identity.clone(), policy })
    }

    /// The order to delete what a terminating namespace contains.
    pub(super) const fn of_content(object: Identity) -> Self {
        Self { object, policy: PropagationPolicy::Background }
    }

    pub const fn object(&self) -> &Identity {
        &self.object
    }

    pub(super) const fn policy(&self) -> PropagationPolicy {
        self.policy
    }

    #[cfg(any(test, feature = "test-util"))]
    pub fn of_test(object: &Identity, policy: PropagationPolicy) -> Self {
        Self { object: object.clone(), policy }
    }
}
