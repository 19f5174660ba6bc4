//! The tasks to wake when a type changes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::resources::ResourceName;
use crate::store::Touched;

/// The tasks that wait for the watches of each type. They are woken in the order in which the
/// watches began, so that runs are reproducible.
#[derive(Debug, Default)]
pub(super) struct Wakers(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    count: u64,
    types: BTreeMap<ResourceName, BTreeMap<u64, Option<Waker>>>,
}

impl Wakers {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a new watch.
    pub(super) fn register(&self, resource: &ResourceName) -> u64 {
        let mut waiting = self.lock();
        waiting.count += 1;
        let number = waiting.count;
        waiting.types.entry(resource.clone()).or_default().insert(number, None);
        number
    }

    /// Registers a waiting watch. Call it *before* checking for changes, so that none is missed.
    pub(super) fn wait(&self, resource: &ResourceName, number: u64, waker: &Waker) {
        let mut waiting = self.lock();
        let Some(slot) = waiting.types.get_mut(resource).and_then(|watches| watches.get_mut(&number)) else {
            return;
        };
        match slot {
            Some(known) if known.will_wake(waker) => {}
            slot => *slot = Some(waker.clone()),
        }
    }

    /// Removes a watch.
    pub(super) fn remove(&self, resource: &ResourceName, number: u64) {
        let mut waiting = self.lock();
        if let Some(watches) = waiting.types.get_mut(resource) {
            watches.remove(&number);
            if watches.is_empty() {
                waiting.types.remove(resource);
            }
        }
    }

    /// Wakes the tasks of the types that changed.
    pub(super) fn wake(&self, touched: &Touched) {
        if !touched.all && touched.resources.is_empty() {
            return;
        }
        let wakers: Vec<Waker> = {
            let waiting = self.lock();
            let types = waiting.types.iter();
            let types = types.filter(|(resource, _)| touched.all || touched.resources.contains(*resource));
            types.flat_map(|(_, watches)| watches.values().flatten().cloned()).collect()
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// The number of watches of each type.
    pub(super) fn all(&self) -> BTreeMap<ResourceName, usize> {
        self.lock().types.iter().map(|(resource, watches)| (resource.clone(), watches.len())).collect()
    }

    /// The number of watches of a type.
    pub(super) fn watches(&self, resource: &ResourceName) -> usize {
        self.lock().types.get(resource).map_or(0, BTreeMap::len)
    }
}
