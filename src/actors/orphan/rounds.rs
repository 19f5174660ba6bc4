//! Confirmation rounds: before an orphan finalizer goes, one consistent look at
//! everything that could still refer to the owner.
//!
//! A dependent whose creation was answered before the DELETE was sent may be late
//! on its watch. kube-controller-manager removes the finalizer without it and
//! then deletes it as dangling (kubernetes#26120). A round lists what can hold
//! dependents, consistently, and releases what it finds.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, ResponseFuture, WrapFuture,
};
use futures::StreamExt;
use futures::stream;
use tokio::sync::{oneshot, watch};

use super::unlistable::Unlistable;
use crate::actors::context::{Interrupted, WorkerContext};
use crate::actors::release::{Removal, release};
use crate::actors::supervision::{Vital, task};
use crate::api::{ApiError, ErrorClass};
use crate::mutation::{self, Mutation};
use crate::object::{
    Catalog, GroupResource, Identity, Namespace, ObjectFacts, OwnerReference, ResourceType, Scope, Uid,
    split_api_version,
};

/// Late dependents of one type that are held at a time: a type whose monitor is
/// not synced may have any number of them.
const LATE_AT_ONCE: usize = 512;
/// How long a list of a type that is not synced may take: most such types never
/// answer, and everybody in the round waits for them.
const UNSYNCED_AT_MOST: Duration = Duration::from_secs(10);
/// Types that are listed at the same time.
const LISTS_AT_ONCE: usize = 4;

/// What a round has to list: published by discovery.
#[derive(Clone, Debug, Default)]
pub struct RoundTypes {
    /// Every monitored type and whether its monitor is synced.
    pub types: Vec<(Arc<ResourceType>, bool)>,
    /// Resolves the references that are found.
    pub catalog: Arc<Catalog>,
}

/// What a round found for one owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirmed {
    /// Dependents that the graph had not shown; they are released.
    pub late: usize,
    /// Types that could not be listed and are not synced either.
    pub skipped: Vec<GroupResource>,
}

/// Asks for rounds. One round serves all owners of a namespace whose deletion was
/// seen before it began: five hundred owners do not cost five hundred rounds.
#[derive(Debug, Clone)]
pub struct Rounds(Addr<RoundsActor>);

impl Rounds {
    /// Starts the actor that runs the rounds.
    #[must_use]
    pub fn start(context: WorkerContext, types: watch::Receiver<Arc<RoundTypes>>) -> Self {
        Self(
            RoundsActor {
                context,
                types,
                unlistable: Unlistable::default(),
                scopes: HashMap::new(),
                _vital: Vital("the confirmation rounds"),
            }
            .start(),
        )
    }

    /// Resolves after a round that began after this call.
    ///
    /// # Errors
    /// When the round could not be completed; the owner's finalizer must stay.
    pub async fn confirm(&self, owner: &Identity) -> Result<Confirmed, Interrupted> {
        if mutation::is(Mutation::SkipOrphanRound) {
            return Ok(Confirmed::default());
        }
        match self.0.send(Confirm(owner.clone())).await {
            Ok(Some(Ok(confirmed))) => Ok(confirmed),
            Ok(Some(Err(error))) => Err(Interrupted::Api(error)),
            Ok(None) | Err(_) => Err(Interrupted::Changed("the confirmation round was given up")),
        }
    }
}

type RoundResult = Result<Confirmed, ApiError>;

#[derive(Debug)]
struct Asked {
    owner: Identity,
    answer: oneshot::Sender<RoundResult>,
}

/// One namespace, or the cluster: a round at a time, and who waits for the next.
#[derive(Debug, Default)]
struct Scoped {
    running: bool,
    waiting: Vec<Asked>,
}

#[derive(Debug)]
struct RoundsActor {
    context: WorkerContext,
    types: watch::Receiver<Arc<RoundTypes>>,
    unlistable: Unlistable,
    scopes: HashMap<Option<Namespace>, Scoped>,
    _vital: Vital,
}

impl Actor for RoundsActor {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "Option<RoundResult>")]
struct Confirm(Identity);

impl Handler<Confirm> for RoundsActor {
    type Result = ResponseFuture<Option<RoundResult>>;

