use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::super::*;

const MINUTE: Duration = Duration::from_secs(60);

type Numbers = Cache<u32, u32, &'static str>;

async fn get(cache: &Numbers, key: u32, value: u32, keep: Duration) -> u32 {
    cache.get(key, || async move { Ok(Answer { value, keep }) }).await.unwrap().unwrap()
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
