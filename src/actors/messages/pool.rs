//! Messages to a pool.

use std::ops::Range;

use actix::Message;
use tokio::time::Instant;

use kube_gc_core::object::Key;

/// Queues keys.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Enqueue {
    /// The keys.
    pub keys: Vec<Key>,
    /// Ranges of keys whose owner was deleted, with the moment at which the event came. Sorted.
    pub bereaved: Vec<(Range<usize>, Instant)>,
}

impl From<Vec<Key>> for Enqueue {
    fn from(keys: Vec<Key>) -> Self {
        Self { keys, bereaved: Vec::new() }
    }
}

impl Enqueue {
    /// Splits it into messages of at most `size` keys.
    pub fn parts(mut self, size: usize) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            if self.keys.is_empty() {
                return None;
            }
            let rest = self.keys.split_off(self.keys.len().min(size));
            let keys = std::mem::replace(&mut self.keys, rest);
            let count = keys.len();
            let inside = |range: &Range<usize>| range.start.min(count)..range.end.min(count);
            let beyond = |range: &Range<usize>| range.start.max(count) - count..range.end.max(count) - count;
            let part = |cut: &dyn Fn(&Range<usize>) -> Range<usize>| {
                let cut = self.bereaved.iter().map(|(range, at)| (cut(range), *at));
                cut.filter(|(range, _)| !range.is_empty()).collect()
            };
            let (here, later) = (part(&inside), part(&beyond));
            self.bereaved = later;
            Some(Self { keys, bereaved: here })
        })
    }

    /// Every key, with the moment at which its owner's deletion came.
    pub fn causes(self) -> impl Iterator<Item = (Key, Option<Instant>)> {
        let mut bereaved = self.bereaved.into_iter().peekable();
        self.keys.into_iter().enumerate().map(move |(index, key)| {
            while bereaved.next_if(|(range, _)| range.end <= index).is_some() {}
            let cause = bereaved.peek().filter(|(range, _)| range.contains(&index));
            (key, cause.map(|(_, at)| *at))
        })
    }
}

/// Start handing out work. Backoff is reset.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Open;

/// Stop handing out work. Keys are still queued. Answered when no item is in progress.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Close;

/// The catalog changed: queue all keys that wait for a kind to resolve.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct WakeUnresolved;

/// An outage of the API server has ended: queue the keys that it delayed.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct WakeRecovered;

/// Asks which keys wait for a kind to resolve or for an owner's type to be read.
#[derive(Debug, Message)]
#[rtype(result = "Vec<Key>")]
pub struct AskParked;

/// Queue those of these keys that still wait.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Wake(pub Vec<Key>);

/// The brake was released: queue the keys that it stopped.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct WakeBraked;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::actors::tests::key;

    #[test]
    fn each_key_keeps_the_time_of_its_trigger_in_split_messages() {
        let origin = Instant::now();
        let at = |seconds| origin + Duration::from_secs(seconds);
        let keys: Vec<_> = (0..10).map(|number| key("a", &number.to_string())).collect();
        let bereaved = vec![(1..3, at(1)), (3..4, at(2)), (6..9, at(3))];
        let expected = [None, Some(1), Some(1), Some(2), None, None, Some(3), Some(3), Some(3), None];
        for size in 1..12 {
            let all = Enqueue { keys: keys.clone(), bereaved: bereaved.clone() };
            let parts: Vec<_> = all.parts(size).collect();
            assert!(parts.iter().all(|part| part.keys.len() <= size));
            let found: Vec<_> = parts.into_iter().flat_map(Enqueue::causes).collect();
            let wanted: Vec<_> = keys.iter().cloned().zip(expected.map(|seconds| seconds.map(at))).collect();
            assert_eq!(found, wanted, "in messages of {size}");
        }
    }
}
