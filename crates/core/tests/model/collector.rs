//! The collector around the real partition and the real mailboxes: what its actors do with their effects,
//! its watches, its memory of owners, and the fence that holds writes back after watches broke. Each function
//! names the one of `crates/controller` or `crates/client` that it mirrors.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU16;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kube_gc_core::graph::testing::world::catalog;
use kube_gc_core::graph::{
    DeletesProve, Effects, Epoch, Finding, Generation, Link, Partition, PartitionId, Sharding, Verification,
    WatchEvent,
};
use kube_gc_core::mailbox::{Backoff, Completion, Mailbox};
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{HashSeed, Key};
use kube_gc_core::verdict::{Confirmation, ReferenceClass, from_state};

use super::cast::{self, Life, Owner, TYPES, version};
use super::fence::Fence;
use super::server::{Event, Server};
use super::sketch::{Second, Seen, Skip, Version};
use super::task::Worker;

/// Why a key is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Conflict,
    NotObserved,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pool {
    Delete,
    Orphan,
}

/// Each delay is as long as any other. The order in which workers go on is chosen freely anyway.
pub const DELAY: Duration = Duration::from_millis(1);
/// The mailboxes have no other clock than their delays.
const NOW: Duration = Duration::ZERO;
/// Batches of an earlier run of a monitor are dropped, so there is one.
const EPOCH: Epoch = Epoch(1);

/// The list and watch of one type. Places are those of its journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Watch {
    /// A list is to be requested, at this place or a later one.
    Unlisted { least: usize },
    /// The objects of a list have arrived, and its end has not.
    Listing { place: usize, version: Version },
    /// Everything up to this place has arrived. `broken`: the version of the store is to be checked first.
    Watching { place: usize, broken: bool },
    /// The store was restored, and does not have what was watched.
    Lost,
}

/// That an owner waits, as `look_ups::Confirmations` remembers it.
#[derive(Clone, Debug, Hash)]
pub struct Confirmed {
    pub confirmation: Skip<Confirmation>,
    pub seen: Seen,
    pub live: Version,
    pub asked: Second,
    pub under: u64,
}

#[derive(Clone, Debug)]
pub struct Collector {
    /// The cluster-scoped objects, and those of the namespace.
    pub graph: [Rc<Partition>; 2],
    /// What the second has to tell the first, in order.
    pub outbox: VecDeque<Link>,
    /// The number of types that take part.
    pub kinds: usize,
    pub pools: [Rc<Mailbox<Reason>>; 2],
    pub workers: Vec<Rc<Worker>>,
    pub watches: [Watch; TYPES],
    /// Events that watches read before the store was restored.
    pub read: [VecDeque<Event>; TYPES],
    /// The last version seen of each type.
    pub high_water: [Version; TYPES],
    pub absent: BTreeSet<Owner>,
    pub orphaned: BTreeSet<Owner>,
    pub confirmed: BTreeMap<Owner, Confirmed>,
    pub fence: Fence,
    /// The pools hand out keys: everything was listed.
    pub open: bool,
    /// The write gate admits what it sends.
    pub leads: bool,
}

impl Collector {
    /// A collector of this number of types, with nothing in its memory.
    pub fn new(leads: bool, kinds: usize) -> Self {
        let mailbox = || Rc::new(Mailbox::new(Backoff { min: DELAY, max: DELAY }, HashSeed::new(1)));
        let sharding = Sharding::new(NonZeroU16::MIN, HashSeed::new(1));
        let partition = |id| Rc::new(Partition::new(PartitionId(id), sharding, Arc::clone(catalog())));
        // The first list may come from a cache of any age. Other types are not watched.
        let mut watches = [Watch::Watching { place: 0, broken: false }; TYPES];
        watches[..kinds].fill(Watch::Unlisted { least: 0 });
        let mut collector = Self {
            graph: [partition(0), partition(1)],
            outbox: VecDeque::new(),
            kinds,
            pools: [mailbox(), mailbox()],
            workers: Vec::new(),
            watches,
            read: Default::default(),
            high_water: [Version(0); TYPES],
            absent: BTreeSet::new(),
            orphaned: BTreeSet::new(),
            confirmed: BTreeMap::new(),
            fence: Fence::default(),
            open: false,
            leads,
        };
        collector.start_monitors();
        collector
    }

