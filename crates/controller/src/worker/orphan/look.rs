//! Lists one type and finds the dependents of owners that orphan their dependents.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};

use super::release::orphan_dependent;
use super::rounds::{RoundRequest, Stage};
use crate::actors::registry::{Followed, Registry, RoundType};
use crate::worker::context::WorkContext;
use crate::worker::interrupted::Interrupted;
use kube_gc_client::{ApiError, ErrorClass, References};
use kube_gc_core::object::{
    Catalog, GroupResource, Identity, Namespace, ObjectFacts, OwnerReference, ResourceType, ResourceVersion,
    Uid, split_api_version,
};

/// Late dependents of one type that are kept in memory at a time. A type whose monitor is not
/// synced may have any number of them.
const LATE_AT_ONCE: usize = 512;
/// How long a list of a type that is not synced may take. Most such types never answer, and all
/// owners of the round wait for them.
const UNSYNCED_AT_MOST: Duration = Duration::from_secs(10);

/// The owners whose dependents are looked for, by uid.
pub type Owners<'a> = HashMap<Uid, &'a RoundRequest>;

/// What there is among some objects, for the uid of each owner.
pub type Found = HashMap<Uid, Seen>;

/// The dependents of one owner.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// How many were late.
    pub late: usize,
    /// Why one of these could not be released.
    pub unreleased: Option<ApiError>,
    /// The versions that the graph must reach to know those that are still being released.
    pub shown: Horizon,
}

impl Seen {
    /// Includes what was seen elsewhere.
    pub fn add(&mut self, other: Self) {
        self.late += other.late;
        self.shown.include_all(&other.shown);
        self.unreleased = other.unreleased.or(self.unreleased.take());
    }
}

