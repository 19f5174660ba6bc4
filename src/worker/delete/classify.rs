//! Classifies the owner references of one object, and verifies owners that no monitor shows.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesOrdered;
use smallvec::{SmallVec, smallvec};

use super::DeleteWork;
use super::look_ups::{Asker, LOOK_UPS_AT_ONCE, LookedUp};
use crate::actors::graph_handle::Finding;
use crate::actors::pool::Outcome;
use crate::api::{ApiError, ErrorClass, LookupResult};
use crate::telemetry::{Structured, StuckReason, record};
use crate::worker::classified::{Classified, Evidence};
use crate::worker::interrupted::{Interrupted, api_outcome};
use kube_gc_core::graph::{
    LARGE, ObjectSnapshot, OwnerState, OwnerView, Snapshot, Verification, VirtualSnapshot,
};
use kube_gc_core::mailbox::Completion;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::Identity;
use kube_gc_core::text::{LISTED, bounded};
use kube_gc_core::verdict::{GraphClass, ReferenceClass, from_live, from_state};

/// Owners of one object that are looked up before the next object has its turn. The pool takes its
/// objects in turns between namespaces, so this also bounds how far one namespace is ahead.
const LOOK_UPS_A_TURN: usize = 64;
/// References that are classified between two yields, about half a millisecond of work.
const REFERENCES_A_TURN: usize = 256;

/// Yields to other tasks of the thread at regular intervals.
#[derive(Debug, Default)]
struct Turns(usize);

impl Turns {
    /// Counts one more reference.
    async fn next(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(REFERENCES_A_TURN) {
            tokio::task::yield_now().await;
        }
    }
}

/// The result of a classification.
#[derive(Debug)]
pub enum Classification {
    /// The class of each reference, in their order.
    Done(Vec<Classified>),
    /// Some owners of a large object were proved absent, and the graph knows that. The others are
    /// looked up after other objects had their turn.
    GoesOn,
}

/// An owner that has to be looked up.
#[derive(Debug)]
struct Open<'a> {
    /// The references that name it: hardly ever more than one.
    indices: SmallVec<[usize; 1]>,
    identity: &'a Identity,
    /// What the graph knows of it.
    state: OwnerState,
}

/// The result of a look-up.
struct Found {
    classified: Classified,
    /// Whether the graph knows it from now on.
    is_noted: bool,
}

impl DeleteWork {
    /// Classifies every reference, whatever problems some of them have. The owners of a large
    /// object are looked up only as long as their classes can change the decision.
    pub(super) async fn classify(&self, item: &ObjectSnapshot) -> Result<Classification, Interrupted> {
        let asker = Asker::dependent(&item.identity);
        let mut turns = Turns::default();
        let mut classified = Vec::with_capacity(item.references.len());
        let mut open: Vec<Open<'_>> = Vec::new();
        let mut known: HashMap<&Identity, usize> = HashMap::new();
        for (index, seen) in item.references.iter().enumerate() {
            turns.next().await;
            if mutation::is(Mutation::ClassifyTheFirst) && index >= LISTED {
                classified.push(Classified::new(ReferenceClass::Absent, Evidence::Graph));
                continue;
            }
            match self.without_request(&seen.owner).await? {
                Ok(class) => classified.push(class),
                Err((identity, state)) => {
                    classified.push(Classified::not_asked());
                    match known.entry(identity) {
                        Entry::Occupied(same) => open[*same.get()].indices.push(index),
                        Entry::Vacant(new) => {
                            new.insert(open.len());
                            open.push(Open { indices: smallvec![index], identity, state });
                        }
                    }
                }
            }
        }
        let is_large = item.references.len() > LARGE;
        let turn = if is_large { LOOK_UPS_A_TURN } else { open.len().max(1) };
        for some in open.chunks(turn) {
            if is_large && is_hopeless(&classified, &open) {
                break;
            }
            // A few at a time: a slow or broken owner kind must not delay the others, and one
            // object must not fill the memory with requests.
            let (mut next, mut answered) = (some.iter(), some.iter());
            let mut under_way = FuturesOrdered::new();
            under_way.extend(
                next.by_ref().take(LOOK_UPS_AT_ONCE).map(|owner| self.find_out(owner, is_large, &asker)),
            );
            let mut all_noted = true;
            while let Some(found) = under_way.next().await {
                let Found { classified: found, is_noted } = found?;
                under_way.extend(next.next().map(|owner| self.find_out(owner, is_large, &asker)));
                all_noted &= is_noted;
                for &index in answered.next().into_iter().flat_map(|owner| &owner.indices) {
                    classified[index] = found.clone();
                }
            }
            let is_last = some.last().map(|owner| owner.identity) == open.last().map(|owner| owner.identity);
            if all_noted && !is_last {
                return Ok(Classification::GoesOn);
            }
        }
        Ok(Classification::Done(classified))
    }

