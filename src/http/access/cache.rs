//! A cache of answers with a time to live. Concurrent requests for one key share one lookup.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::time::Instant;

/// An answer and its time to live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer<V> {
    pub value: V,
    pub keep: Duration,
}

/// The result of a lookup.
type Outcome<V, E> = Result<Answer<V>, E>;

/// Caches answers. An error goes to all who wait for it and is not cached.
pub(super) struct Cache<K, V, E> {
    slots: Arc<Mutex<HashMap<K, Slot<V, E>>>>,
    capacity: usize,
}

enum Slot<V, E> {
    /// The lookup is in flight.
    Pending(Pending<V, E>),
    Known(V, Instant),
}

type Pending<V, E> = Shared<BoxFuture<'static, Outcome<V, E>>>;

impl<V, E> Slot<V, E> {
    /// When the answer expires; `None` while the lookup is in flight.
    fn until(&self) -> Option<Instant> {
        match self {
            Self::Pending(_) => None,
            Self::Known(_, until) => Some(*until),
        }
    }
}

/// Every entry of the cache is a lookup in flight, so there is no room for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl<K, V, E> Cache<K, V, E>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    /// A cache with room for this many answers.
    pub(super) fn new(capacity: usize) -> Self {
        Self { slots: Arc::default(), capacity }
    }

    /// The number of answers and of lookups in flight.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.slots).len()
    }

    /// Whether the answer is cached or its lookup is in flight.
    pub(super) fn contains(&self, key: &K) -> bool {
        match lock(&self.slots).get(key) {
            Some(Slot::Known(_, until)) => *until > Instant::now(),
            Some(Slot::Pending(_)) => true,
            None => false,
        }
    }

    /// The cached answer, or that of the lookup `ask`, unless one is in flight already. The
    /// lookup continues if this future is dropped, because others may wait for it.
    pub(super) async fn get<F>(&self, key: K, ask: impl FnOnce() -> F) -> Result<Result<V, E>, Full>
    where
        F: Future<Output = Outcome<V, E>> + Send + 'static,
    {
        let pending = {
            let mut slots = lock(&self.slots);
            match slots.get(&key) {
                Some(Slot::Known(value, until)) if *until > Instant::now() => return Ok(Ok(value.clone())),
                Some(Slot::Pending(pending)) => pending.clone(),
                Some(Slot::Known(..)) | None => {
                    slots.remove(&key);
                    make_room(&mut slots, self.capacity)?;
                    let pending = self.ask(key.clone(), ask());
                    slots.insert(key, Slot::Pending(pending.clone()));
                    pending
                }
            }
        };
        Ok(pending.await.map(|answer| answer.value))
    }

    fn ask<F>(&self, key: K, question: F) -> Pending<V, E>
    where
        F: Future<Output = Outcome<V, E>> + Send + 'static,
    {
        let pending = question.boxed().shared();
        let (slots, task) = (Arc::clone(&self.slots), pending.clone());
        let keeping = async move {
            let outcome = task.await;
            // `get` holds the lock until the pending lookup is in the map.
            let mut slots = lock(&slots);
            match outcome {
                Ok(Answer { value, keep }) => {
                    slots.insert(key, Slot::Known(value, Instant::now() + keep));
                }
                Err(_) => {
                    slots.remove(&key);
                }
            }
        };
        tokio::spawn(keeping.boxed());
        pending
    }
}

/// Removes expired answers and, if that is not enough, those that expire next. Denials
/// expire sooner than approvals, so made-up tokens go before valid ones.
fn make_room<K: Clone + Eq + Hash, V, E>(
    slots: &mut HashMap<K, Slot<V, E>>,
    capacity: usize,
) -> Result<(), Full> {
    if slots.len() < capacity {
        return Ok(());
    }
    let now = Instant::now();
    slots.retain(|_, slot| slot.until().is_none_or(|until| until > now));
    while slots.len() >= capacity {
        let known = slots.iter().filter_map(|(key, slot)| Some((slot.until()?, key)));
        let (_, key) = known.min_by_key(|(until, _)| *until).ok_or(Full)?;
        let key = key.clone();
        slots.remove(&key);
    }
    Ok(())
}

// A panic cannot leave the map half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    type Numbers = Cache<u32, u32, &'static str>;

    async fn get(cache: &Numbers, key: u32, value: u32, keep: Duration) -> u32 {
        cache.get(key, || async move { Ok(Answer { value, keep }) }).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn an_answer_is_cached_for_its_lifetime() {
        tokio::time::pause();
        let cache = Numbers::new(2);
        assert_eq!(get(&cache, 1, 10, MINUTE).await, 10);
        tokio::task::yield_now().await;
        tokio::time::advance(MINUTE - Duration::from_millis(1)).await;
        assert_eq!(get(&cache, 1, 11, MINUTE).await, 10);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(get(&cache, 1, 12, MINUTE).await, 12);
    }

    #[tokio::test]
    async fn concurrent_equal_reviews_are_sent_once() {
        tokio::time::pause();
        let cache = Numbers::new(2);
        let (lookups, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let one = || {
            let (lookups, answer) = (Arc::clone(&lookups), Arc::clone(&answer));
            cache.get(1, move || async move {
                lookups.fetch_add(1, Ordering::SeqCst);
                answer.notified().await;
                Err("down")
            })
        };
        let (mut first, second) = (Box::pin(one()), one());
        assert!(futures::poll!(&mut first).is_pending());
        // The lookup continues for the others when the first caller goes away.
        drop(first);
        answer.notify_one();
        assert_eq!(tokio::time::timeout(MINUTE, second).await.unwrap(), Ok(Err("down")));
        assert_eq!(lookups.load(Ordering::SeqCst), 1);
        tokio::task::yield_now().await;
        assert_eq!(get(&cache, 1, 5, MINUTE).await, 5, "errors are not remembered");
    }

    #[tokio::test]
    async fn the_cache_evicts_the_entry_that_expires_first() {
        let cache = Numbers::new(2);
        for (key, keep) in [(1, MINUTE), (2, 2 * MINUTE), (3, MINUTE)] {
            get(&cache, key, key, keep).await;
            tokio::task::yield_now().await;
        }
        assert_eq!(cache.len(), 2);
        assert_eq!(get(&cache, 2, 0, MINUTE).await, 2);
        assert_eq!(get(&cache, 3, 0, MINUTE).await, 3);
    }

    #[tokio::test]
    async fn more_reviews_in_flight_than_the_cache_can_hold_are_refused() {
        let cache = Numbers::new(1);
        let mut first = Box::pin(cache.get(1, std::future::pending));
        assert!(futures::poll!(&mut first).is_pending());
        assert_eq!(cache.get(2, std::future::pending).await, Err(Full));
    }
}
