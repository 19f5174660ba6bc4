//! Lists one type and finds the dependents of owners that orphan their dependents.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};

use super::context::OrphanContext;
use super::dependent::orphan_dependent;
use super::horizon::Horizon;
use super::round::Stage;
use crate::actors::registry::{Followed, RoundType};
use crate::api::{ApiError, ErrorClass};
use crate::worker::interrupted::Interrupted;
use crate::worker::remove_reference::ReferenceRemoval;
use kube_gc_core::object::{
    Catalog, Identity, Namespace, ObjectFacts, OwnerReference, ResourceType, Uid, split_api_version,
};

/// Late dependents of one type that are kept in memory at a time. A type whose monitor is not
/// synced may have any number of them.
const LATE_AT_ONCE: usize = 512;
/// How long a list of a type that is not synced may take. Most such types never answer, and all
/// owners of the round wait for them.
const UNSYNCED_AT_MOST: Duration = Duration::from_secs(10);

/// An owner whose dependents are looked for.
#[derive(Clone, Copy, Debug)]
pub struct OrphaningOwner<'a> {
    /// Who it is.
    pub identity: &'a Identity,
    /// The stage of the work on it.
    pub stage: Stage,
}

/// The owners whose dependents are looked for, by uid.
pub type Owners<'a> = HashMap<Uid, OrphaningOwner<'a>>;

/// What was seen of one type.
#[derive(Debug)]
pub struct TypeDependents {
    /// The type.
    pub resource: Arc<ResourceType>,
    /// How it is followed.
    pub followed: Followed,
    /// What there was, if it could be listed.
    pub found: Result<Found, ApiError>,
}

/// The dependents of the owners among the objects of one type.
#[derive(Debug, Default)]
pub struct Found {
    /// The owner of each late dependent, with the error if the dependent could not be released.
    pub late: Vec<Late>,
    /// For each owner, the versions that the graph must reach to know the dependents that are still
    /// being released.
    pub shown: HashMap<Uid, Horizon>,
}

/// One late dependent of an owner; with an error if it could not be released.
type Late = (Uid, Option<ApiError>);

/// What a look needs.
#[derive(Clone, Copy, Debug)]
pub struct Looker<'a> {
    /// What releases late dependents.
    pub context: &'a OrphanContext,
    /// Where; `None`: everywhere.
    pub namespace: Option<&'a Namespace>,
    /// Resolves references.
    pub catalog: &'a Catalog,
    /// Whose dependents are looked for.
    pub owners: &'a Owners<'a>,
}

