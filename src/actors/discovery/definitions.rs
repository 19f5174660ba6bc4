//! Asks the API server whether the definition of a type still exists.

use std::collections::BTreeSet;

use super::unserved::{DefinitionCheck, GroupVersion, Question};
use crate::api::{Api, Definition};
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::GroupResource;

/// The versions whose APIService is gone.
pub(super) async fn gone_versions(api: &Api, missing: BTreeSet<GroupVersion>) -> BTreeSet<GroupVersion> {
    let mut gone = BTreeSet::new();
    for (group, version) in missing {
        let definition = Definition::ApiService { group: group.clone(), version: version.clone() };
        // An error proves nothing.
        if api.is_defined(&definition).await.is_ok_and(|is_defined| !is_defined) {
            gone.insert((group, version));
        }
    }
    gone
}

/// Looks up the definitions of these types. A failure is logged once for each type: those in
/// `known` were missing before.
pub(super) async fn check(
    api: &Api,
    questions: Vec<Question>,
    known: &BTreeSet<GroupResource>,
) -> Vec<DefinitionCheck> {
    let mut all = Vec::new();
    for (resource, definition) in questions {
        let is_gone = match &definition {
            _ if mutation::is(Mutation::RetireAtOnce) => Some(true),
            None => None,
            Some(definition) => match api.is_defined(definition).await {
                Ok(is_defined) => Some(!is_defined),
                Err(error) => {
                    let resource = &resource.group_resource;
                    if known.contains(resource) {
                        tracing::debug!(%resource, %error, "cannot find out whether this type was removed");
                    } else {
                        tracing::warn!(
                            %resource,
                            %error,
                            "discovery no longer lists this type, and kube-gc cannot find out whether it was \
                             removed; kube-gc keeps its objects"
                        );
                    }
                    None
                }
            },
        };
        all.push(DefinitionCheck { resource, definition, is_gone });
    }
    all
}
