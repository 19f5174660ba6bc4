//! Who is to be woken when a type has news.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::resources::ResourceName;
use crate::store::Touched;

/// The tasks that wait for the watches of each type. They are woken in the order
/// in which the watches began, so that a run can be repeated.
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

    /// A watch waits. To be called *before* it looks for news, or it could miss some.
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

    /// A watch is over.
    pub(super) fn remove(&self, resource: &ResourceName, number: u64) {
        let mut waiting = self.lock();
        if let Some(watches) = waiting.types.get_mut(resource) {
            watches.remove(&number);
            if watches.is_empty() {
                waiting.types.remove(resource);
            }
        }
    }

    /// Wakes whoever has news.
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

    /// How many watches of each type there are.
    pub(super) fn all(&self) -> BTreeMap<ResourceName, usize> {
        self.lock().types.iter().map(|(resource, watches)| (resource.clone(), watches.len())).collect()
    }

    /// How many watches of a type there are.
    pub(super) fn watches(&self, resource: &ResourceName) -> usize {
        self.lock().types.get(resource).map_or(0, BTreeMap::len)
    }
}
