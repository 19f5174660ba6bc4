use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt as _};

use super::*;
use crate::api::scripted::{Reply, Seen, Server, widget};
use crate::api::{Api, ApiSettings, Deleted, WriteGate};
use kube_gc_core::object::{Identity, Namespace, PropagationPolicy};

fn widget_in(namespace: &str, name: &str) -> Identity {
    Identity { namespace: Namespace::parse(namespace), name: name.into(), ..widget() }
}

async fn delete(api: &Api, namespace: &str, name: &str) -> Result<Deleted, ApiError> {
    api.delete(&widget_in(namespace, name), PropagationPolicy::Background, None).await
}

fn is_in(seen: &Seen, namespace: &str) -> bool {
    seen.path.contains(&format!("/namespaces/{namespace}/"))
}

/// A server whose deletions hang in namespaces that begin with `bad`.
fn server() -> Server {
    Server::answering(|seen| match seen.method.as_str() {
        "DELETE" if seen.path.contains("/namespaces/bad") => Reply::never(),
        _ => Reply::ok(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#),
    })
}

fn sent(server: &Server, namespace: &str) -> usize {
    server.seen().iter().filter(|seen| is_in(seen, namespace)).count()
}

fn retry_after<T: std::fmt::Debug>(result: Result<T, ApiError>) -> Duration {
    match result.expect_err("it is not sent").class {
        ErrorClass::Deferred { retry_after } => retry_after,
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
        let mut waited = Vec::new();
        for n in 0..10 {
            let began = Instant::now();
            assert!(delete(&api, "good", &n.to_string()).await.is_ok());
            waited.push(began.elapsed());
        }
        (start.elapsed(), waited)
    };
    let (bad, (elapsed, waited)) = tokio::join!(bad, good);
    assert!(elapsed <= PATIENCE, "{waited:?}");
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
                // What is deferred waits, and takes no worker's time but a little.
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
    let limit = api.settings().request_timeout;
    assert!(matches!(delete(&api, "bad", "a").await.unwrap_err().class, ErrorClass::Transient));
    let error = delete(&api, "bad", "b").await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("DELETE widgets.example.com bad/b: not sent: "), "{text}");
    assert!(text.contains("because one failed after 30.0 s: DELETE widgets.example.com bad/a"), "{text}");
    assert_eq!(retry_after::<()>(Err(error)), FIRST_WAIT);
    assert_eq!(sent(&server, "bad"), 1);
    // Neither another verb nor another namespace nor another type.
    assert!(
        api.look_up(&widget_in("bad", "b")).await.is_err_and(|error| error.class != ErrorClass::Transient)
    );
    assert!(delete(&api, "good", "a").await.is_ok());
    tokio::time::advance(FIRST_WAIT).await;
    let mut probe = Box::pin(delete(&api, "bad", "b"));
    assert!((&mut probe).now_or_never().is_none());
    assert_eq!(retry_after(delete(&api, "bad", "c").await), PATIENCE, "a probe that is answered is so soon");
    tokio::time::advance(PATIENCE).await;
    assert_eq!(
        retry_after(delete(&api, "bad", "c").await),
        limit - PATIENCE,
        "it will fail like the last one"
    );
    assert!(probe.await.is_err());
    assert_eq!(
        retry_after(delete(&api, "bad", "c").await),
        FIRST_WAIT * 2,
        "each probe that hangs doubles it"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_ends_the_pause_and_another_object_probes_next_time() {
    let server = Server::answering(|seen| match seen.path.as_str() {
        path if path.ends_with("/always") => Reply::never(),
        _ => Reply::ok(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#),
    });
    let api = server.api();
    assert!(delete(&api, "bad", "always").await.is_err());
    tokio::time::advance(FIRST_WAIT).await;
    assert!(delete(&api, "bad", "always").await.is_err(), "nobody else was there to probe");
    assert_eq!(retry_after(delete(&api, "bad", "fine").await), FIRST_WAIT * 2);
    tokio::time::advance(FIRST_WAIT * 2).await;
    assert_eq!(retry_after(delete(&api, "bad", "always").await), PATIENCE, "not the same one again");
    assert!(delete(&api, "bad", "fine").await.is_ok());
    assert!(api.bulkhead().state().is_idle());
}

#[tokio::test(start_paused = true)]
async fn requests_that_hang_together_count_as_one_failure_and_leave_nothing_behind() {
    let server = server();
    let api = server.api();
    let all = join_all((0..20).map(|n| {
        let api = api.clone();
        async move { delete(&api, "bad", &n.to_string()).await }
    }));
    assert!(all.await.iter().all(Result::is_err));
    assert_eq!(retry_after(delete(&api, "bad", "x").await), FIRST_WAIT);
    let given_up = tokio::time::timeout(FIRST_WAIT * 3, async {
        tokio::time::sleep(FIRST_WAIT).await;
        delete(&api, "bad", "x").await
    });
    assert!(given_up.await.is_err(), "it was dropped while it probed");
    assert!(delete(&api, "bad", "y").now_or_never().is_none(), "and another one probes");
    api.bulkhead().close_circuits();
    assert!(api.bulkhead().state().is_idle());
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

#[tokio::test(start_paused = true)]
async fn unused_compartments_are_forgotten() {
    let bulkhead = Bulkhead::default();
    let widgets = crate::api::scripted::widgets();
    for n in 0..100 {
        let namespace = format!("bad-{n}");
        let mut call = Call::get(crate::api::Verb::Delete, String::new(), "", &widgets.group_resource);
        let named = crate::api::error::Named {
            group_resource: &widgets.group_resource,
            namespace: Some(&namespace),
            name: "w",
        };
        call.object = Some(named);
        let Ok(mut guard) = bulkhead.admit(&call) else { panic!("nothing hangs any more") };
        guard.hangs();
        let error = call.error(ErrorClass::Transient, "no answer", None);
        let began = Instant::now();
        tokio::time::advance(SLOW).await;
        assert!(began.elapsed() >= SLOW);
        guard.end(End::Failed(&error));
        assert!(bulkhead.state().len() <= 20, "those that nobody has asked for since are forgotten");
    }
}
