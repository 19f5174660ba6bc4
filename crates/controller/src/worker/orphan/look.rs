//! Lists one type and finds the dependents of owners that orphan their dependents.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};

use super::release::orphan_dependent;
use crate::actors::registry::{Followed, RoundType};
use crate::worker::WorkContext;
use crate::worker::interrupted::Interrupted;
use kube_gc_client::{ApiError, ErrorClass, References};
use kube_gc_core::object::{
    Catalog, Identity, Namespace, ObjectFacts, OwnerReference, ResourceType, Uid, split_api_version,
};

/// Late dependents of one type that are kept in memory at a time. A type whose monitor is not
/// synced may have any number of them.
const LATE_AT_ONCE: usize = 512;
/// How long a list of a type that is not synced may take. Most such types never answer, and all
/// owners of the round wait for them.
const UNSYNCED_AT_MOST: Duration = Duration::from_secs(10);

/// The owners whose dependents are looked for, by uid.
pub type Owners<'a> = HashMap<Uid, &'a Identity>;

/// What there is among some objects, for the uid of each owner.
pub type Found = HashMap<Uid, Seen>;

/// The dependents of one owner.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub late: usize,
    /// Why one of these could not be released.
    pub unreleased: Option<ApiError>,
}

impl Seen {
    /// Includes what was seen elsewhere.
    pub fn add(&mut self, other: Self) {
        self.late += other.late;
        self.unreleased = other.unreleased.or(self.unreleased.take());
    }
}

/// What a look needs.
#[derive(Clone, Copy, Debug)]
pub struct Looker<'a> {
    pub context: &'a WorkContext,
    /// Where; `None`: everywhere.
    pub namespace: Option<&'a Namespace>,
    pub catalog: &'a Catalog,
    pub owners: &'a Owners<'a>,
}

impl Looker<'_> {
    /// Lists one type. A type that is not synced gets a second try, because nothing else would show
    /// its dependents.
    pub async fn look(&self, RoundType { resource, followed }: &RoundType) -> Result<Found, ApiError> {
        if *followed == Followed::Synced {
            return self.list(resource).await;
        }
        match self.list_in_time(resource).await {
            Err(_) => self.list_in_time(resource).await,
            found => found,
        }
    }

    async fn list_in_time(&self, resource: &Arc<ResourceType>) -> Result<Found, ApiError> {
        let list = self.list(resource);
        tokio::time::timeout(UNSYNCED_AT_MOST, list).await.unwrap_or_else(|_| {
            let message = format!("no list within {} s", UNSYNCED_AT_MOST.as_secs());
            Err(ApiError::new(ErrorClass::Transient, "LIST", resource.group_resource.to_string(), message))
        })
    }

    /// Lists the type, and releases every object of it that is late.
    async fn list(&self, resource: &Arc<ResourceType>) -> Result<Found, ApiError> {
        let mut found = Found::new();
        loop {
            let (mut late, mut has_more) = (Vec::new(), false);
            let visit = |facts: ObjectFacts| {
                if !self.owners_named(&facts).is_empty() {
                    if late.len() < LATE_AT_ONCE { late.push(facts) } else { has_more = true }
                }
            };
            self.context.api.list(resource, self.namespace, None, visit).await?;
            let release = |facts| self.release_late(resource, facts);
            let released = self.context.releases.each(stream::iter(late), release);
            let released = released.collect::<Vec<_>>().await.concat();
            has_more &= released.iter().all(|(_, unreleased)| unreleased.is_none());
            for (owner, unreleased) in released {
                found.entry(owner).or_default().add(Seen { late: 1, unreleased });
            }
            if !has_more {
                return Ok(found);
            }
        }
    }

    /// Releases one late dependent from all of the owners that it names. Returns the uid of each, and
    /// why it could not be released.
    async fn release_late(
        &self,
        resource: &Arc<ResourceType>,
        facts: ObjectFacts,
    ) -> Vec<(Uid, Option<ApiError>)> {
        let named = self.owners_named(&facts);
        let ObjectFacts { uid, namespace, name, owners: references, .. } = facts;
        let dependent = Identity { resource: Arc::clone(resource), namespace, name, uid };
        let mut found = Vec::new();
        for owner in named {
            let to_owner = references.iter().filter(|reference| names(reference, self.catalog, owner));
            let removed = References::of(&references, to_owner.cloned().collect());
            let released = orphan_dependent(self.context, owner, &dependent, &removed).await;
            let error = match released {
                Err(Interrupted::Api(error)) => Some(error),
                // If the graph has ended, the process is about to end, and nothing is deleted here.
                Ok(()) | Err(Interrupted::Graph(_) | Interrupted::Changed(_) | Interrupted::Braked(_)) => {
                    None
                }
            };
            found.push((owner.uid.clone(), error));
        }
        found
    }

    /// Those of the given owners that an object names, except itself: an object that owns itself is
    /// deleted anyway.
    fn owners_named(&self, facts: &ObjectFacts) -> Vec<&Identity> {
        let mut seen = HashSet::new();
        facts
            .owners
            .iter()
            .filter_map(|reference| {
                let owner = *self.owners.get(&reference.uid)?;
                let is_named = facts.uid != owner.uid && names(reference, self.catalog, owner);
                (is_named && seen.insert(&owner.uid)).then_some(owner)
            })
            .collect()
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
    use kube_gc_core::object::{Scope, ServedKind};

    #[test]
    fn a_dependent_that_names_an_undiscovered_version_is_not_overlooked() {
        let resource = ResourceType::of("widgets.example.com", "v1beta1", "Widget", Scope::Namespaced);
        let mut catalog = Catalog::builder();
        catalog.add(ServedKind { version: "v1beta1".into(), resource: Arc::clone(&resource) });
        let (catalog, namespace) = (catalog.build(), Namespace::parse("ns"));
        let owner = Identity { resource, namespace, name: "w".into(), uid: Uid::parse("u").unwrap() };
        for (api_version, kind, is_named) in [
            ("example.com/v1beta1", "Widget", true),
            ("example.com/v1", "Widget", true),
            ("example.com/v1", "Gadget", false),
            ("example.org/v1", "Widget", false),
        ] {
            let (api_version, kind) = (api_version.into(), kind.into());
            let reference = OwnerReference { api_version, kind, ..owner.reference() };
            assert_eq!(names(&reference, &catalog, &owner), is_named, "{reference:?}");
        }
    }
}
