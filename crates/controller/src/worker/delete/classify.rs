//! Classifies the owner references of one object, and verifies owners that no monitor shows.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesOrdered;
use smallvec::{SmallVec, smallvec};

use super::DeleteWork;
use super::look_ups::{Asker, LOOK_UPS_AT_ONCE, LookedUp};
use crate::actors::pool::Outcome;
use crate::worker::classified::{Classified, Evidence};
use crate::worker::interrupted::{Interrupted, api_outcome};
use kube_gc_client::{AbsenceProof, ApiError, ErrorClass, LookupResult};
use kube_gc_core::graph::{Finding, Generation, LARGE, ObjectSnapshot, OwnerState, Snapshot, Verification};
use kube_gc_core::mailbox::{Completion, Wait};
use kube_gc_core::object::Identity;
use kube_gc_core::text::bounded;
use kube_gc_core::verdict::{ReferenceClass, from_live, from_state, named};
use kube_gc_observe::telemetry::{Structured, StuckReason, record};

/// Owners of one object that are looked up before the next object has its turn. The pool takes its
/// objects in turns between namespaces, so this also bounds how far one namespace is ahead.
const LOOK_UPS_A_TURN: usize = 64;
/// References that are classified between two yields, about half a millisecond of work.
const REFERENCES_A_TURN: usize = 256;

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
    state: OwnerState,
}