    pub fn start_monitors(&mut self) {
        for kind in 0..self.kinds {
            let start = |graph: &mut Partition, _: &mut Effects| {
                graph.monitor_started(cast::resource(kind), EPOCH, DeletesProve::Absence);
            };
            self.ask_all(start);
        }
    }

    fn pool(&mut self, pool: Pool) -> &mut Mailbox<Reason> {
        Rc::make_mut(&mut self.pools[pool as usize])
    }

    /// Asks the partition of an object.
    pub fn ask<A>(&mut self, of: Life, question: impl FnOnce(&mut Partition, &mut Effects) -> A) -> A {
        self.ask_this(cast::home(of), question)
    }

    pub fn ask_all(&mut self, question: impl Fn(&mut Partition, &mut Effects)) {
        [0, 1].iter().for_each(|home| self.ask_this(*home, &question));
    }

    /// `GraphActor::forward`: asks a partition, and does what follows.
    fn ask_this<A>(&mut self, home: usize, question: impl FnOnce(&mut Partition, &mut Effects) -> A) -> A {
        let mut effects = Effects::default();
        let answer = question(Rc::make_mut(&mut self.graph[home]), &mut effects);
        self.outbox.extend(effects.links.drain(..));
        if effects.restored.is_some() {
            self.report_restore();
        }
        effects
            .take_delete()
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|key| self.pool(Pool::Delete).add(key, NOW));
        effects.orphan.into_iter().for_each(|key| self.pool(Pool::Orphan).add(key, NOW));
        self.absent.extend(effects.absent.iter().map(cast::owner));
        effects.present.iter().for_each(|owner| _ = self.absent.remove(&cast::owner(owner)));
        effects.revived.iter().for_each(|owner| _ = self.orphaned.remove(&cast::owner(owner)));
        answer
    }

    /// The next link arrives in the first partition.
    pub fn link(&mut self) {
        if let Some(link) = self.outbox.pop_front() {
            self.ask_this(0, |graph, effects| graph.receive(&link, effects));
        }
    }

    /// The state of each key of a pool.
    pub fn places(&self, pool: Pool) -> Vec<(Life, u64)> {
        let places = self.pools[pool as usize].places();
        let mut places: Vec<_> = places.map(|(key, place)| (cast::life(&key.uid), place)).collect();
        places.sort_unstable();
        places
    }

    /// Gives out a ready key, whichever is first: another worker may have taken those before it.
    pub fn pop(&mut self, pool: Pool, wanted: &Key) {
        let mailbox = self.pool(pool);
        while let Some(job) = mailbox.pop(NOW).filter(|job| job.key != *wanted) {
            mailbox.finish(&job.key, Completion::Again, NOW);
        }
    }

    /// The first delay ends.
    pub fn due(&mut self, pool: Pool) {
        let mailbox = self.pool(pool);
        mailbox.advance(mailbox.next_due().unwrap_or_default());
    }

    pub fn finish(&mut self, pool: Pool, life: Life, completion: Completion<Reason>) {
        self.pool(pool).finish(&cast::key(life), completion, NOW);
        self.workers.retain(|worker| (worker.pool, worker.life) != (pool, life));
    }

    /// `GraphHandle::verified`.
    pub fn verified(&mut self, under: u64, owner: Owner, generation: Generation) -> Verification {
        self.ask(owner.life, |graph, effects| {
            if under < graph.disturbance() {
                graph.requeue(&cast::key(owner.life), effects);
                return Verification::Stale;
            }
            graph.verified(&cast::identity(owner), Finding::Absent, generation, effects)
        })
    }

    /// `LookUps::remember`.
    pub fn remember(&mut self, owner: Owner) {
        if self.fence.acknowledged == self.fence.latest {
            self.absent.insert(owner);
        }
    }

    /// `Confirmations::get`.
    pub fn confirmation(&self, owner: Owner, Seen(state): &Seen, now: Duration) -> Option<Confirmed> {
        let known = self.confirmed.get(&owner).filter(|it| it.under == self.fence.acknowledged)?;
        known.confirmation.holds(state, now).then(|| known.clone())
    }

    /// `DeleteWork::known`: the class that needs no request.
    pub fn known(
        &self,
        owner: Owner,
        state: &Seen,
        now: Duration,
    ) -> Option<(ReferenceClass, Option<Confirmed>)> {
        let is_unknown = state.0 == kube_gc_core::graph::OwnerState::Unknown;
        match from_state(&state.0) {
            Some(class) => Some((self.unless_orphaned(owner, class), None)),
            None if is_unknown && self.absent.contains(&owner) => {
                Some((self.unless_orphaned(owner, ReferenceClass::Absent), None))
            }
            None if is_unknown => None,
            None => Some((ReferenceClass::Waiting, Some(self.confirmation(owner, state, now)?))),
        }
    }

    /// `DeleteWork::unless_orphaned`.
    pub fn unless_orphaned(&self, owner: Owner, class: ReferenceClass) -> ReferenceClass {
        let orphaned = class == ReferenceClass::Absent && self.orphaned.contains(&owner);
        if orphaned { ReferenceClass::Orphaned } else { class }
    }
}

