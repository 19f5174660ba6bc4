use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt as _};

use super::*;
use crate::testing::{Reply, Server as Scripted, order, widget};
use crate::{Api, ApiSettings, Deleted, WriteGate};
use kube_gc_core::object::{Identity, Namespace};
use machine::{PATIENCE, PAUSE};

fn widget_in(namespace: &str, name: &str) -> Identity {
    Identity { namespace: Namespace::parse(namespace), name: name.into(), ..widget() }
}

async fn delete(api: &Api, namespace: &str, name: &str) -> Result<Deleted, ApiError> {
    api.delete(&order(&widget_in(namespace, name)), None).await
}

/// A server whose deletions hang in namespaces that begin with `bad`.
fn server() -> Scripted {
    Scripted::answering(|seen| match seen.method.as_str() {
        "DELETE" if seen.path.contains("/namespaces/bad") => Reply::never(),
        _ => Reply::ok(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#),
    })
}

fn sent(server: &Scripted, namespace: &str) -> usize {
    let namespace = format!("/namespaces/{namespace}/");
    server.seen().iter().filter(|seen| seen.path.contains(&namespace)).count()
}

fn retry_after<T: std::fmt::Debug>(result: Result<T, ApiError>) -> Duration {
    match result.expect_err("it is not sent").class {
        ErrorClass::Deferred { retry_after, .. } => retry_after,
        class => panic!("it is sent: {class:?}"),
    }
}

/// A hundred workers, whose places in the window are twenty at first.
#[tokio::test(start_paused = true)]
async fn hanging_requests_of_one_namespace_leave_slots_to_all_others() {
    let (server, start) = (server(), Instant::now());
    let api = server.api();
    let bad = join_all((0..100).map(|n| {
        let api = api.clone();
        async move { delete(&api, "bad", &n.to_string()).await }
    }));
    let good = async {
        tokio::task::yield_now().await;
        for n in 0..10 {
            assert!(delete(&api, "good", &n.to_string()).await.is_ok());
        }
        start.elapsed()
    };
    let (bad, elapsed) = tokio::join!(bad, good);
    assert!(elapsed <= PATIENCE, "{elapsed:?}");
    let deferred =
        bad.iter().filter(|result| matches!(result.as_ref().unwrap_err().class, ErrorClass::Deferred { .. }));
    let under_way = sent(&server, "bad");
    assert_eq!(deferred.count(), 100 - under_way);
    assert_eq!(under_way, 20, "those that had a place before the first one hung");
}

#[tokio::test(start_paused = true)]
async fn many_hanging_namespaces_together_do_not_take_all_slots() {
    let server = server();
    let api = server.api();
    // Eight workers, which step aside, take turns between 1000 bad namespaces and a good one.
    let aside = Arc::new(AtomicUsize::new(0));
    let mut under_way = FuturesUnordered::new();
    let (mut next, mut busy, mut slowest) = (0, 0, Duration::ZERO);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        while busy < 8 + aside.load(Ordering::Relaxed) {
            let (namespace, is_good) = match next % 20 {
                0 => ("good".to_owned(), true),
                n => (format!("bad-{}", (next + n) % 1000), false),
            };
            next += 1;
            busy += 1;
            let (api, stepped) = (api.clone(), Arc::new(AtomicUsize::new(0)));
            let (all, own) = (Arc::clone(&aside), Arc::clone(&stepped));
            let act = move || {
                if own.fetch_add(1, Ordering::Relaxed) == 0 {
                    all.fetch_add(1, Ordering::Relaxed);
                }
            };
            let work = async move {
                let began = Instant::now();
                let result = delete(&api, &namespace, "w").await;
                // A deferred key waits and takes hardly any worker time.
                tokio::time::sleep(Duration::from_millis(5)).await;
                (is_good, began.elapsed(), result, stepped)
            };
            under_way.push(HangHook::scope(act, work));
        }
        let tick = tokio::time::timeout(Duration::from_millis(10), under_way.next());
        if let Ok(Some((is_good, took, result, stepped))) = tick.await {
            busy -= 1;
            aside.fetch_sub(stepped.load(Ordering::Relaxed).min(1), Ordering::Relaxed);
            if is_good {
                assert!(result.is_ok(), "{result:?}");
                slowest = slowest.max(took);
            }
        }
        assert!(aside.load(Ordering::Relaxed) <= 128, "more than a pool lets step aside");
    }
    assert!(slowest <= Duration::from_secs(1), "{slowest:?}");
    assert!(sent(&server, "good") > 1000, "{}", sent(&server, "good"));
}