    /// The class of an owner that is known without a request. Else the owner to look up, and its
    /// state in the graph.
    async fn without_request<'a>(
        &self,
        owner: &'a OwnerView,
    ) -> Result<Result<Classified, (&'a Identity, OwnerState)>, Interrupted> {
        let (identity, state) = match owner {
            OwnerView::InvalidScope => {
                let is_taken_for_absent = mutation::is(Mutation::InvalidScopeIsAbsent);
                let class =
                    if is_taken_for_absent { ReferenceClass::Absent } else { ReferenceClass::InvalidScope };
                return Ok(Ok(Classified::new(class, Evidence::Catalog)));
            }
            OwnerView::Unresolved => return Ok(Ok(Classified::not_served())),
            OwnerView::Remote(identity) => (identity, self.context.graph.owner_state(identity).await?),
            OwnerView::Local { identity, state } => (identity, state.clone()),
        };
        Ok(match self.known(identity, &state) {
            Some(known) => Ok(known),
            None => Err((identity, state)),
        })
    }

    /// The class of an owner by the graph and the absent owner cache, if they suffice.
    fn known(&self, identity: &Identity, state: &OwnerState) -> Option<Classified> {
        let known = match from_state(identity, state) {
            GraphClass::Known(class) => Classified::new(class, Evidence::Graph),
            GraphClass::ConfirmWaiting(identity) => self.confirmed(identity, state)?,
            GraphClass::NeedsLookup(identity) | GraphClass::AskPartition(identity) => {
                let remembered = self.remembered(identity);
                record::absent_owner_lookup(remembered.is_some());
                remembered?
            }
        };
        Some(self.unless_orphaned(identity, known))
    }

    fn confirmed(&self, identity: &Identity, state: &OwnerState) -> Option<Classified> {
        let confirmed = Some(Box::new(self.confirmations.get(identity, state)?));
        Some(Classified { confirmed, ..Classified::new(ReferenceClass::Waiting, Evidence::Live) })
    }

    fn remembered(&self, identity: &Identity) -> Option<Classified> {
        let remembered = self.context.absent_owners.absent.contains(identity);
        remembered.then(|| Classified::new(ReferenceClass::Absent, Evidence::Remembered))
    }

    /// A dependent of an owner whose dependents were orphaned loses its reference and is not
    /// deleted, even if it shows up after the owner has gone.
    fn unless_orphaned(&self, identity: &Identity, mut classified: Classified) -> Classified {
        if classified.class == ReferenceClass::Absent
            && self.context.absent_owners.orphaned.contains(identity)
        {
            classified.class = ReferenceClass::Orphaned;
        }
        classified
    }

    /// Looks an owner up. The owners of large objects are looked up at a limited rate, and the
    /// graph learns which of them are absent, because nothing else verifies them.
    async fn find_out(
        &self,
        owner: &Open<'_>,
        is_large: bool,
        asker: &Arc<Asker>,
    ) -> Result<Found, Interrupted> {
        let Open { identity, state, .. } = owner;
        if !is_large {
            return Ok(Found {
                classified: self.look_up_owner(identity, state, asker).await,
                is_noted: false,
            });
        }
        if let Some(error) = self.look_ups.too_early(identity, asker).await {
            return Ok(Found { classified: failed(&error), is_noted: false });
        }
        let key = identity.key();
        // Another large object may have looked it up in the meantime.
        let state = self.context.graph.owner_state(identity).await?;
        if let GraphClass::Known(class) = from_state(identity, &state) {
            let classified = self.unless_orphaned(identity, Classified::new(class, Evidence::Graph));
            return Ok(Found { is_noted: classified.is_gone(), classified });
        }
        let verified = match self.context.graph.look(&key).await? {
            Snapshot::Virtual(owner) if owner.identity == **identity => Some(owner.generation),
            _ => None,
        };
        let classified = match self.known(identity, &state) {
            Some(known) => known,
            None => {
                self.pace.acquire().await;
                self.look_up_owner(identity, &state, asker).await
            }
        };
        let is_noted = match verified {
            Some(generation) if classified.is_gone() => {
                let verified = self.context.graph.verified(identity, generation, Finding::Absent).await?;
                verified == Verification::Applied
            }
            _ => false,
        };
        Ok(Found { classified, is_noted })
    }

    /// Looks an owner up, unless another worker has just done so.
    async fn look_up_owner(&self, identity: &Identity, state: &OwnerState, asker: &Arc<Asker>) -> Classified {
        let is_to_be_confirmed = matches!(from_state(identity, state), GraphClass::ConfirmWaiting(_));
        let known =
            || if is_to_be_confirmed { self.confirmed(identity, state) } else { self.remembered(identity) };
        // The graph shows an owner that is to be confirmed.
        let asker = (!is_to_be_confirmed).then(|| Arc::clone(asker));
        let classified = |class| Classified::new(class, Evidence::Live);
        let note = |LookedUp { asked, answer }| match answer {
            Ok(LookupResult::Found(facts)) => Classified {
                confirmed: self.confirmations.confirm(identity, state.clone(), &facts, &asked).map(Box::new),
                ..classified(from_live(&facts))
            },
            Ok(LookupResult::Absent(_)) => classified(ReferenceClass::Absent),
            Err(error) => failed(&error),
        };
        let classified = self.look_ups.look_up_unless(identity, asker, known, note).await;
        self.unless_orphaned(identity, classified)
    }
}

