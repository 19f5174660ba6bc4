//! Confirmation rounds: before an orphan finalizer goes, one consistent look at
//! everything that could still refer to the owner.
//!
//! A dependent whose creation was answered before the DELETE was sent may be late
//! on its watch. kube-controller-manager removes the finalizer without it and
//! then deletes it as dangling (kubernetes#26120). A round lists what can hold
//! dependents, consistently, and releases what it finds.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use actix::{Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, ResponseFuture, WrapFuture};
use futures::StreamExt;
use futures::stream;
use tokio::sync::{oneshot, watch};

use super::PATCHES_AT_ONCE;
use crate::actors::context::{Interrupted, WorkerContext};
use crate::actors::release::release;
use crate::api::ApiError;
use crate::object::{Catalog, GroupResource, Identity, Namespace, ObjectFacts, ResourceType, Scope, Uid};

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
        Self(RoundsActor { context, types, scopes: HashMap::new() }.start())
    }

    /// Resolves after a round that began after this call.
    ///
    /// # Errors
    /// When the round could not be completed; the owner's finalizer must stay.
    pub async fn confirm(&self, owner: &Identity) -> Result<Confirmed, Interrupted> {
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
    scopes: HashMap<Option<Namespace>, Scoped>,
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
        let types = Arc::clone(&self.types.borrow());
        // On the thread pool: a round decodes lists.
        let round = tokio::spawn(round(self.context.clone(), scope.clone(), types, asked));
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
async fn round(context: WorkerContext, scope: Option<Namespace>, types: Arc<RoundTypes>, asked: Vec<Asked>) {
    let owners: HashMap<Uid, &Identity> = asked.iter().map(|asked| (asked.owner.uid.clone(), &asked.owner)).collect();
    let holders = types.types.iter().filter(|(resource, _)| {
        scope.is_none() || resource.scope == Scope::Namespaced
    });
    let results: Vec<_> = stream::iter(holders)
        .map(|(resource, synced)| {
            let (context, scope, types, owners) = (&context, scope.as_ref(), &types, &owners);
            async move {
                let mut found = release_in(context, resource, scope, &types.catalog, owners).await;
                if found.is_err() && !synced {
                    found = release_in(context, resource, scope, &types.catalog, owners).await;
                }
                (resource, *synced, found)
            }
        })
        .buffer_unordered(LISTS_AT_ONCE)
        .collect()
        .await;

    let mut late: HashMap<Uid, usize> = HashMap::new();
    let (mut skipped, mut failed, mut unreleased) = (Vec::new(), None, HashMap::new());
    for (resource, synced, found) in results {
        match found {
            Ok(found) => {
                for (owner, error) in found {
                    *late.entry(owner.clone()).or_default() += 1;
                    if let Some(error) = error {
                        unreleased.insert(owner, error);
                    }
                }
            }
            // One broken type must not block every orphaning.
            Err(_) if !synced => skipped.push(resource.group_resource.clone()),
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
    let mut continue_token = None;
    loop {
        let page = context.api.list_page(resource, namespace, continue_token.as_deref()).await?;
        let hits = page.items.iter().flat_map(|facts| {
            owners_named(facts, catalog, owners).into_iter().map(move |owner| (facts, owner))
        });
        let released: Vec<Found> = stream::iter(hits)
            .map(|(facts, owner)| async move {
                let dependent = Identity {
                    resource: Arc::clone(resource),
                    namespace: facts.namespace.clone(),
                    name: facts.name.clone(),
                    uid: facts.uid.clone(),
                };
                let to_owner: Vec<_> =
                    facts.owners.iter().filter(|reference| names(reference, catalog, owner)).cloned().collect();
                let result = release(context, owner, &dependent, &facts.owners, &to_owner).await;
                let error = match result {
                    Err(Interrupted::Api(error)) => Some(error),
                    // The graph's end is the process's end.
                    Ok(()) | Err(_) => None,
                };
                (owner.uid.clone(), error)
            })
            .buffer_unordered(PATCHES_AT_ONCE)
            .collect()
            .await;
        found.extend(released);
        continue_token = page.continue_token;
        if continue_token.is_none() {
            return Ok(found);
        }
    }
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
            (facts.uid != owner.uid && names(reference, catalog, owner) && seen.insert(&owner.uid)).then_some(owner)
        })
        .collect()
}

/// Whether a reference means this owner: its uid, kind and name.
fn names(reference: &crate::object::OwnerReference, catalog: &Catalog, owner: &Identity) -> bool {
    reference.uid == owner.uid
        && reference.name == owner.name
        && catalog
            .resolve(&reference.api_version, &reference.kind)
            .is_some_and(|resource| resource.group_resource == owner.resource.group_resource)
}
