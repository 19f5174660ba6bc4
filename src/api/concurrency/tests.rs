use std::pin::pin;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use tokio::time::Instant;

use super::*;
use crate::telemetry::Exporter;

/// A limiter down to so many slots.
async fn limiter(limit: usize) -> Arc<Limiter> {
    let limiter = Limiter::new(ApiSide::Kubernetes);
    let crowd = join_all((0..2 * limit).map(|_| limiter.slot())).await;
    for slot in crowd {
        slot.end(Signal::Rejected);
    }
    assert_eq!(limiter.limit(), limit);
    limiter
}

#[tokio::test(start_paused = true)]
async fn slots_are_granted_in_the_order_of_requests() {
    let limiter = limiter(1).await;
    let first = limiter.slot().await;
    let order = std::sync::Mutex::new(Vec::new());
    let waiting = (0..10).map(|number| {
        let (limiter, order) = (&limiter, &order);
        async move {
            let slot = limiter.slot().await;
            order.lock().unwrap().push(number);
            // A request that arrives while others wait does not overtake them.
            tokio::task::yield_now().await;
            slot.end(Signal::Ignored);
        }
    });
    let late = async {
        first.end(Signal::Ignored);
        let slot = limiter.slot().await;
        order.lock().unwrap().push(10);
        drop(slot);
    };
    tokio::join!(join_all(waiting), late);
    assert_eq!(*order.lock().unwrap(), (0..=10).collect::<Vec<_>>());
}

/// Waiters that are cancelled before their turn, and one that has already been given a slot.
#[tokio::test(start_paused = true)]
async fn a_cancelled_waiter_takes_no_slot() {
    let limiter = limiter(1).await;
    let first = limiter.slot().await;
    let mut given_up: Vec<_> = (0..5).map(|_| Box::pin(limiter.slot())).collect();
    for waiting in &mut given_up {
        assert!(waiting.as_mut().now_or_never().is_none());
    }
    let mut handed = Box::pin(limiter.slot());
    let mut last = pin!(limiter.slot());
    assert!(handed.as_mut().now_or_never().is_none());
    assert!(last.as_mut().now_or_never().is_none());
    drop(given_up);
    first.end(Signal::Ignored);
    assert_eq!(limiter.queued(), 1, "it was handed on past those who had gone");
    drop(handed);
    let slot = last.now_or_never().expect("the slot came back");
    drop(slot);
    assert_eq!((limiter.queued(), limiter.limit()), (0, 1));
    let _again = limiter.slot().now_or_never().expect("none is lost");
}

#[tokio::test(start_paused = true)]
async fn a_cut_applies_to_new_requests_and_success_raises_the_limit() {
    let limiter = limiter(2).await;
    let (one, two) = (limiter.slot().await, limiter.slot().await);
    let mut third = pin!(limiter.slot());
    assert!(third.as_mut().now_or_never().is_none());
    two.end(Signal::Served);
    let third = third.now_or_never().expect("there is room");
    one.end(Signal::Served);
    assert_eq!(limiter.limit(), 3);
    let fourth = limiter.slot().now_or_never().expect("the second and the third");
    let fifth = limiter.slot().now_or_never().expect("one more than before");
    assert!(limiter.slot().now_or_never().is_none());
    drop((third, fourth, fifth));
}

#[tokio::test(start_paused = true)]
async fn after_a_429_at_the_minimum_the_next_request_pauses() {
    let limiter = limiter(1).await;
    let start = Instant::now();
    limiter.slot().await.end(Signal::Rejected);
    let slot = limiter.slot().await;
    assert_eq!(start.elapsed(), Duration::from_millis(50));
    // With others waiting, longer each time.
    let (mut second, mut third) = (pin!(limiter.slot()), pin!(limiter.slot()));
    assert!(second.as_mut().now_or_never().is_none());
    assert!(third.as_mut().now_or_never().is_none());
    slot.end(Signal::Rejected);
    let second = second.await;
    assert_eq!(start.elapsed(), Duration::from_millis(150));
    second.end(Signal::Served);
    drop(third.await);
    assert_eq!(start.elapsed(), Duration::from_millis(150), "it is answered again");
}

