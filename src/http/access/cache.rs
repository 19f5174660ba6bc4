//! Answers that are remembered for a while, and asked for once at a time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::time::Instant;

/// An answer, with how long it may be remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer<V> {
    /// The answer.
    pub value: V,
    /// From now on.
    pub keep: Duration,
}

/// What can come of a question.
type Outcome<V, E> = Result<Answer<V>, E>;

/// Remembers answers. Errors are told to all who wait for them, and forgotten.
pub(super) struct Cache<K, V, E> {
    slots: Arc<Mutex<HashMap<K, Slot<V, E>>>>,
    capacity: usize,
}

enum Slot<V, E> {
    /// It is being asked for.
    Asked(Asked<V, E>),
    Known(V, Instant),
}

type Asked<V, E> = Shared<BoxFuture<'static, Outcome<V, E>>>;

impl<V, E> Slot<V, E> {
    /// When it may be forgotten, unless it is needed.
    fn until(&self) -> Option<Instant> {
        match self {
            Self::Asked(_) => None,
            Self::Known(_, until) => Some(*until),
        }
    }
}

/// So many questions are under way that no further one can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl<K, V, E> Cache<K, V, E>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    /// For so many answers.
    pub(super) fn new(capacity: usize) -> Self {
        Self { slots: Arc::default(), capacity }
    }

    /// Whether the answer is known, or asked for.
    pub(super) fn knows(&self, key: &K) -> bool {
        match lock(&self.slots).get(key) {
            Some(Slot::Known(_, until)) => *until > Instant::now(),
            Some(Slot::Asked(_)) => true,
            None => false,
        }
    }

    /// The answer to a question that is asked by `ask` unless it is known or has been
    /// asked already. The asking goes on if this is dropped: others may wait for it.
    pub(super) async fn get<F>(&self, key: K, ask: impl FnOnce() -> F) -> Result<Result<V, E>, Full>
    where
        F: Future<Output = Outcome<V, E>> + Send + 'static,
    {
        let asked = {
            let mut slots = lock(&self.slots);
            match slots.get(&key) {
                Some(Slot::Known(value, until)) if *until > Instant::now() => return Ok(Ok(value.clone())),
                Some(Slot::Asked(asked)) => asked.clone(),
                Some(Slot::Known(..)) | None => {
                    slots.remove(&key);
                    make_room(&mut slots, self.capacity)?;
                    let asked = self.ask(key.clone(), ask());
                    slots.insert(key, Slot::Asked(asked.clone()));
                    asked
                }
            }
        };
        Ok(asked.await.map(|answer| answer.value))
    }

    fn ask<F>(&self, key: K, question: F) -> Asked<V, E>
    where
        F: Future<Output = Outcome<V, E>> + Send + 'static,
    {
        let asked = question.boxed().shared();
        let (slots, task) = (Arc::clone(&self.slots), asked.clone());
        tokio::spawn(async move {
            let outcome = task.await;
            // Whoever asked holds the lock until the question is noted.
            let mut slots = lock(&slots);
            match outcome {
                Ok(Answer { value, keep }) => {
                    slots.insert(key, Slot::Known(value, Instant::now() + keep));
                }
                Err(_) => {
                    slots.remove(&key);
                }
            }
        });
        asked
    }
}

/// Forgets what is out of date and, if that is not enough, what soonest will be: of
/// tokens, those of nobody before those of somebody.
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

// A panic elsewhere leaves the map as it is between two changes.
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
    async fn an_answer_is_remembered_for_its_time_and_no_longer() {
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
    async fn many_who_ask_the_same_ask_once() {
        tokio::time::pause();
        let cache = Numbers::new(2);
        let (asked, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let one = || {
            let (asked, answer) = (Arc::clone(&asked), Arc::clone(&answer));
            cache.get(1, move || async move {
                asked.fetch_add(1, Ordering::SeqCst);
                answer.notified().await;
                Err("down")
            })
        };
        let (mut first, second) = (Box::pin(one()), one());
        assert!(futures::poll!(&mut first).is_pending());
        // Whoever has asked goes away: the others get their answer all the same.
        drop(first);
        answer.notify_one();
        assert_eq!(tokio::time::timeout(MINUTE, second).await.unwrap(), Ok(Err("down")));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        tokio::task::yield_now().await;
        assert_eq!(get(&cache, 1, 5, MINUTE).await, 5, "errors are not remembered");
    }

    #[tokio::test]
    async fn what_soonest_is_out_of_date_makes_room() {
        let cache = Numbers::new(2);
        for (key, keep) in [(1, MINUTE), (2, 2 * MINUTE), (3, MINUTE)] {
            get(&cache, key, key, keep).await;
            tokio::task::yield_now().await;
        }
        assert_eq!(lock(&cache.slots).len(), 2);
        assert_eq!(get(&cache, 2, 0, MINUTE).await, 2);
        assert_eq!(get(&cache, 3, 0, MINUTE).await, 3);
    }

    #[tokio::test]
    async fn more_questions_than_there_is_room_for_are_refused() {
        let cache = Numbers::new(1);
        let mut first = Box::pin(cache.get(1, std::future::pending));
        assert!(futures::poll!(&mut first).is_pending());
        assert_eq!(cache.get(2, std::future::pending).await, Err(Full));
    }
}
