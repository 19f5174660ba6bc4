//! How many requests about single objects are in flight at a time.
//!
//! A server that answers 429 has too much to do. If all workers went on as before, each of
//! them would receive a 429 for its own object. So a 429 lowers a limit that all workers
//! share: see [`Aimd`](aimd::Aimd). While the server accepts everything, the limit
//! soon exceeds the number of workers, and a slot costs two short critical sections.
//!
//! # What `Retry-After` means
//!
//! Only the object whose request was rejected waits for that long. The API server always
//! says 1 s, newer ones up to 32 s, and a proxy perhaps minutes. All of them mean "do not
//! retry this request sooner", and none knows how many other requests there are. The
//! server's capacity is learned from what it rejects instead: the limit is halved, and when
//! a single request at a time is rejected, the next one waits from 50 ms to 1 s, doubled
//! while others queue. So a server with no capacity left gets one request per second from
//! all workers together, and no single `Retry-After` of 30 s stops everything.
//!
//! # What does not count
//!
//! A 429 that an admission webhook or a disruption budget has chosen is about one object.
//! Events have their own limit, because an admission plugin may limit them alone. So has
//! every aggregated API: it is another server, and its trouble must delay nothing else.
//! Slow answers and failures do not lower the limit: they have other causes, and holding
//! requests back would add to the delay.

mod aimd;
mod limiter;
mod shared_slot;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::telemetry::ApiSide;
use kube_gc_core::object::GroupResource;

pub(super) use aimd::Signal;
use limiter::Limiter;
pub(super) use limiter::{Slot, when_it_hangs};
pub(super) use shared_slot::SharedSlot;

/// The limits of all servers behind one address.
#[derive(Debug)]
pub(super) struct ConcurrencyLimits {
    kubernetes: Arc<Limiter>,
    events: Arc<Limiter>,
    /// By API group.
    aggregated: RwLock<HashMap<Box<str>, Arc<Limiter>>>,
}

impl Default for ConcurrencyLimits {
    fn default() -> Self {
        Self {
            kubernetes: Limiter::new(ApiSide::Kubernetes),
            events: Limiter::new(ApiSide::Events),
            aggregated: RwLock::default(),
        }
    }
}

impl ConcurrencyLimits {
    /// Waits for a slot for a request about an object of this type.
    pub async fn slot(&self, resource: &GroupResource) -> Slot {
        let limiter = self.limiter(resource);
        limiter.slot().await
    }

    /// Whether a request about an object of this type may use this slot.
    pub fn is_for(&self, slot: &Slot, resource: &GroupResource) -> bool {
        slot.is_of(&self.limiter(resource))
    }

    /// Sets the groups that other servers serve. The limits of groups that stay are kept.
    pub fn set_aggregated<'a>(&self, groups: impl Iterator<Item = &'a str>) {
        // The map is consistent after every statement, so a poisoned lock is harmless.
        let mut aggregated = self.aggregated.write().unwrap_or_else(PoisonError::into_inner);
        let mut known = std::mem::take(&mut *aggregated);
        for group in groups {
            if !aggregated.contains_key(group) {
                let limiter = known.remove(group).unwrap_or_else(|| Limiter::new(ApiSide::Aggregated));
                aggregated.insert(group.into(), limiter);
            }
        }
    }

    /// Whether another server serves this type.
    pub fn is_aggregated(&self, resource: &GroupResource) -> bool {
        let aggregated = self.aggregated.read().unwrap_or_else(PoisonError::into_inner);
        aggregated.contains_key(&resource.group)
    }

    fn limiter(&self, resource: &GroupResource) -> Arc<Limiter> {
        if *resource.group == *"" && *resource.resource == *"events" {
            return Arc::clone(&self.events);
        }
        let aggregated = self.aggregated.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(aggregated.get(&*resource.group).unwrap_or(&self.kubernetes))
    }
}

#[cfg(test)]
mod tests;
