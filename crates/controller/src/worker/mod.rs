//! What a pool's worker does with one key: it decides, writes and reports.

pub mod brake;
pub mod classified;
pub mod comparison;
pub mod decision;
pub mod delete;
pub mod interrupted;
pub mod namespace_check;
pub mod namespaces;
pub mod orphan;
pub mod repeats;

use std::sync::Arc;

use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::graph_handle::GraphHandle;
use crate::actors::registry::Registry;
use kube_gc_client::{Api, Patched};
use kube_gc_core::graph::ExpectedChange;
use kube_gc_core::object::ResourceVersion;

use self::brake::Brake;
use self::decision::DecisionRecorder;
use self::delete::Births;
use self::namespace_check::NamespaceCheck;
use self::orphan::Releases;

pub use self::decision::DecisionObserver;

/// What the workers of all pools share.
#[derive(Clone, Debug)]
pub struct WorkContext {
    pub api: Api,
    pub graph: GraphHandle,
    /// Owners that were proved absent, and owners whose dependents were orphaned.
    pub absent_owners: Arc<AbsentOwnerCache>,
    pub registry: Registry,
    pub births: Births,
    pub brake: Brake,
    /// Limits how many dependents are patched at a time.
    pub releases: Releases,
    pub decisions: DecisionRecorder,
    pub namespace_check: NamespaceCheck,
}

impl WorkContext {
    /// The context of one decision, which begins now. It is void once watches break.
    pub fn now(&self) -> Self {
        let number = self.api.restore_fence().acknowledged();
        Self { api: self.api.under(number), graph: self.graph.under(number), ..self.clone() }
    }
}

/// What the watch will show after the removal of the last finalizer from an object of this version, to
/// which the server has answered with that one: an object that is gone may keep its version.
pub fn after(before: Option<&ResourceVersion>, now: Option<ResourceVersion>) -> ExpectedChange {
    let newer = now.filter(|now| before.is_none_or(|before| now.is_after(before)));
    newer.map_or(ExpectedChange::Removed, ExpectedChange::Version)
}

/// What the watch will show after the removal of a finalizer from an object whose version was
/// `known`: the end of the object, or the version that the server returned. Without this
/// expectation, the object would be processed again as if it still had the finalizer.
pub fn after_finalizer_removal(known: Option<&ResourceVersion>, removal: &Patched) -> Option<ExpectedChange> {
    match removal {
        Patched::Changed(facts) => Some(after(known, facts.resource_version.clone())),
        // Somebody else changed the object. If the versions cannot be compared, the event may
        // have arrived, and no other may follow.
        Patched::Unneeded(facts) => {
            let is_newer = |now: &ResourceVersion| known.is_some_and(|known| now.is_after(known));
            facts.resource_version.clone().filter(is_newer).map(ExpectedChange::Version)
        }
        Patched::Gone(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::tests::{identity, seen};
    use kube_gc_client::AbsenceProof;
    use kube_gc_core::object::ObjectFacts;

    fn facts(version: &str) -> ObjectFacts {
        let resource_version = ResourceVersion::parse(version);
        ObjectFacts { resource_version, being_deleted: true, ..seen(&identity("a", "w"), 1, Vec::new()) }
    }

    fn version(version: &str) -> Option<ExpectedChange> {
        ResourceVersion::parse(version).map(ExpectedChange::Version)
    }

    #[test]
    fn the_next_event_after_a_finalizer_is_the_end_of_the_object_or_another_version() {
        use Patched::{Changed, Gone, Unneeded};
        for (known, removal, expected) in [
            ("7", Changed(facts("8")), version("8")),
            ("7", Changed(facts("7")), Some(ExpectedChange::Removed)),
            ("7", Gone(AbsenceProof::of_test()), None),
            // Removed by another client. An event that is known is not expected again.
            ("7", Unneeded(facts("8")), version("8")),
            ("7", Unneeded(facts("7")), None),
            // Nobody knows which is newer.
            ("a", Unneeded(facts("b")), None),
        ] {
            let known = ResourceVersion::parse(known);
            assert_eq!(after_finalizer_removal(known.as_ref(), &removal), expected, "{removal:?}");
        }
    }
}
