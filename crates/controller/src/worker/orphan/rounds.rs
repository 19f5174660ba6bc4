//! Confirmation rounds: before an orphan finalizer is removed, one consistent list of everything
//! that could still refer to the owner.
//!
//! A dependent whose creation was answered before the DELETE was sent may be late on its watch.
//! kube-controller-manager removes the finalizer without it and then deletes it as dangling
//! (kubernetes#26120). A round begins when the known dependents have been released. It lists all types
//! that can hold dependents, consistently, and releases those that it finds.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use futures::{StreamExt, stream};
use tokio::sync::{oneshot, watch};

use super::look::{Found, Looker, Owners, Seen};
use super::unlistable::{Unlistable, Unlisted};
use crate::actors::pool::Outcome;
use crate::actors::registry::RoundTypes;
use crate::actors::supervision::task;
use crate::worker::WorkContext;
use crate::worker::interrupted::Interrupted;
use kube_gc_client::ApiError;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{GroupResource, Identity, Namespace, Scope};

/// Types that are listed at the same time.
const LISTS_AT_ONCE: usize = 4;

/// Runs rounds. One round serves all owners of a namespace whose deletion was seen before it began:
/// five hundred owners do not cost five hundred rounds.
#[derive(Clone, Debug)]
pub struct Rounds {
    lister: Lister,
    /// Where owners wait for a round: in single namespaces, and in the cluster.
    scopes: Arc<DashMap<Option<Namespace>, Arc<Scoped>>>,
}

/// The owners that wait for the next round, and the turn to run it.
#[derive(Debug, Default)]
struct Scoped {
    waiting: Mutex<Vec<RoundRequest>>,
    turn: tokio::sync::Mutex<()>,
}

/// An owner whose dependents are looked for.
#[derive(Debug)]
struct RoundRequest {
    owner: Identity,
    answer: oneshot::Sender<Result<Confirmed, ApiError>>,
}

impl Rounds {
    /// Rounds for these types. A part of the API of which nothing is known holds owners for `wait`.
    pub fn new(context: WorkContext, types: watch::Receiver<Arc<RoundTypes>>, wait: Duration) -> Self {
        let lister = Lister { context, types, unlistable: Unlistable::new(wait) };
        Self { lister, scopes: Arc::default() }
    }

    /// What becomes of an owner if a part of the API that the round could not list holds it.
    /// `named_by` are the types of its dependents that the graph has shown.
    pub fn hold(
        &self,
        owner: &Identity,
        round: &Confirmed,
        named_by: &BTreeSet<GroupResource>,
    ) -> Option<Outcome> {
        self.lister.unlistable.hold(owner.namespace.as_ref(), &round.unlisted, named_by)
    }

    /// The same without a round, for the groups that were never discovered: it would have nothing of
    /// them either.
    pub fn hold_undiscovered(&self, owner: &Identity) -> Option<Outcome> {
        let parts: Vec<_> = undiscovered(&self.lister.types.borrow()).collect();
        self.lister.unlistable.hold(owner.namespace.as_ref(), &parts, &BTreeSet::new())
    }

    /// Asks for a round that begins after this call, and waits for its end. Whoever has the turn runs
    /// it for all that wait.
    ///
    /// # Errors
    /// When the round could not be completed; the owner's finalizer must stay.
    pub async fn begin(&self, owner: &Identity) -> Result<Confirmed, Interrupted> {
        if mutation::is(Mutation::SkipOrphanRound) {
            return Ok(Confirmed::default());
        }
        let scope = &owner.namespace;
        let scoped = Arc::clone(&self.scopes.entry(scope.clone()).or_default());
        let (answer, answered) = oneshot::channel();
        // Nothing panics while it is locked.
        let waiting = || scoped.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting().push(RoundRequest { owner: owner.clone(), answer });
        let turn = scoped.turn.lock().await;
        let asked = std::mem::take(&mut *waiting());
        if !asked.is_empty() {
            let (lister, scope) = (self.lister.clone(), scope.clone());
            // A task of its own, so that a panic cancels this round alone.
            let _ = task(async move { lister.round(scope, asked).await }).await;
        }
        drop(turn);
        // Nobody else waits: one reference is ours, and the other is that of the map.
        self.scopes.remove_if(scope, |_, scoped| Arc::strong_count(scoped) <= 2);
        match answered.await {
            Ok(confirmed) => Ok(confirmed?),
            Err(_) => Err(Interrupted::Changed("the confirmation round was cancelled")),
        }
    }
}

fn undiscovered(types: &RoundTypes) -> impl Iterator<Item = Unlisted> {
    let all = if mutation::is(Mutation::PassOverUndiscovered) { &[] } else { &*types.undiscovered };
    all.iter().map(Unlisted::undiscovered)
}

/// What a round needs.
#[derive(Clone, Debug)]
struct Lister {
    context: WorkContext,
    types: watch::Receiver<Arc<RoundTypes>>,
    unlistable: Unlistable,
}

impl Lister {
    /// Lists every type that can hold dependents of these owners, and answers them.
    async fn round(&self, scope: Option<Namespace>, asked: Vec<RoundRequest>) {
        let owners: Owners<'_> =
            asked.iter().map(|request| (request.owner.uid.clone(), &request.owner)).collect();
        let context = self.context.now();
        let (mut looks, mut looked_at) = (Vec::new(), HashSet::new());
        let mut unlisted = Vec::new();
        loop {
            // Discovery may have found further types while the lists were read, such as those of a
            // group that did not answer at first.
            let known = Arc::clone(&self.types.borrow());
            let looker = Looker {
                context: &context,
                namespace: scope.as_ref(),
                catalog: &known.catalog,
                owners: &owners,
            };
            let mut holders = Vec::new();
            for holder in &known.types {
                if (scope.is_none() || holder.resource.scope == Scope::Namespaced)
                    && looked_at.insert(holder.resource.group_resource.clone())
                {
                    let looker = &looker;
                    holders.push(async move { (holder.clone(), looker.look(holder).await) });
                }
            }
            if holders.is_empty() {
                // Unlike types, these say nothing of their scope.
                unlisted.extend(undiscovered(&known));
                break;
            }
            looks.extend(stream::iter(holders).buffer_unordered(LISTS_AT_ONCE).collect::<Vec<_>>().await);
        }

        let mut all = Found::new();
        for (holder, found) in looks {
            match found {
                Ok(found) => {
                    self.unlistable.listed(&holder.resource.group_resource, scope.as_ref());
                    for (owner, seen) in found {
                        all.entry(owner).or_default().add(seen);
                    }
                }
                Err(error) => unlisted.push(Unlisted::of_type(&holder, &error)),
            }
        }
        unlisted.sort_by(|a, b| a.what.cmp(&b.what));
        for RoundRequest { owner, answer, .. } in asked {
            let Seen { late, unreleased } = all.get(&owner.uid).cloned().unwrap_or_default();
            let result = match unreleased {
                Some(error) => Err(error),
                None => Ok(Confirmed { late, unlisted: unlisted.clone() }),
            };
            // The worker may have been stopped in the meantime.
            let _ = answer.send(result);
        }
    }
}

/// What a round found for one owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirmed {
    /// Dependents that the graph had not shown; they are released.
    pub late: usize,
    pub unlisted: Vec<Unlisted>,
}
