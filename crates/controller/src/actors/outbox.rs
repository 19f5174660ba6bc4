//! Messages that one partition has not delivered to others yet.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use kube_gc_core::graph::{Link, PartitionId, PeerMessage};
use kube_gc_core::object::Key;

/// The position of a message in the order of the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sequence(u64);

/// Messages to other partitions, keyed by (dependent, owner). The last state of a pair replaces an
/// earlier one that has not been sent. So the edges of the graph bound the memory, no partition
/// waits for room in a full mailbox, and two partitions cannot block each other.
#[derive(Debug, Default)]
pub struct Outbox {
    last: HashMap<(Key, Key), (PartitionId, PeerMessage)>,
    order: VecDeque<(Sequence, (Key, Key))>,
    next: u64,
    /// The first sequence number of the batch in flight.
    in_flight: Option<Sequence>,
}

impl Outbox {
    /// Queues a message. It replaces an older message of the same pair.
    pub fn put(&mut self, to: PartitionId, message: PeerMessage) {
        let pair = match &message {
            PeerMessage::Link(link) => (dependent_of(link), link.owner.clone()),
            PeerMessage::Unlink { dependent, owner } => (dependent.clone(), owner.clone()),
        };
        if self.last.insert(pair.clone(), (to, message)).is_none() {
            self.order.push_back((Sequence(self.next), pair));
            self.next += 1;
        }
    }

    /// Takes the oldest messages, at most `limit`, all for one partition. `None` if nothing waits,
    /// or while a batch is in flight, because the order would be lost.
    pub fn take(&mut self, limit: usize) -> Option<(PartitionId, Vec<PeerMessage>)> {
        if self.in_flight.is_some() {
            return None;
        }
        self.in_flight = self.order.front().map(|(sequence, _)| *sequence);
        let mut batch: Option<(PartitionId, Vec<PeerMessage>)> = None;
        while let Some((_, pair)) = self.order.front() {
            let to = self.last.get(pair).map(|(to, _)| *to);
            match (&mut batch, to) {
                (Some((target, messages)), Some(to)) if *target != to || messages.len() >= limit => break,
                _ => {}
            }
            let Some((_, pair)) = self.order.pop_front() else { break };
            if let Some((to, message)) = self.last.remove(&pair) {
                batch.get_or_insert_with(|| (to, Vec::new())).1.push(message);
            }
        }
        batch
    }

    /// The batch in flight has been applied.
    pub fn delivered(&mut self) {
        self.in_flight = None;
    }

    /// All messages so far have smaller sequence numbers.
    pub const fn mark(&self) -> Sequence {
        Sequence(self.next)
    }

    /// Whether every message before `mark` has been applied.
    pub fn is_through(&self, mark: Sequence) -> bool {
        let waiting = self.order.front().map(|(sequence, _)| *sequence);
        [waiting, self.in_flight].into_iter().flatten().all(|sequence| sequence >= mark)
    }

    /// The number of messages that have not been sent.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether nothing waits and nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty() && self.in_flight.is_none()
    }

    /// Drops the messages that have not been sent.
    pub fn clear(&mut self) {
        self.last.clear();
        self.order.clear();
    }
}

fn dependent_of(link: &Link) -> Key {
    let Link { uid, resource, namespace, .. } = link;
    Key { uid: uid.clone(), resource: Arc::clone(resource), namespace: Some(namespace.clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::tests::key;

    fn unlink(dependent: &str) -> PeerMessage {
        PeerMessage::Unlink { dependent: key("a", dependent), owner: key("b", "owner") }
    }

    #[test]
    fn the_last_state_of_a_pair_replaces_a_queued_one() {
        let mut outbox = Outbox::default();
        outbox.put(PartitionId(0), unlink("x"));
        outbox.put(PartitionId(0), unlink("y"));
        outbox.put(PartitionId(0), unlink("x"));
        assert_eq!(outbox.len(), 2);
        assert_eq!(outbox.take(10).unwrap().1.len(), 2);
    }

    #[test]
    fn a_mark_is_passed_only_when_everything_before_it_was_applied() {
        let mut outbox = Outbox::default();
        outbox.put(PartitionId(0), unlink("x"));
        let mark = outbox.mark();
        outbox.put(PartitionId(0), unlink("y"));
        assert!(!outbox.is_through(mark));
        assert_eq!(outbox.take(1).unwrap().1.len(), 1);
        assert!(!outbox.is_through(mark), "it is in flight, not applied");
        assert!(outbox.take(1).is_none(), "one batch at a time keeps the order");
        outbox.delivered();
        assert!(outbox.is_through(mark), "messages after the mark do not count");
        assert!(!outbox.is_empty());
    }
}