impl Looker<'_> {
    /// Lists one type. A type that is not synced gets a second try, because nothing else would show
    /// its dependents.
    pub async fn look(&self, RoundType { resource, followed }: &RoundType) -> TypeDependents {
        let found = match followed {
            Followed::Somehow | Followed::ByVersion => self.list(resource, *followed).await,
            Followed::Not | Followed::NoLonger => match self.list_in_time(resource).await {
                Err(_) => self.list_in_time(resource).await,
                found => found,
            },
        };
        TypeDependents { resource: Arc::clone(resource), followed: *followed, found }
    }

    async fn list_in_time(&self, resource: &Arc<ResourceType>) -> Result<Found, ApiError> {
        let list = self.list(resource, Followed::Not);
        tokio::time::timeout(UNSYNCED_AT_MOST, list).await.unwrap_or_else(|_| {
            Err(ApiError {
                class: ErrorClass::Transient,
                action: "LIST",
                target: resource.group_resource.to_string(),
                message: format!("no list within {} s", UNSYNCED_AT_MOST.as_secs()),
                code: None,
            })
        })
    }

    /// Lists the type, and releases every object of it that is late.
    async fn list(&self, resource: &Arc<ResourceType>, followed: Followed) -> Result<Found, ApiError> {
        let mut found = Found::default();
        loop {
            let mut late = Vec::new();
            let mut more = false;
            let visit = |facts: ObjectFacts| {
                let mut is_late = false;
                for owner in self.owners_named(&facts) {
                    match owner.stage {
                        Stage::Released => is_late = true,
                        Stage::Releasing => {
                            // The watch and the catalog will show the graph that the object is a
                            // dependent.
                            let is_known = followed == Followed::ByVersion
                                && self.resolves_all_to(&facts, owner.identity);
                            let version = facts.resource_version.as_ref().filter(|_| is_known);
                            let shown = found.shown.entry(owner.identity.uid.clone()).or_default();
                            shown.include(&resource.group_resource, version);
                        }
                    }
                }
                if is_late {
                    if late.len() < LATE_AT_ONCE { late.push(facts) } else { more = true }
                }
            };
            self.context.api.list(resource, self.namespace, visit).await?;
            let release = |facts| self.release_late(resource, facts);
            let released = self.context.releases.each(stream::iter(late), release);
            let released: Vec<Late> = released.collect::<Vec<_>>().await.concat();
            let all_released = released.iter().all(|(_, error)| error.is_none());
            found.late.extend(released);
            if !more || !all_released {
                return Ok(found);
            }
        }
    }

    /// Releases one late dependent from all of the owners that it names.
    async fn release_late(&self, resource: &Arc<ResourceType>, facts: ObjectFacts) -> Vec<Late> {
        let named = self.owners_named(&facts);
        let ObjectFacts { uid, namespace, name, owners: references, .. } = facts;
        let dependent = Identity { resource: Arc::clone(resource), namespace, name, uid };
        let mut found = Vec::new();
        for OrphaningOwner { identity: owner, stage } in named {
            if stage == Stage::Releasing {
                continue;
            }
            let to_owner: Vec<_> = references
                .iter()
                .filter(|reference| names(reference, self.catalog, owner))
                .cloned()
                .collect();
            let removal = ReferenceRemoval::of(&references, to_owner);
            let error = match orphan_dependent(self.context, owner, &dependent, removal.references()).await {
                Err(Interrupted::Api(error)) => Some(error),
                // If the graph has ended, the process is about to end, and nothing is deleted here.
                Ok(_) | Err(Interrupted::Graph(_) | Interrupted::Changed(_) | Interrupted::Braked(_)) => None,
            };
            found.push((owner.uid.clone(), error));
        }
        found
    }

    /// Those of the given owners that an object names, except itself: an object that owns itself is
    /// deleted anyway.
    fn owners_named(&self, facts: &ObjectFacts) -> Vec<OrphaningOwner<'_>> {
        let mut seen = HashSet::new();
        facts
            .owners
            .iter()
            .filter_map(|reference| {
                let owner = *self.owners.get(&reference.uid)?;
                let uid = &owner.identity.uid;
                (facts.uid != *uid && names(reference, self.catalog, owner.identity) && seen.insert(uid))
                    .then_some(owner)
            })
            .collect()
    }

    /// Whether the catalog resolves every reference to this owner, so that none of them matches by
    /// the group alone.
    fn resolves_all_to(&self, facts: &ObjectFacts, owner: &Identity) -> bool {
        let mut named = facts.owners.iter().filter(|reference| names(reference, self.catalog, owner));
        named.all(|reference| self.catalog.resolve(&reference.api_version, &reference.kind).is_some())
    }
}

/// Whether a reference means this owner, by uid, kind and name. If its version does not resolve,
/// the group decides: discovery may not have shown that version yet, and removing a reference
/// deletes nothing.
fn names(reference: &OwnerReference, catalog: &Catalog, owner: &Identity) -> bool {
    let means_its_type = match catalog.resolve(&reference.api_version, &reference.kind) {
        Some(resource) => resource.group_resource == owner.resource.group_resource,
        None => {
            let (group, _) = split_api_version(&reference.api_version);
            *group == *owner.resource.group_resource.group
                && reference.kind.to_lowercase() == owner.resource.kind.to_lowercase()
        }
    };
    reference.uid == owner.uid && *reference.name == *owner.name && means_its_type
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_gc_core::object::{GroupResource, Scope, ServedKind};

    fn reference(api_version: &str, kind: &str) -> OwnerReference {
        OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: "w".into(),
            uid: Uid::parse("u").unwrap(),
            controller: false,
            block_owner_deletion: false,
        }
    }

    #[test]
    fn a_dependent_that_names_an_undiscovered_version_is_not_overlooked() {
        let resource = Arc::new(ResourceType {
            group_resource: GroupResource::parse("widgets.example.com"),
            version: "v1beta1".into(),
            kind: "Widget".into(),
            scope: Scope::Namespaced,
        });
        let mut catalog = Catalog::builder();
        catalog.add(ServedKind { version: "v1beta1".into(), resource: Arc::clone(&resource) });
        let (catalog, namespace) = (catalog.build(), Namespace::parse("ns"));
        let owner = Identity { resource, namespace, name: "w".into(), uid: Uid::parse("u").unwrap() };
        assert!(names(&reference("example.com/v1beta1", "Widget"), &catalog, &owner));
        assert!(names(&reference("example.com/v1", "Widget"), &catalog, &owner));
        assert!(!names(&reference("example.com/v1", "Gadget"), &catalog, &owner));
        assert!(!names(&reference("example.org/v1", "Widget"), &catalog, &owner));
    }
}