/// Watches.
impl Collector {
    fn take_in(&mut self, kind: usize, events: &[WatchEvent]) {
        for facts in events.iter().filter_map(WatchEvent::facts) {
            self.high_water[kind] = self.high_water[kind].max(facts.resource_version.as_ref().into());
        }
        for home in [0, 1] {
            let is_here =
                |event: &&WatchEvent| event.facts().is_none_or(|it| cast::home(cast::life(&it.uid)) == home);
            let events: Vec<WatchEvent> = events.iter().filter(is_here).cloned().collect();
            self.ask_this(home, |graph, effects| {
                graph.apply_events(cast::resource(kind), EPOCH, &events, effects)
            });
        }
    }

    /// What the watch shows next. It may have been read before the watch broke.
    pub fn next_event<'a>(&'a self, kind: usize, server: &'a Server) -> Option<&'a Event> {
        let of_journal = || match self.watches[kind] {
            Watch::Watching { place, .. } => server.journals[kind].events.get(place),
            Watch::Unlisted { .. } | Watch::Listing { .. } | Watch::Lost => None,
        };
        self.read[kind].front().or_else(of_journal)
    }

    pub fn deliver(&mut self, kind: usize, Event { gone, object }: &Event) {
        if self.read[kind].pop_front().is_none()
            && let Watch::Watching { place, .. } = &mut self.watches[kind]
        {
            *place += 1;
        }
        let facts = cast::facts(object);
        self.take_in(kind, &[if *gone { WatchEvent::Delete(facts) } else { WatchEvent::Apply(facts) }]);
    }

    /// The places of which a list may be: not older than what was seen, or the store as it is.
    pub fn listable(&self, kind: usize, least: usize, server: &Server) -> impl Iterator<Item = usize> {
        let (any, head) = (mutation::is(Mutation::TrustOldList), server.journals[kind].events.len());
        let is_fresh = move |place: &usize| server.list_version(kind, *place) >= self.high_water[kind];
        let least = if any { 0 } else { least };
        (least..=head).rev().filter(move |place| any || *place == head || is_fresh(place))
    }

    /// The objects of a list arrive (`Machine::list_version`).
    pub fn list(&mut self, kind: usize, server: &Server, place: usize) {
        let listed = server.list_version(kind, place);
        let is_old = listed < self.high_water[kind];
        if is_old && !mutation::is(Mutation::TrustOldList) {
            return self.report_restore();
        }
        self.high_water[kind] = self.high_water[kind].max(listed);
        self.read[kind].clear();
        let mut events = vec![WatchEvent::Init { resource_version: (!is_old).then(|| version(listed)) }];
        events.extend(
            server.journals[kind].at(place).iter().map(|object| WatchEvent::Apply(cast::facts(object))),
        );
        self.watches[kind] = Watch::Listing { place, version: listed };
        self.take_in(kind, &events);
    }

    /// The list ends. When all types have been listed, the pools open.
    pub fn list_ended(&mut self, kind: usize) {
        let Watch::Listing { place, version: listed } = self.watches[kind] else { return };
        self.watches[kind] = Watch::Watching { place, broken: false };
        self.lift(kind, listed);
        self.take_in(kind, &[WatchEvent::InitDone { resource_version: Some(version(listed)) }]);
        if !self.open && self.watches.iter().all(|watch| matches!(watch, Watch::Watching { .. })) {
            self.open = true;
            self.rederive();
        }
    }

    /// `Lifecycle::open_pools`.
    pub fn rederive(&mut self) {
        [Pool::Delete, Pool::Orphan].iter().for_each(|pool| self.pool(*pool).clear_backoff(NOW));
        self.ask_all(|graph, effects| graph.rederive(effects));
    }
}
