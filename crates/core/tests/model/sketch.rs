//! The identity of a state: 128 bits of everything that decides what can follow. Versions count by their
//! order only, since nothing ever compares them otherwise; those ahead of the store, which a restore leaves,
//! also by their distance, because the store will give them out again.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

use kube_gc_core::graph::testing::words::Word;
use kube_gc_core::graph::{ObjectSnapshot, OwnerState, OwnerView};
use kube_gc_core::object::{OwnerReference, ResourceVersion};

use super::cast;
use super::collector::{Collector, Pool, Watch};
use super::server::Server;
use super::state::State;

/// A version of the store; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u64);

impl Hash for Version {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Nothing else hashes such a number, so that the sketch knows it as a version.
        state.write_i64(self.0 as i64);
    }
}

impl From<Option<&ResourceVersion>> for Version {
    fn from(version: Option<&ResourceVersion>) -> Self {
        Self(version.and_then(ResourceVersion::as_number).unwrap_or_default())
    }
}

/// What follows from the rest of the state.
#[derive(Clone, Debug)]
pub struct Skip<T>(pub T);

impl<T> Hash for Skip<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

thread_local! {
    static NOW: Cell<u32> = const { Cell::new(0) };
}

/// A second of the clock of confirmations. Only whether it is the present one matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Second(pub u32);

impl Hash for Second {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0 == NOW.get()).hash(state);
    }
}

/// What a partition said of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen(pub OwnerState);

impl Hash for Seen {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            OwnerState::Observed { resource_version, deletion } => {
                (*deletion, Version::from(resource_version.as_ref())).hash(state);
            }
            OwnerState::Absent => 10.hash(state),
            OwnerState::Unknown => 11.hash(state),
        }
    }
}

/// What a partition said of an object.
#[derive(Clone, Debug)]
pub struct Item(pub ObjectSnapshot);

impl Deref for Item {
    type Target = ObjectSnapshot;
    fn deref(&self) -> &ObjectSnapshot {
        &self.0
    }
}

impl Item {
    pub fn life(&self) -> cast::Life {
        cast::life(&self.identity.uid)
    }
    pub fn version(&self) -> Version {
        self.resource_version.as_ref().into()
    }
}

impl Hash for Item {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.life(), self.version(), self.deletion, self.finalizers).hash(state);
        (self.has_dependents, self.has_dependent_deleting_dependents, self.references.len()).hash(state);
        for seen in &self.references {
            (cast::named(&seen.reference), seen.reference.block_owner_deletion).hash(state);
            if let OwnerView::Local { state: of, .. } = &seen.owner {
                Seen(of.clone()).hash(state);
            }
        }
    }
}

impl Hash for Server {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.objects, self.next, self.conceived, &self.orphaning, &self.orphaned).hash(state);
        self.journals.each_ref().map(|journal| &journal.events).hash(state);
    }
}

impl Hash for Collector {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for graph in &self.graph {
            graph.words(|word| match word {
                Word::Number(number) => number.hash(state),
                Word::Uid(uid) => cast::life(uid).hash(state),
                Word::Text(text) => text.hash(state),
                Word::Version(version) => Version::from(version).hash(state),
            });
        }
        for link in &self.outbox {
            (cast::life(&link.owner.uid), cast::life(&link.dependent.uid), link.deletion, link.shares_uid)
                .hash(state);
            let named = |it: &OwnerReference| (cast::named(it), it.block_owner_deletion);
            link.references.iter().map(named).collect::<Vec<_>>().hash(state);
        }
        (self.places(Pool::Delete), self.places(Pool::Orphan), &self.watches, &self.read).hash(state);
        (&self.absent, &self.orphaned, &self.confirmed).hash(state);
        (&self.fence, self.open, self.leads, &self.workers).hash(state);
        for worker in &self.workers {
            let is_at = |(life, generation)| self.graph[cast::home(life)].is_at(&cast::key(life), generation);
            worker.generation().is_some_and(is_at).hash(state);
        }
    }
}

#[derive(Default)]
struct Sketch {
    words: Vec<u64>,
    versions: Vec<(usize, u64)>,
}

pub fn digest(state: &State) -> u128 {
    let (world, mut sketch) = (&state.world, Sketch::default());
    NOW.set(world.clock);
    (state.users, state.faults, &world.server, &world.late, &state.collectors).hash(&mut sketch);
    // What was seen and may be listed again does not matter if no list can follow.
    let is_watching = |it: &Watch| matches!(it, Watch::Watching { broken: false, .. });
    if state.faults > 0 || !state.collectors.iter().all(|it| it.watches.iter().all(is_watching)) {
        state.collectors.iter().for_each(|it| it.high_water.hash(&mut sketch));
        world.server.journals.each_ref().map(|journal| &journal.base).hash(&mut sketch);
    }
    // Without confirmations, nothing is excused.
    if state.collectors.iter().any(|collector| !collector.confirmed.is_empty()) {
        world.server.waited.hash(&mut sketch);
    }
    sketch.end(world.server.version)
}

impl Hasher for Sketch {
    fn write(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            self.words.push(u64::from_le_bytes(word));
        }
    }
    fn write_i64(&mut self, version: i64) {
        self.versions.push((self.words.len(), version as u64));
        self.words.push(0);
    }
    fn finish(&self) -> u64 {
        0
    }
}

impl Sketch {
    fn end(mut self, Version(now): Version) -> u128 {
        let mut order: Vec<u64> =
            self.versions.iter().map(|(_, version)| *version).filter(|it| *it <= now).collect();
        order.sort_unstable();
        order.dedup();
        // That there is none is not to move the others.
        let first = usize::from(order.first() == Some(&0));
        for &(place, version) in &self.versions {
            let rank = match order.binary_search(&version) {
                Ok(rank) if version > 0 => 2 + rank - first,
                Ok(_) => 1,
                Err(_) => (1 << 40) + (version.saturating_sub(now)) as usize,
            };
            self.words[place] = (1 << 50) + rank as u64;
        }
        let (mut one, mut other) = (0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f);
        for word in self.words {
            one = fold(one ^ word, 0xa076_1d64_78bd_642f);
            other = fold(other ^ word, 0xe703_7ed1_a0b4_28db);
        }
        u128::from(one) << 64 | u128::from(other)
    }
}

fn fold(word: u64, by: u64) -> u64 {
    let product = u128::from(word ^ 0x2d35_8dcc_aa6c_78a5) * u128::from(by);
    product as u64 ^ (product >> 64) as u64
}

impl<T> Deref for Skip<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Skip<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