#[tokio::test(start_paused = true)]
async fn a_compartment_that_failed_slowly_pauses_and_its_failure_is_named() {
    let server = server();
    let api = server.api();
    assert!(matches!(delete(&api, "bad", "a").await.unwrap_err().class, ErrorClass::Transient));
    let error = delete(&api, "bad", "b").await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("DELETE widgets.example.com bad/b: not sent: "), "{text}");
    assert!(text.contains("because one failed after 30.0 s: DELETE widgets.example.com bad/a"), "{text}");
    assert_eq!(retry_after::<()>(Err(error)), PAUSE);
    assert_eq!(sent(&server, "bad"), 1);
    // Neither another verb nor another namespace nor another type.
    assert!(
        api.look_up(&widget_in("bad", "b")).await.is_err_and(|error| error.class != ErrorClass::Transient)
    );
    assert!(delete(&api, "good", "a").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_unsent_request_takes_no_turn() {
    let server = server();
    let settings = ApiSettings { qps: 1, burst: 1, seed: 1, ..ApiSettings::default() };
    let api = server.api_with(settings, WriteGate::open());
    assert!(delete(&api, "bad", "a").await.is_err());
    let start = Instant::now();
    for n in 0..100 {
        retry_after(delete(&api, "bad", &n.to_string()).await);
    }
    assert!(delete(&api, "good", "a").await.is_ok());
    assert!(start.elapsed() <= Duration::from_secs(1), "{:?}", start.elapsed());
}

impl Server {
    fn limit(&self) -> usize {
        locked(&self.state).window.limit()
    }

    /// A request ends that is sent now.
    fn end(&self, outcome: Outcome<'_>) {
        let epoch = locked(&self.state).window.epoch();
        self.record(epoch, outcome);
    }

    /// A server whose limit was cut down to so many slots.
    async fn cut_to(limit: usize) -> Arc<Self> {
        let server = Self::new(ApiSide::Kubernetes);
        let crowd = join_all((0..2 * limit).map(|_| server.slot())).await;
        server.end(Outcome::Rejected);
        drop(crowd);
        assert_eq!((server.limit(), server.slots.available_permits()), (limit, limit));
        server
    }
}

#[tokio::test(start_paused = true)]
async fn a_cut_applies_to_new_requests_and_success_raises_the_limit() {
    let server = Server::cut_to(4).await;
    let mut begun: Vec<_> = join_all((0..4).map(|_| server.slot())).await;
    server.end(Outcome::Rejected);
    assert_eq!(server.limit(), 2);
    for left in [3, 2] {
        begun.pop();
        assert_eq!(begun.len(), left);
        assert!(server.slot().now_or_never().is_none(), "{left} are in flight");
    }
    server.end(Outcome::Served);
    server.end(Outcome::Served);
    assert_eq!(server.limit(), 3);
    begun.push(server.slot().now_or_never().expect("one more than before"));
    assert!(server.slot().now_or_never().is_none());
    server.end(Outcome::Rejected);
    begun.clear();
    assert_eq!((server.limit(), server.slots.available_permits()), (1, 1), "none is lost");
}

#[tokio::test(start_paused = true)]
async fn every_server_has_its_own_limit() {
    let limits = Limits::new();
    let of = |name: &str| limits.server(&GroupResource::parse(name));
    limits.set_aggregated(["metrics.example.com", "things.example.com"].into_iter());
    assert!(Arc::ptr_eq(&of("pods"), &of("widgets.example.com")), "custom resources are the server's own");
    let things = of("things.things.example.com");
    assert!(!Arc::ptr_eq(&things, &of("pods")) && !Arc::ptr_eq(&things, &of("pods.metrics.example.com")));
    assert!(Arc::ptr_eq(&things, &of("others.things.example.com")));
    assert!(!Arc::ptr_eq(&of("events"), &of("pods")));
    limits.set_aggregated(["things.example.com", "things.example.com"].into_iter());
    assert!(Arc::ptr_eq(&things, &of("things.things.example.com")), "what was learned is kept");
    assert!(Arc::ptr_eq(&of("pods.metrics.example.com"), &of("pods")), "it is no other server any more");
}

#[tokio::test(start_paused = true)]
async fn a_burst_passes_at_once_and_the_rest_is_spaced_out() {
    // Requests per second and burst, the number of requests, and the milliseconds that they take.
    for (qps, burst, requests, least, most) in [
        (10, 5, 5, 0, 0),
        (10, 5, 15, 990, 1100),
        (10, 0, 10, 0, 0),
        (10, 0, 11, 90, 110),
        (0, 0, 1000, 0, 0),
    ] {
        let (start, limiter) = (Instant::now(), RateLimiter::new(qps, burst));
        for _ in 0..requests {
            limiter.acquire().await;
        }
        let elapsed = start.elapsed().as_millis();
        assert!((least..=most).contains(&elapsed), "{qps} {burst} {requests}: {elapsed} ms");
    }
}

/// A request that comes later must not take the token of one that waits.
#[tokio::test(start_paused = true)]
async fn tokens_go_to_those_that_wait_in_their_order() {
    let (limiter, order) = (RateLimiter::new(1, 1), std::cell::RefCell::new(Vec::new()));
    limiter.acquire().await;
    join_all((0..5).map(|number| {
        let (limiter, order) = (&limiter, &order);
        async move {
            // The second one tries at the moment at which the token for the first one comes.
            tokio::time::sleep(Duration::from_secs(number)).await;
            limiter.acquire().await;
            order.borrow_mut().push(number);
            limiter.acquire().await;
        }
    }))
    .await;
    assert_eq!(*order.borrow(), [0, 1, 2, 3, 4]);
}