    fn handle(&mut self, Confirm(owner): Confirm, ctx: &mut Self::Context) -> Self::Result {
        let (answer, answered) = oneshot::channel();
        let scope = owner.namespace.clone();
        self.scopes.entry(scope.clone()).or_default().waiting.push(Asked { owner, answer });
        self.next_round(&scope, ctx);
        Box::pin(async { answered.await.ok() })
    }
}

impl RoundsActor {
    fn next_round(&mut self, scope: &Option<Namespace>, ctx: &mut Context<Self>) {
        let Some(scoped) = self.scopes.get_mut(scope) else { return };
        if scoped.running {
            return;
        }
        if scoped.waiting.is_empty() {
            self.scopes.remove(scope);
            return;
        }
        scoped.running = true;
        let asked = std::mem::take(&mut scoped.waiting);
        let types = self.types.clone();
        // On the thread pool: a round decodes lists.
        let unlistable = self.unlistable.clone();
        let round = task(round(self.context.clone(), scope.clone(), types, unlistable, asked));
        let scope = scope.clone();
        ctx.spawn(round.into_actor(self).map(move |_, actor, ctx| {
            if let Some(scoped) = actor.scopes.get_mut(&scope) {
                scoped.running = false;
            }
            actor.next_round(&scope, ctx);
        }));
    }
}

/// Lists every type that can hold dependents of these owners, and answers them.
async fn round(
    context: WorkerContext,
    scope: Option<Namespace>,
    types: watch::Receiver<Arc<RoundTypes>>,
    unlistable: Unlistable,
    asked: Vec<Asked>,
) {
    let owners: HashMap<Uid, &Identity> =
        asked.iter().map(|asked| (asked.owner.uid.clone(), &asked.owner)).collect();
    let (mut results, mut looked_at) = (Vec::new(), HashSet::new());
    loop {
        // Discovery may have found more while the lists were read: a group that did not
        // answer at first.
        let known = Arc::clone(&types.borrow());
        let mut holders = Vec::new();
        for (resource, synced) in &known.types {
            if (scope.is_none() || resource.scope == Scope::Namespaced)
                && looked_at.insert(resource.group_resource.clone())
            {
                holders.push(list_twice(
                    &context,
                    resource,
                    *synced,
                    scope.as_ref(),
                    &known.catalog,
                    &owners,
                ));
            }
        }
        if holders.is_empty() {
            break;
        }
        results.extend(stream::iter(holders).buffer_unordered(LISTS_AT_ONCE).collect::<Vec<_>>().await);
    }

    let mut late: HashMap<Uid, usize> = HashMap::new();
    let (mut skipped, mut failed, mut unreleased) = (Vec::new(), None, HashMap::new());
    for (resource, synced, found) in results {
        match found {
            Ok(found) => {
                unlistable.listed(&resource.group_resource);
                for (owner, error) in found {
                    *late.entry(owner.clone()).or_default() += 1;
                    if let Some(error) = error {
                        unreleased.insert(owner, error);
                    }
                }
            }
            // One broken type must not block every orphaning.
            Err(_) if !synced || unlistable.failed(&resource.group_resource) => {
                skipped.push(resource.group_resource.clone());
            }
            Err(error) => failed = Some(error),
        }
    }
    skipped.sort();
    for Asked { owner, answer } in asked {
        let result = match (unreleased.remove(&owner.uid), &failed) {
            (Some(error), _) => Err(error),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => {
                let late = late.get(&owner.uid).copied().unwrap_or_default();
                Ok(Confirmed { late, skipped: skipped.clone() })
            }
        };
        // The worker may have been stopped meanwhile.
        let _ = answer.send(result);
    }
}

/// A type that is not synced is given a second try: it cannot be skipped lightly,
/// since nothing else would show its dependents.
async fn list_twice(
    context: &WorkerContext,
    resource: &Arc<ResourceType>,
    synced: bool,
    scope: Option<&Namespace>,
    catalog: &Catalog,
    owners: &HashMap<Uid, &Identity>,
) -> (Arc<ResourceType>, bool, Result<Vec<Found>, ApiError>) {
    if synced {
        return (Arc::clone(resource), synced, release_in(context, resource, scope, catalog, owners).await);
    }
    let attempt = || async {
        let list = release_in(context, resource, scope, catalog, owners);
        tokio::time::timeout(UNSYNCED_AT_MOST, list).await.unwrap_or_else(|_| {
            Err(ApiError {
                class: ErrorClass::Transient,
                action: "LIST",
                target: resource.group_resource.to_string(),
                message: format!("no list within {} s", UNSYNCED_AT_MOST.as_secs()),
                code: None,
            })
        })
    };
    let mut found = attempt().await;
    if found.is_err() {
        found = attempt().await;
    }
    (Arc::clone(resource), synced, found)
}

