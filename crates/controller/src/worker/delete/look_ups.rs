//! Live look-ups of owners: one request at a time for each identity, and what they prove.
//!
//! An owner that a look-up did not find may still be in admission (rules 1.28 and 1.29). The API
//! server assigns the uid of an object before admission. A webhook that has learned it can create or
//! adopt a dependent before the owner is stored, and a GET of the owner truthfully finds nothing.
//! Whoever names an owner knows its uid. So if one dependent has named it for longer than the longest
//! admission, it is not in admission any more, and the absence counts for all dependents.

use std::sync::Arc;
use std::time::Duration;

use dashmap::{DashMap, Entry};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::actors::absent_owner_cache::{AbsentOwnerCache, IdentityCache};
use kube_gc_client::{Api, ApiError, ErrorClass, LookupResult, RestoreFence, WriteSlot};
use kube_gc_core::graph::OwnerState;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{Identity, ObjectFacts, ResourceVersion};
use kube_gc_core::verdict::Confirmation;

/// The timeout of a look-up. It is shorter than that of a write: a look-up occupies a worker, and
/// can be repeated without harm.
const AT_MOST: Duration = Duration::from_secs(5);

/// How many owners of one object are looked up at the same time, so that one slow or broken owner
/// kind does not delay the others.
pub(super) const LOOK_UPS_AT_ONCE: usize = 8;

#[derive(Clone, Debug)]
pub struct SentAt {
    /// A caller that joins a look-up gets an answer that is as old as the request.
    pub at: Instant,
    pub under: u64,
}

/// What a look-up found.
#[derive(Clone, Debug)]
pub struct LookedUp {
    pub asked: SentAt,
    pub answer: Result<LookupResult, ApiError>,
}

/// Looks owners up. Dependents that need the same owner at the same time share one request.
#[derive(Debug, Clone)]
pub struct LookUps {
    api: Api,
    absent_owners: Arc<AbsentOwnerCache>,
    births: Births,
    in_flight: InFlight,
    /// Lookups by workers whose turn has come. They must not join other lookups: those wait for
    /// slots, which may all be held by the workers that would wait for them.
    on_turns: InFlight,
}

impl LookUps {
    /// Look-ups that remember what they prove absent.
    pub fn new(api: Api, absent_owners: Arc<AbsentOwnerCache>, births: Births) -> Self {
        Self { api, absent_owners, births, in_flight: InFlight::default(), on_turns: InFlight::default() }
    }

    /// Looks an identity up, live, for no dependent in particular.
    pub async fn look_up(&self, identity: &Identity) -> LookedUp {
        let asker = Some(Asker::new(identity, false));
        self.look_up_unless(None, (identity, None), asker, || None, |looked_up| looked_up).await
    }

    /// Why a look-up for this object would be too early to prove an absence.
    pub async fn too_early(&self, owner: &Identity, asker: &Asker) -> Option<ApiError> {
        self.births.too_early(&self.api.within(AT_MOST), owner, asker, Instant::now()).await
    }

    /// Looks an identity up live by one request for all callers that ask at the same time, unless
    /// `known` has the answer as soon as no other lookup of it is in progress. The result is passed to
    /// `note`, which stores it for `known`. There is no asker if a watch or a list has shown the
    /// object, at the version `seen`: it is past admission. A worker whose `turn` has come does not wait.
    pub async fn look_up_unless<T>(
        &self,
        turn: Option<&WriteSlot>,
        (identity, seen): (&Identity, Option<&ResourceVersion>),
        asker: Option<Arc<Asker>>,
        known: impl FnOnce() -> Option<T>,
        note: impl FnOnce(LookedUp) -> T,
    ) -> T {
        let (requests, api) = match turn {
            Some(turn) => (&self.on_turns, turn.api().clone()),
            None => (&self.in_flight, self.api.clone()),
        };
        let asked = self.asked();
        let number = asked.under;
        let births = self.births.clone();
        let send = || {
            // A look-up that is joined may be older than what its caller has seen.
            let (identity, seen) = (identity.clone(), seen.cloned());
            async move {
                let api = api.within(AT_MOST);
                let mut answer = api.look_up_after(&identity, seen.as_ref()).await;
                if let (Ok(LookupResult::Absent(_)), Some(asker)) = (&answer, asker)
                    && let Some(error) = births.too_early(&api, &identity, &asker, asked.at).await
                {
                    answer = Err(error);
                }
                LookedUp { asked, answer }
            }
            .boxed()
        };
        let note = |looked_up: LookedUp| {
            self.remember(identity, &looked_up);
            note(looked_up)
        };
        requests.ask((identity, number), known, send, note).await
    }

    /// The same with a request that begins now and that no other caller shares.
    pub async fn look_up_now(&self, turn: &WriteSlot, identity: &Identity) -> LookedUp {
        let asked = self.asked();
        let looked_up = LookedUp { asked, answer: turn.api().within(AT_MOST).look_up(identity).await };
        self.remember(identity, &looked_up);
        looked_up
    }

