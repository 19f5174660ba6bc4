//! Confirmation rounds: before an orphan finalizer is removed, one consistent list of everything
//! that could still refer to the owner.
//!
//! A dependent whose creation was answered before the DELETE was sent may be late on its watch.
//! kube-controller-manager removes the finalizer without it and then deletes it as dangling
//! (kubernetes#26120). A round lists all types that can hold dependents, consistently. If the known
//! dependents have been released, the round releases those that it finds. If they are still being
//! released, because there are many, the round returns the version that the graph must reach to
//! know every dependent.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, ResponseFuture, WrapFuture,
};
use futures::{StreamExt, stream};
use tokio::sync::{oneshot, watch};

use super::look::{Horizon, Looker, OrphaningOwner, Owners, TypeDependents};
use super::release::OrphanContext;
use super::unlistable::{Unlistable, Unlisted};
use crate::actors::pool::Outcome;
use crate::actors::registry::{RoundType, RoundTypes};
use crate::actors::supervision::{Vital, task};
use crate::api::ApiError;
use crate::worker::interrupted::Interrupted;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{GroupResource, Identity, Namespace, Scope, Uid};

/// Types that are listed at the same time.
const LISTS_AT_ONCE: usize = 4;

/// Asks for rounds. One round serves all owners of a namespace whose deletion was
/// seen before it began: five hundred owners do not cost five hundred rounds.
#[derive(Debug, Clone)]
pub struct Rounds {
    actor: Addr<RoundsActor>,
    types: watch::Receiver<Arc<RoundTypes>>,
    unlistable: Unlistable,
}

impl Rounds {
    /// Starts the actor that runs the rounds. A part of the API of which nothing is known holds owners
    /// for `wait`.
    pub fn start(context: OrphanContext, types: watch::Receiver<Arc<RoundTypes>>, wait: Duration) -> Self {
        let unlistable = Unlistable::new(wait);
        let actor = RoundsActor {
            context,
            types: types.clone(),
            unlistable: unlistable.clone(),
            scopes: HashMap::new(),
            _vital: Vital("the confirmation rounds"),
        };
        Self { actor: actor.start(), types, unlistable }
    }

    /// What becomes of an owner if a part of the API that the round could not list holds it.
    /// `named_by` are the types of its dependents that the graph has shown.
    pub fn hold(
        &self,
        owner: &Identity,
        round: &Confirmed,
        named_by: &BTreeSet<GroupResource>,
    ) -> Option<Outcome> {
        self.unlistable.hold(owner.namespace.as_ref(), &round.unlisted, named_by)
    }

    /// The same without a round, for the groups that were never discovered: it would have nothing of
    /// them either.
    pub fn hold_undiscovered(&self, owner: &Identity) -> Option<Outcome> {
        let parts: Vec<_> = undiscovered(&self.types.borrow()).collect();
        self.unlistable.hold(owner.namespace.as_ref(), &parts, &BTreeSet::new())
    }

    /// Asks for a round that begins after this call. The future only waits for its end, so the
    /// round takes place whether it is polled or not.
    ///
    /// # Errors
    /// When the round could not be completed; the owner's finalizer must stay.
    pub fn begin(
        &self,
        owner: &Identity,
        stage: Stage,
    ) -> impl Future<Output = Result<Confirmed, Interrupted>> + use<> {
        let skipped = mutation::is(Mutation::SkipOrphanRound);
        let answer = (!skipped).then(|| self.actor.send(Confirm { owner: owner.clone(), stage }));
        async {
            let Some(answer) = answer else { return Ok(Confirmed::default()) };
            match answer.await {
                Ok(Some(Ok(confirmed))) => Ok(confirmed),
                Ok(Some(Err(error))) => Err(Interrupted::Api(error)),
                Ok(None) | Err(_) => Err(Interrupted::Changed("the confirmation round was cancelled")),
            }
        }
    }
}

fn undiscovered(types: &RoundTypes) -> impl Iterator<Item = Unlisted> {
    let all = if mutation::is(Mutation::PassOverUndiscovered) { &[] } else { &*types.undiscovered };
    all.iter().map(Unlisted::undiscovered)
}