/// One late dependent of an owner; with an error if it could not be released.
type Found = (Uid, Option<ApiError>);

/// Lists one type and releases every object of it that refers to one of the owners.
async fn release_in(
    context: &WorkerContext,
    resource: &Arc<ResourceType>,
    namespace: Option<&Namespace>,
    catalog: &Catalog,
    owners: &HashMap<Uid, &Identity>,
) -> Result<Vec<Found>, ApiError> {
    let mut found = Vec::new();
    loop {
        let mut late = Vec::new();
        let mut more = false;
        let visit = |facts: ObjectFacts| {
            if owners_named(&facts, catalog, owners).is_empty() {
            } else if late.len() < LATE_AT_ONCE {
                late.push(facts);
            } else {
                more = true;
            }
        };
        context.api.list(resource, namespace, visit).await?;
        let release = |facts| release_late(context, resource, facts, catalog, owners);
        let released = context.releases.each(stream::iter(late), release);
        let released: Vec<Found> = released.collect::<Vec<_>>().await.concat();
        let all_released = released.iter().all(|(_, error)| error.is_none());
        found.extend(released);
        if !more || !all_released {
            return Ok(found);
        }
    }
}

/// Releases one late dependent from all of the owners that it names.
async fn release_late(
    context: &WorkerContext,
    resource: &Arc<ResourceType>,
    facts: ObjectFacts,
    catalog: &Catalog,
    owners: &HashMap<Uid, &Identity>,
) -> Vec<Found> {
    let named = owners_named(&facts, catalog, owners);
    let ObjectFacts { uid, namespace, name, owners: references, .. } = facts;
    let dependent = Identity { resource: Arc::clone(resource), namespace, name, uid };
    let mut found = Vec::new();
    for owner in named {
        let to_owner: Vec<_> =
            references.iter().filter(|reference| names(reference, catalog, owner)).cloned().collect();
        let removal = Removal::of(&references, to_owner);
        let error = match release(context, owner, &dependent, removal.references()).await {
            Err(Interrupted::Api(error)) => Some(error),
            // The graph's end is the process's end; and nothing is deleted here.
            Ok(()) | Err(Interrupted::Graph(_) | Interrupted::Changed(_) | Interrupted::Braked(_)) => None,
        };
        found.push((owner.uid.clone(), error));
    }
    found
}

/// The owners, of those in question, that an object names. Not itself: an object
/// that owns itself loses nothing by going.
fn owners_named<'a>(
    facts: &ObjectFacts,
    catalog: &Catalog,
    owners: &HashMap<Uid, &'a Identity>,
) -> Vec<&'a Identity> {
    let mut seen = HashSet::new();
    facts
        .owners
        .iter()
        .filter_map(|reference| {
            let owner = *owners.get(&reference.uid)?;
            (facts.uid != owner.uid && names(reference, catalog, owner) && seen.insert(&owner.uid))
                .then_some(owner)
        })
        .collect()
}

/// Whether a reference means this owner: its uid, kind and name. Where its version
/// does not resolve, the group decides: discovery may not have shown that version yet,
/// and nobody dies of a reference that goes.
fn names(reference: &OwnerReference, catalog: &Catalog, owner: &Identity) -> bool {
    let means_its_type = match catalog.resolve(&reference.api_version, &reference.kind) {
        Some(resource) => resource.group_resource == owner.resource.group_resource,
        None => {
            let (group, _) = split_api_version(&reference.api_version);
            *group == *owner.resource.group_resource.group
                && reference.kind.to_lowercase() == owner.resource.kind.to_lowercase()
        }
    };
    reference.uid == owner.uid && reference.name == owner.name && means_its_type
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ServedKind;

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
    fn a_dependent_through_a_version_that_discovery_has_not_shown_is_not_overlooked() {
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