#[tokio::test(start_paused = true)]
async fn a_request_cancelled_in_a_pause_leaves_the_pause_to_the_next() {
    let limiter = limiter(1).await;
    let start = Instant::now();
    limiter.slot().await.end(Signal::Rejected);
    let given_up = tokio::time::timeout(Duration::from_millis(20), limiter.slot()).await;
    assert!(given_up.is_err());
    limiter.slot().await.end(Signal::Served);
    assert_eq!(start.elapsed(), Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_request_gives_up_its_slot_and_its_result_still_counts() {
    let limiter = limiter(1).await;
    let start = Instant::now();
    let mut slot = limiter.slot().await;
    let hanging = async {
        slot.keep(tokio::time::sleep(Duration::from_secs(30)), Duration::from_secs(5), || {}).await;
        slot.end(Signal::Rejected);
        start.elapsed()
    };
    let next = async {
        tokio::task::yield_now().await;
        let slot = limiter.slot().await;
        drop(slot);
        start.elapsed()
    };
    let (hung, waited) = tokio::join!(hanging, next);
    assert_eq!((hung, waited), (Duration::from_secs(30), Duration::from_secs(5)));
    let _paused = limiter.slot().await;
    assert_eq!(start.elapsed(), Duration::from_millis(30_050), "a lone request was refused");
}

#[tokio::test(start_paused = true)]
async fn every_server_has_its_own_limit() {
    let concurrency = ConcurrencyLimits::default();
    let of = |name: &str| concurrency.limiter(&GroupResource::parse(name));
    concurrency.set_aggregated(["metrics.example.com", "things.example.com"].into_iter());
    assert!(Arc::ptr_eq(&of("pods"), &of("widgets.example.com")), "custom resources are the server's own");
    let things = of("things.things.example.com");
    assert!(!Arc::ptr_eq(&things, &of("pods")) && !Arc::ptr_eq(&things, &of("pods.metrics.example.com")));
    assert!(Arc::ptr_eq(&things, &of("others.things.example.com")));
    assert!(!Arc::ptr_eq(&of("events"), &of("pods")));
    concurrency.set_aggregated(["things.example.com", "things.example.com"].into_iter());
    assert!(Arc::ptr_eq(&things, &of("things.things.example.com")), "what was learned is kept");
    assert!(Arc::ptr_eq(&of("pods.metrics.example.com"), &of("pods")), "it is no other server any more");
}

#[tokio::test(start_paused = true)]
async fn the_limit_is_shown_in_the_metrics() {
    let (recorder, exporter) = Exporter::local().unwrap();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let has = |line: &str| exporter.render().lines().any(|found| found == line);
    let limiter = limiter(4).await;
    assert!(has("kube_gc_api_concurrency_limit 4"));
    assert!(has(r#"kube_gc_api_concurrency_cuts_total{server="kubernetes"} 1"#));
    for _ in 0..4 {
        let crowd = join_all((0..4).map(|_| limiter.slot())).await;
        crowd.into_iter().take(1).for_each(|slot| slot.end(Signal::Served));
    }
    assert!(has("kube_gc_api_concurrency_limit 5"));
    Limiter::new(ApiSide::Aggregated).slot().await.end(Signal::Rejected);
    assert!(has("kube_gc_api_concurrency_limit 5"), "the limit is that of the API server itself");
    assert!(has(r#"kube_gc_api_concurrency_cuts_total{server="aggregated"} 1"#));
}

#[tokio::test(start_paused = true)]
async fn a_burst_passes_at_once_and_the_rest_is_spaced_out() {
    let start = Instant::now();
    let limiter = RateLimiter::new(10, 5);
    for _ in 0..5 {
        limiter.acquire().await;
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    for _ in 0..10 {
        limiter.acquire().await;
    }
    let elapsed = start.elapsed();
    assert!((Duration::from_millis(990)..Duration::from_millis(1100)).contains(&elapsed), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_configured_burst_one_second_of_requests_is_the_burst() {
    let start = Instant::now();
    let limiter = RateLimiter::new(10, 0);
    for _ in 0..10 {
        limiter.acquire().await;
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    limiter.acquire().await;
    assert!(start.elapsed() >= Duration::from_millis(90), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn zero_is_no_limit() {
    let start = Instant::now();
    let limiter = RateLimiter::new(0, 0);
    for _ in 0..1000 {
        limiter.acquire().await;
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}