type RoundResult = Result<Confirmed, ApiError>;

#[derive(Debug)]
struct RoundRequest {
    owner: Identity,
    stage: Stage,
    answer: oneshot::Sender<RoundResult>,
}

/// One namespace, or the cluster: one round at a time, and the owners that wait for the next.
#[derive(Debug, Default)]
struct Scoped {
    running: bool,
    waiting: Vec<RoundRequest>,
}

#[derive(Debug)]
struct RoundsActor {
    context: OrphanContext,
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
struct Confirm {
    owner: Identity,
    stage: Stage,
}

impl Handler<Confirm> for RoundsActor {
    type Result = ResponseFuture<Option<RoundResult>>;

    fn handle(&mut self, Confirm { owner, stage }: Confirm, ctx: &mut Self::Context) -> Self::Result {
        let (answer, answered) = oneshot::channel();
        let scope = owner.namespace.clone();
        self.scopes.entry(scope.clone()).or_default().waiting.push(RoundRequest { owner, stage, answer });
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
    context: OrphanContext,
    scope: Option<Namespace>,
    types: watch::Receiver<Arc<RoundTypes>>,
    unlistable: Unlistable,
    asked: Vec<RoundRequest>,
) {
    let owners: Owners<'_> = asked
        .iter()
        .map(|RoundRequest { owner, stage, .. }| {
            (owner.uid.clone(), OrphaningOwner { identity: owner, stage: *stage })
        })
        .collect();
    let context = context.now();
    let (mut looks, mut looked_at) = (Vec::new(), HashSet::new());
    let mut unlisted = Vec::new();
    loop {
        // Discovery may have found further types while the lists were read, such as those of a
        // group that did not answer at first.
        let known = Arc::clone(&types.borrow());
        let looker =
            Looker { context: &context, namespace: scope.as_ref(), catalog: &known.catalog, owners: &owners };
        let mut holders = Vec::new();
        for holder in &known.types {
            if (scope.is_none() || holder.resource.scope == Scope::Namespaced)
                && looked_at.insert(holder.resource.group_resource.clone())
            {
                holders.push(looker.look(holder));
            }
        }
        if holders.is_empty() {
            // Unlike types, these say nothing of their scope.
            unlisted.extend(undiscovered(&known));
            break;
        }
        looks.extend(stream::iter(holders).buffer_unordered(LISTS_AT_ONCE).collect::<Vec<_>>().await);
    }

    let (mut late, mut shown): (HashMap<Uid, usize>, HashMap<Uid, Horizon>) = Default::default();
    let mut unreleased = HashMap::new();
    for TypeDependents { resource, followed, found } in looks {
        match found {
            Ok(found) => {
                unlistable.listed(&resource.group_resource, scope.as_ref());
                for (owner, error) in found.late {
                    *late.entry(owner.clone()).or_default() += 1;
                    if let Some(error) = error {
                        unreleased.insert(owner, error);
                    }
                }
                for (owner, horizon) in found.shown {
                    shown.entry(owner).or_default().include_all(&horizon);
                }
            }
            Err(error) => unlisted.push(Unlisted::of_type(&RoundType { resource, followed }, &error)),
        }
    }
    unlisted.sort_by(|a, b| a.what.cmp(&b.what));
    for RoundRequest { owner, answer, .. } in asked {
        let result = match unreleased.remove(&owner.uid) {
            Some(error) => Err(error),
            None => Ok(Confirmed {
                late: late.get(&owner.uid).copied().unwrap_or_default(),
                shown: shown.remove(&owner.uid).unwrap_or_default(),
                unlisted: unlisted.clone(),
            }),
        };
        // The worker may have been stopped in the meantime.
        let _ = answer.send(result);
    }
}

/// The stage of the work on an owner when a round begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The dependents that the graph knows are being released.
    Releasing,
    /// They have been released. Every dependent that the round finds is late.
    Released,
}

/// What a round found for one owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirmed {
    /// Dependents that the graph had not shown; they are released.
    pub late: usize,
    /// The versions at which the round saw dependents that are late or still being released.
    pub shown: Horizon,
    /// What could not be listed.
    pub unlisted: Vec<Unlisted>,
}