impl DeleteWork {
    /// Classifies every reference, whatever problems some of them have. The owners of a large
    /// object are looked up only as long as their classes can change the decision.
    pub(super) async fn classify(&self, item: &ObjectSnapshot) -> Result<Classification, Interrupted> {
        let asker = Asker::new(&item.identity, true);
        let mut classified = Vec::with_capacity(item.references.len());
        let mut open: Vec<Open<'_>> = Vec::new();
        let mut known: HashMap<&Identity, usize> = HashMap::new();
        for (index, seen) in item.references.iter().enumerate() {
            if (index + 1).is_multiple_of(REFERENCES_A_TURN) {
                tokio::task::yield_now().await;
            }
            let (identity, state) = match named(&seen.owner) {
                Err(class) => {
                    classified.push(Classified::of_nobody(class));
                    continue;
                }
                Ok((identity, Some(state))) => (identity, state.clone()),
                Ok((identity, None)) => (identity, self.context.graph.owner_state(identity).await?),
            };
            if let Some(known) = self.known(identity, &state) {
                classified.push(known);
                continue;
            }
            classified.push(Classified::new(ReferenceClass::Unresolved, Evidence::NotAsked));
            match known.entry(identity) {
                Entry::Occupied(same) => open[*same.get()].indices.push(index),
                Entry::Vacant(new) => {
                    new.insert(open.len());
                    open.push(Open { indices: smallvec![index], identity, state });
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
                let (found, is_noted) = found?;
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

    /// The class of an owner that is known without a request: by the graph, an earlier
    /// confirmation, or the absent owner cache.
    fn known(&self, identity: &Identity, state: &OwnerState) -> Option<Classified> {
        let known = match from_state(state) {
            Some(class) => {
                Classified { proof: AbsenceProof::of_graph(state), ..Classified::new(class, Evidence::Graph) }
            }
            None if *state == OwnerState::Unknown => {
                let remembered = self.remembered(identity);
                record::absent_owner_lookup(remembered.is_some());
                remembered?
            }
            None => self.confirmed(identity, state)?,
        };
        Some(self.unless_orphaned(identity, known))
    }

    fn confirmed(&self, identity: &Identity, state: &OwnerState) -> Option<Classified> {
        let confirmed = Some(Box::new(self.confirmations.get(identity, state)?));
        Some(Classified { confirmed, ..Classified::new(ReferenceClass::Waiting, Evidence::Live) })
    }

    fn remembered(&self, identity: &Identity) -> Option<Classified> {
        let remembered = self.context.absent_owners.absent.get(identity);
        remembered.map(|proof| Classified::absent(proof, Evidence::Remembered))
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
    /// graph learns which of them are absent, because nothing else verifies them. Returns whether it
    /// knows that.
    async fn find_out(
        &self,
        Open { identity, state, .. }: &Open<'_>,
        is_large: bool,
        asker: &Arc<Asker>,
    ) -> Result<(Classified, bool), Interrupted> {
        if !is_large {
            return Ok((self.look_up_owner(identity, state, asker).await, false));
        }
        if let Some(error) = self.look_ups.too_early(identity, asker).await {
            return Ok((Classified::failed(error), false));
        }
        let graph = &self.context.graph;
        // Another large object may have looked it up in the meantime.
        let state = graph.owner_state(identity).await?;
        let generation = match graph.look(&identity.key()).await? {
            Snapshot::Virtual { identity: named, generation } if named == **identity => Some(generation),
            _ => None,
        };
        let classified = match self.known(identity, &state) {
            Some(known) => known,
            None => {
                self.pace.acquire().await;
                self.look_up_owner(identity, &state, asker).await
            }
        };
        let is_noted = match generation {
            _ if !classified.is_gone() => false,
            _ if state == OwnerState::Absent => true,
            Some(generation) => {
                let verified = graph.verified(identity, generation, Finding::Absent).await?;
                verified == Verification::Applied
            }
            None => false,
        };
        Ok((classified, is_noted))
    }

    /// Looks an owner up, unless another worker has just done so.
    async fn look_up_owner(&self, identity: &Identity, state: &OwnerState, asker: &Arc<Asker>) -> Classified {
        // The graph shows an owner whose foreground deletion is to be confirmed.
        let is_shown = *state != OwnerState::Unknown;
        let known = || if is_shown { self.confirmed(identity, state) } else { self.remembered(identity) };
        let asker = (!is_shown).then(|| Arc::clone(asker));
        let classified = |class| Classified::new(class, Evidence::Live);
        let note = |LookedUp { asked, answer }| match answer {
            Ok(LookupResult::Found(facts)) => Classified {
                confirmed: self.confirmations.confirm(identity, state.clone(), &facts, &asked).map(Box::new),
                ..classified(from_live(&facts))
            },
            Ok(LookupResult::Absent(proof)) => Classified::absent(proof, Evidence::Live),
            Err(error) => Classified::failed(error),
        };
        let classified =
            self.look_ups.look_up_unless(None, (identity, state.version()), asker, known, note).await;
        self.unless_orphaned(identity, classified)
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
    pub(super) async fn verify(
        &self,
        identity: &Identity,
        generation: Generation,
    ) -> Result<Outcome, Interrupted> {
        let finding = match self.look_ups.look_up(identity).await.answer {
            Ok(LookupResult::Found(_)) => {
                let error = format_args!("{identity} exists, but its watch does not show it yet");
                return Ok(Completion::retry(StuckReason::NotObserved, bounded(error)));
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
        match self.context.graph.verified(identity, generation, finding).await? {
            Verification::Applied | Verification::Stale => Ok(Completion::Done),
            Verification::Retry => {
                let error =
                    format_args!("{identity} does not exist; another owner with this uid is checked next");
                Ok(Completion::retry(StuckReason::NotObserved, bounded(error)))
            }
        }
    }
}

/// A look-up failed. It is retried with backoff, or at once when discovery changes or a type can be
/// listed again, but not before the time that the API server asked for.
fn not_looked_up(error: &ApiError) -> Outcome {
    match (error.class, api_outcome(error)) {
        (ErrorClass::Throttled { .. } | ErrorClass::Deferred { .. }, outcome) => outcome,
        (_, Completion::Later { error, wait: Wait::Backoff, .. }) => {
            Completion::retry(StuckReason::Unresolved, error)
        }
        (_, outcome) => outcome,
    }
}