/// What a look needs.
#[derive(Clone, Copy, Debug)]
pub struct Looker<'a> {
    /// What releases late dependents.
    pub context: &'a WorkContext,
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
    pub async fn look(&self, RoundType { resource, followed }: &RoundType) -> Result<Found, ApiError> {
        if followed.is_synced() {
            return self.list(resource, *followed).await;
        }
        match self.list_in_time(resource).await {
            Err(_) => self.list_in_time(resource).await,
            found => found,
        }
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
        let mut found = Found::new();
        loop {
            let (mut late, mut has_more) = (Vec::new(), false);
            let visit = |facts: ObjectFacts| {
                let mut is_late = false;
                for RoundRequest { owner, stage, .. } in self.owners_named(&facts) {
                    match stage {
                        Stage::Released => is_late = true,
                        Stage::Releasing => {
                            // The watch and the catalog will show the graph that the object is a
                            // dependent.
                            let is_known =
                                followed == Followed::ByVersion && self.resolves_all_to(&facts, owner);
                            let version = facts.resource_version.as_ref().filter(|_| is_known);
                            let seen = found.entry(owner.uid.clone()).or_default();
                            seen.shown.include(&resource.group_resource, version);
                        }
                    }
                }
                if is_late {
                    if late.len() < LATE_AT_ONCE { late.push(facts) } else { has_more = true }
                }
            };
            self.context.api.list(resource, self.namespace, visit).await?;
            let release = |facts| self.release_late(resource, facts);
            let released = self.context.releases.each(stream::iter(late), release);
            let released = released.collect::<Vec<_>>().await.concat();
            has_more &= released.iter().all(|(_, unreleased)| unreleased.is_none());
            for (owner, unreleased) in released {
                found.entry(owner).or_default().add(Seen { late: 1, unreleased, shown: Horizon::default() });
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
        for RoundRequest { owner, .. } in named.into_iter().filter(|of| of.stage == Stage::Released) {
            let to_owner = references.iter().filter(|reference| names(reference, self.catalog, owner));
            let removed = References::of(&references, to_owner.cloned().collect());
            let released = orphan_dependent(self.context, owner, &dependent, &removed).await;
            let error = match released {
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
    fn owners_named(&self, facts: &ObjectFacts) -> Vec<&RoundRequest> {
        let mut seen = HashSet::new();
        facts
            .owners
            .iter()
            .filter_map(|reference| {
                let request = *self.owners.get(&reference.uid)?;
                let owner = &request.owner;
                let is_named = facts.uid != owner.uid && names(reference, self.catalog, owner);
                (is_named && seen.insert(&owner.uid)).then_some(request)
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

/// The latest relevant version of each type; `None` where versions cannot be compared. A watch
/// delivers the events of a type in the order of their versions (KEP-5504), so a monitor that has
/// reached a version has seen all earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Horizon(BTreeMap<GroupResource, Option<ResourceVersion>>);

impl Horizon {
    /// Includes a version; `None` where versions cannot be compared.
    pub fn include(&mut self, resource: &GroupResource, version: Option<&ResourceVersion>) {
        let Some(latest) = self.0.get_mut(resource) else {
            self.0.insert(resource.clone(), version.cloned());
            return;
        };
        match version.zip(latest.as_ref()).and_then(|(version, latest)| version.partial_cmp(latest)) {
            Some(Ordering::Greater) => *latest = version.cloned(),
            Some(Ordering::Less | Ordering::Equal) => {}
            None => *latest = None,
        }
    }

    /// Includes everything that another horizon includes.
    pub fn include_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(resource, version)| self.include(resource, version.as_ref()));
    }

    /// Waits until the monitors have put all of it into the graph. False if that cannot be known.
    pub async fn reached(&self, registry: &Registry) -> bool {
        for (resource, version) in &self.0 {
            match version {
                Some(version) if registry.reached(resource, version).await => {}
                _ => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use kube_gc_core::object::{Scope, ServedKind};

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

    fn name(resource: &str) -> GroupResource {
        GroupResource::parse(resource)
    }

    fn horizon(seen: &[(&str, Option<&str>)]) -> Horizon {
        let mut horizon = Horizon::default();
        for (resource, version) in seen {
            horizon.include(&name(resource), version.and_then(ResourceVersion::parse).as_ref());
        }
        horizon
    }

    /// Monitors that have come so far.
    fn registry(applied: &[(&str, u64)]) -> Registry {
        let registry = Registry::default();
        for (resource, version) in applied {
            registry.started(&std::sync::Arc::new(ResourceType {
                group_resource: name(resource),
                version: "v1".into(),
                kind: "Thing".into(),
                scope: Scope::Namespaced,
            }));
            registry.applied_up_to(&name(resource), Some(ResourceVersion::number(*version)));
            registry.synced(&name(resource));
        }
        registry
    }

    #[tokio::test]
    async fn a_horizon_is_reached_when_every_type_has_reached_its_latest_version() {
        let horizon = horizon(&[("pods", Some("7")), ("pods", Some("9")), ("secrets", Some("3"))]);
        let registry = registry(&[("pods", 8), ("secrets", 3)]);
        let mut reached = std::pin::pin!(horizon.reached(&registry));
        assert_eq!(reached.as_mut().now_or_never(), None, "pods are at 8");
        registry.applied_up_to(&name("pods"), Some(ResourceVersion::number(9)));
        assert!(reached.await);
    }

    #[tokio::test]
    async fn a_horizon_is_never_reached_without_a_watch_or_ordered_versions() {
        let all = registry(&[("pods", 9)]);
        assert!(horizon(&[("pods", Some("9"))]).reached(&all).await);
        assert!(!horizon(&[("secrets", Some("9"))]).reached(&all).await, "it has no monitor");
        assert!(!horizon(&[("pods", Some("a"))]).reached(&all).await, "the text is no number");
        assert!(!horizon(&[("pods", Some("9")), ("pods", Some("a"))]).reached(&all).await);
        assert!(!horizon(&[("pods", Some("9")), ("pods", None)]).reached(&all).await);
        assert!(all.lost(&name("pods"), "no list".into()));
        assert!(!horizon(&[("pods", Some("9"))]).reached(&all).await, "its monitor has lost track");
    }
}