    /// A look-up that is sent now.
    fn asked(&self) -> SentAt {
        SentAt { at: Instant::now(), under: self.api.restore_fence().acknowledged() }
    }

    fn remember(&self, identity: &Identity, looked_up: &LookedUp) {
        // The answer may be from before watches broke, and the caches have been emptied since.
        let is_void = self.api.restore_fence().is_superseded(looked_up.asked.under);
        if let Ok(LookupResult::Absent(proof)) = looked_up.answer
            && !is_void
        {
            self.absent_owners.absent.remember(identity, proof);
        }
    }
}

/// The look-ups under way.
#[derive(Clone, Debug, Default)]
struct InFlight(Arc<DashMap<Identity, PendingLookUp>>);

/// One of them, and the latest disturbance when it was sent.
type PendingLookUp = (u64, Shared<BoxFuture<'static, LookedUp>>);

impl InFlight {
    /// Joins the lookup that is in progress since the latest disturbance, or sends one. `known` is
    /// asked again when no lookup is in progress, and `note` runs before the lookup ends. So at
    /// every moment an answer is either awaited or stored, and no owner is looked up twice.
    async fn ask<T>(
        &self,
        (identity, number): (&Identity, u64),
        known: impl FnOnce() -> Option<T>,
        send: impl FnOnce() -> BoxFuture<'static, LookedUp>,
        note: impl FnOnce(LookedUp) -> T,
    ) -> T {
        let shared = match self.0.entry(identity.clone()) {
            Entry::Occupied(mut under_way) => {
                if under_way.get().0 != number {
                    *under_way.get_mut() = (number, send().shared());
                }
                under_way.get().1.clone()
            }
            Entry::Vacant(nobody) => match known() {
                Some(known) => return known,
                None => nobody.insert((number, send().shared())).1.clone(),
            },
        };
        let caller = Caller { in_flight: self, identity, shared };
        note(caller.shared.clone().await)
    }
}

/// Somebody who waits for a look-up.
///
/// The first one that has the answer removes the entry, so that the next one sends a new request. So
/// does the last one that is cancelled: nobody would drive the request, which holds a slot, and is
/// perhaps the only one that may probe.
struct Caller<'a> {
    in_flight: &'a InFlight,
    identity: &'a Identity,
    shared: Shared<BoxFuture<'static, LookedUp>>,
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        let shared = &self.shared;
        // One reference is ours, and the other is that of the map. An entry that was added in the
        // meantime stays.
        let is_over = || shared.peek().is_some() || shared.strong_count().is_none_or(|count| count <= 2);
        self.in_flight.0.remove_if(self.identity, |_, (_, current)| current.ptr_eq(shared) && is_over());
    }
}

/// How many references are remembered. A later read recovers the age of others.
const KNOWN_AT_MOST: usize = 16_384;

/// Tells whether an owner that a look-up did not find may still be in admission. Clones share what they
/// remember.
#[derive(Clone, Debug)]
pub struct Births {
    grace: Duration,
    /// Since when dependents are known to name owners. Our own clock ends the wait, whatever they say
    /// of their age.
    known: Arc<IdentityCache<Instant>>,
}

/// The object on whose behalf an owner is looked up.
#[derive(Debug)]
pub struct Asker {
    identity: Identity,
    /// Whether its age can be read: it is a dependent, and not the owner itself.
    is_dependent: bool,
    /// A moment at which it was as it is.
    since: OnceCell<Instant>,
}

impl Asker {
    /// A dependent of the owner, or no object in particular.
    pub fn new(identity: &Identity, is_dependent: bool) -> Arc<Self> {
        Arc::new(Self { identity: identity.clone(), is_dependent, since: OnceCell::new() })
    }

    async fn unchanged_since(&self, api: &Api) -> Instant {
        let age = if self.is_dependent { api.age(&self.identity).await } else { Duration::ZERO };
        let now = Instant::now();
        now.checked_sub(age).unwrap_or(now)
    }
}

impl Births {
    /// With the longest admission; zero believes every look-up.
    pub fn new(grace: Duration) -> Self {
        Self { grace, known: Arc::new(IdentityCache::new(KNOWN_AT_MOST)) }
    }

    /// Why a look-up that is sent at this moment cannot prove an absence, if so.
    async fn too_early(&self, api: &Api, owner: &Identity, asker: &Asker, sent: Instant) -> Option<ApiError> {
        if self.grace.is_zero() || mutation::is(Mutation::UnbornIsAbsent) {
            return None;
        }
        let since = self.since(api, owner, asker).await;
        let retry_after = (since + self.grace).saturating_duration_since(sent);
        (!retry_after.is_zero()).then(|| {
            let class = ErrorClass::Deferred { retry_after, unborn: true };
            let message = "a GET did not find the object, which may still be in admission: it has been named for \
                           less than graph.birth_grace";
            ApiError::new(class, "GET", owner.to_string(), message)
        })
    }

