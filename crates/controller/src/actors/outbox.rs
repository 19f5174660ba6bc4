//! Links that a partition has not delivered to partition 0 yet.

use std::collections::{HashMap, VecDeque};

use kube_gc_core::graph::Link;
use kube_gc_core::object::Key;

/// Links, keyed by (dependent, owner). The last state of a pair replaces an earlier one that has not
/// been sent. So the edges of the graph bound the memory, and no partition waits for room in a full
/// mailbox.
#[derive(Debug, Default)]
pub struct Outbox {
    last: HashMap<(Key, Key), Link>,
    /// The pairs in their order, numbered.
    order: VecDeque<(u64, (Key, Key))>,
    next: u64,
    /// The first number of the batch in flight.
    in_flight: Option<u64>,
}

impl Outbox {
    /// Queues a link. It replaces an older one of the same pair.
    pub fn put(&mut self, link: Link) {
        let pair = (link.dependent(), link.owner.clone());
        if self.last.insert(pair.clone(), link).is_none() {
            self.order.push_back((self.next, pair));
            self.next += 1;
        }
    }

    /// Takes the oldest links, at most `limit`. There are none while a batch is in flight, because the
    /// order would be lost.
    pub fn take(&mut self, limit: usize) -> Vec<Link> {
        if self.in_flight.is_some() {
            return Vec::new();
        }
        self.in_flight = self.order.front().map(|(number, _)| *number);
        let oldest = self.order.drain(..limit.min(self.order.len()));
        oldest.filter_map(|(_, pair)| self.last.remove(&pair)).collect()
    }

    /// The batch in flight has been applied.
    pub fn delivered(&mut self) {
        self.in_flight = None;
    }

    /// All links so far have smaller numbers.
    pub const fn mark(&self) -> u64 {
        self.next
    }

    /// Whether every link before `mark` has been applied.
    pub fn is_through(&self, mark: u64) -> bool {
        let waiting = self.order.front().map(|(number, _)| *number);
        [waiting, self.in_flight].into_iter().flatten().all(|number| number >= mark)
    }

    /// The number of links that have not been sent.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether nothing waits and nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty() && self.in_flight.is_none()
    }

    /// Drops the links that have not been sent.
    pub fn clear(&mut self) {
        self.last.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::tests::identity;
    use kube_gc_core::object::{DeletionState, Identity};

    fn link(dependent: &str) -> Link {
        let Identity { resource, namespace, name, uid } = identity("a", dependent);
        Link {
            owner: identity("b", "owner").key(),
            resource,
            namespace: namespace.unwrap(),
            name,
            uid,
            deletion: DeletionState::Live,
            shares_uid: false,
            references: Vec::new(),
        }
    }

    #[test]
    fn the_last_state_of_a_pair_replaces_a_queued_one() {
        let mut outbox = Outbox::default();
        outbox.put(link("x"));
        outbox.put(link("y"));
        outbox.put(link("x"));
        assert_eq!(outbox.len(), 2);
        assert_eq!(outbox.take(10).len(), 2);
    }

    #[test]
    fn a_mark_is_passed_only_when_everything_before_it_was_applied() {
        let mut outbox = Outbox::default();
        outbox.put(link("x"));
        let mark = outbox.mark();
        outbox.put(link("y"));
        assert!(!outbox.is_through(mark));
        assert_eq!(outbox.take(1).len(), 1);
        assert!(!outbox.is_through(mark), "it is in flight, not applied");
        assert!(outbox.take(1).is_empty(), "one batch at a time keeps the order");
        outbox.delivered();
        assert!(outbox.is_through(mark), "messages after the mark do not count");
        assert!(!outbox.is_empty());
    }
}