/// The class of an owner whose look-up failed.
fn failed(error: &ApiError) -> Classified {
    Classified {
        error: Some(bounded(error).into()),
        retry_after: match error.class {
            ErrorClass::Throttled { retry_after } => retry_after,
            _ => None,
        },
        deferred: matches!(error.class, ErrorClass::Deferred { .. }).then(|| Box::new(error.clone())),
        is_unanswered: error.is_unanswered(),
        ..Classified::new(ReferenceClass::Unresolved, Evidence::Live)
    }
}

/// Whether the remaining lookups cannot change the decision: one owner is unresolved, so the object
/// is not deleted, and no owner is solid, so it loses no reference.
fn is_hopeless(classified: &[Classified], open: &[Open<'_>]) -> bool {
    let has = |class| {
        let mut of_class = classified.iter().filter(|known| known.class == class);
        of_class.any(|known| known.evidence != Evidence::NotAsked)
    };
    !open.is_empty()
        && has(ReferenceClass::Unresolved)
        && !has(ReferenceClass::Solid)
        && !has(ReferenceClass::Orphaned)
}

impl DeleteWork {
    /// Looks up an owner that the graph knows only by references to it.
    pub(super) async fn verify(&self, owner: &VirtualSnapshot) -> Result<Outcome, Interrupted> {
        let VirtualSnapshot { identity, generation } = owner;
        let finding = match self.look_ups.look_up(identity).await.answer {
            Ok(LookupResult::Found(_)) => {
                return Ok(Completion::Retry {
                    reason: StuckReason::NotObserved,
                    error: bounded(format_args!("{identity} exists, but its watch does not show it yet"))
                        .into(),
                });
            }
            Ok(LookupResult::Absent(evidence)) => {
                tracing::debug!(
                    object = Structured::object(identity).logged(),
                    ?evidence,
                    "the owner is absent"
                );
                Finding::Absent
            }
            Err(error) if matches!(error.class, ErrorClass::NotServed) => Finding::NotServed,
            Err(error) => return Ok(not_looked_up(&error)),
        };
        match self.context.graph.verified(identity, *generation, finding).await? {
            Verification::Applied | Verification::Stale => Ok(Completion::Done),
            Verification::Retry => Ok(Completion::Retry {
                reason: StuckReason::NotObserved,
                error: bounded(format_args!(
                    "{identity} does not exist; another owner with this uid is checked next"
                ))
                .into(),
            }),
        }
    }
}

/// A look-up failed. It is retried with backoff, or at once when discovery changes or a type can be
/// listed again, but not before the time that the API server asked for.
fn not_looked_up(error: &ApiError) -> Outcome {
    match (error.class, api_outcome(error)) {
        _ if mutation::is(Mutation::ForgetFailedLookUp) => Completion::Done,
        (ErrorClass::Throttled { .. } | ErrorClass::Deferred { .. }, outcome) => outcome,
        (_, Completion::Retry { error, .. }) => Completion::Retry { reason: StuckReason::Unresolved, error },
        (_, outcome) => outcome,
    }
}