    /// A moment at which the asker named the owner.
    async fn since(&self, api: &Api, owner: &Identity, asker: &Asker) -> Instant {
        let named = (owner, &asker.identity);
        if let Some(since) = self.known.get(&named) {
            return since;
        }
        let since = *asker.since.get_or_init(|| asker.unchanged_since(api)).await;
        self.known.remember(&named, since);
        since
    }
}

/// How many confirmations are remembered. Each further one costs a request.
const CONFIRMED_AT_MOST: usize = 1024;

/// Confirmations by owner. One look-up serves all dependents of an owner for as long as
/// [`Confirmation::holds`].
#[derive(Debug, Clone)]
pub struct Confirmations {
    entries: Arc<IdentityCache<Confirmed>>,
    origin: Instant,
    restore_fence: RestoreFence,
}

/// A confirmation, void once watches break: with the latest disturbance when it was made.
type Confirmed = (u64, Confirmation);

impl Confirmations {
    pub fn new(restore_fence: RestoreFence) -> Self {
        let entries = Arc::new(IdentityCache::new(CONFIRMED_AT_MOST));
        Self { entries, origin: Instant::now(), restore_fence }
    }

    /// The present time on the clock of the confirmations.
    pub fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// The confirmation that holds for an owner in this state.
    pub fn get(&self, owner: &Identity, state: &OwnerState) -> Option<Confirmation> {
        let (now, number) = (self.now(), self.restore_fence.acknowledged());
        let (under, confirmation) = self.entries.get(owner)?;
        (under == number && confirmation.holds(state, now)).then_some(confirmation)
    }

    /// Stores the result of a look-up that was sent when the graph knew `seen`. `None` if the owner
    /// is not deleting its dependents.
    pub fn confirm(
        &self,
        owner: &Identity,
        seen: OwnerState,
        facts: &ObjectFacts,
        asked: &SentAt,
    ) -> Option<Confirmation> {
        let confirmation = Confirmation::new(seen, facts, asked.at.duration_since(self.origin))?;
        self.entries.remember(owner, (asked.under, confirmation.clone()));
        Some(confirmation)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;

    use futures::channel::oneshot;
    use futures::poll;

    use super::*;
    use crate::actors::tests::identity;

    fn absent() -> LookedUp {
        LookedUp {
            asked: SentAt { at: Instant::now(), under: 0 },
            answer: Ok(LookupResult::Absent(kube_gc_client::AbsenceProof::of_test())),
        }
    }

    /// Fails if a look-up whose callers were all cancelled stays: nobody drives it, and if it is the
    /// probe after requests that hung, no other request of its type is sent any more.
    #[tokio::test]
    async fn a_lookup_ends_with_the_last_caller_that_waits_for_it() {
        let (in_flight, identity) = (InFlight::default(), identity("a", "owner"));
        let (answer, answered) = oneshot::channel::<LookedUp>();
        let mut first = Box::pin(in_flight.ask(
            (&identity, 0),
            || None,
            || async move { answered.await.unwrap() }.boxed(),
            |_| (),
        ));
        let mut second =
            Box::pin(in_flight.ask((&identity, 0), || None, || async { absent() }.boxed(), |_| ()));
        assert!(poll!(&mut first).is_pending());
        assert!(poll!(&mut second).is_pending());
        drop(first);
        assert!(!answer.is_canceled(), "another caller waits");
        drop(second);
        assert!(answer.is_canceled());
        assert!(in_flight.0.is_empty());
    }

    /// Dependents share one look-up of an owner (rule 4.33). Fails if a look-up is over
    /// before its answer is kept: a dependent that asks in between sends another one.
    #[tokio::test]
    async fn a_lookup_is_cached_before_the_next_one_begins() {
        let (in_flight, identity, asked) = (InFlight::default(), identity("a", "owner"), Cell::new(0));
        let kept = Cell::new(None);
        let (answer, answered) = oneshot::channel();
        let first = in_flight.ask(
            (&identity, 0),
            || None,
            || {
                asked.set(asked.get() + 1);
                async move { answered.await.unwrap() }.boxed()
            },
            |_| {
                assert!(in_flight.0.contains_key(&identity), "over before it was noted");
                kept.set(Some("absent"));
                "absent"
            },
        );
        let mut first = pin!(first);
        assert!(poll!(&mut first).is_pending());
        // Has checked the cache before the answer arrived, and asks after it.
        let second = in_flight.ask(
            (&identity, 0),
            || kept.get(),
            || {
                asked.set(asked.get() + 1);
                async { absent() }.boxed()
            },
            |_| "asked again",
        );
        answer.send(absent()).unwrap();
        assert_eq!(first.await, "absent");
        assert_eq!(second.await, "absent");
        assert_eq!(asked.get(), 1);
        assert!(in_flight.0.is_empty());
    }
}
