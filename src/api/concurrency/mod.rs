//! How many requests about single objects are under way at a time.
//!
//! A server that says 429 has too much to do, and who goes on with all workers makes
//! it worse: each of them is told so, one object after the other. So the refusals are
//! heard by all: see [`Window`](window::Window). While the server is willing the window
//! soon holds all workers, and a place costs two short critical sections.
//!
//! # What `Retry-After` means
//!
//! The object whose request was refused waits for as long as it says. The others do
//! not. The API server says 1 s whatever the matter is, a newer one up to 32 s, and a
//! proxy in between perhaps minutes; all of them mean "do not come back with this any
//! sooner", and none knows how many others there are. How much the server bears is
//! learned from what it refuses: half as many are sent at a time, and where one at a
//! time is refused, the next one waits a little, from 50 ms to 1 s, doubled while others
//! queue. So a server that is down to nothing gets one request per second from all
//! workers together; and no answer that says 30 s, for one object or by mistake, stops
//! everything for that long.
//!
//! # Who is not heard
//!
//! A 429 that an admission webhook or a disruption budget has chosen is about one
//! object. Events have a window of their own, because an admission plugin may limit
//! them alone; and so has every aggregated API, because it is another server, whose
//! trouble must delay nobody else. Answers that are slow, and failures, say nothing:
//! they have other reasons, and holding back would add to the delay.

mod lane;
mod window;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::telemetry::ApiSide;
use kube_gc_core::object::GroupResource;

use lane::Lane;
pub(super) use lane::{Place, when_it_hangs};
pub(super) use window::Signal;

/// The windows of all servers behind one address.
#[derive(Debug)]
pub(super) struct Concurrency {
    kubernetes: Arc<Lane>,
    events: Arc<Lane>,
    /// By API group.
    aggregated: RwLock<HashMap<Box<str>, Arc<Lane>>>,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self {
            kubernetes: Lane::new(ApiSide::Kubernetes),
            events: Lane::new(ApiSide::Events),
            aggregated: RwLock::default(),
        }
    }
}

impl Concurrency {
    /// Waits for a place for a request about an object of this type.
    pub async fn place(&self, resource: &GroupResource) -> Place {
        let lane = self.lane(resource);
        lane.place().await
    }

    /// Whether a request about an object of this type could have this place.
    pub fn is_for(&self, place: &Place, resource: &GroupResource) -> bool {
        place.is_in(&self.lane(resource))
    }

    /// From now on these groups are those of other servers. What was learned of one
    /// that stays is kept.
    pub fn aggregate<'a>(&self, groups: impl Iterator<Item = &'a str>) {
        // A map that is whole between any two statements.
        let mut aggregated = self.aggregated.write().unwrap_or_else(PoisonError::into_inner);
        let mut known = std::mem::take(&mut *aggregated);
        for group in groups {
            if !aggregated.contains_key(group) {
                let lane = known.remove(group).unwrap_or_else(|| Lane::new(ApiSide::Aggregated));
                aggregated.insert(group.into(), lane);
            }
        }
    }

    /// Whether another server answers for a type.
    pub fn is_aggregated(&self, resource: &GroupResource) -> bool {
        let aggregated = self.aggregated.read().unwrap_or_else(PoisonError::into_inner);
        aggregated.contains_key(&resource.group)
    }

    fn lane(&self, resource: &GroupResource) -> Arc<Lane> {
        if *resource.group == *"" && *resource.resource == *"events" {
            return Arc::clone(&self.events);
        }
        let aggregated = self.aggregated.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(aggregated.get(&*resource.group).unwrap_or(&self.kubernetes))
    }
}

#[cfg(test)]
mod tests;
