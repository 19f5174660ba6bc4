use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt as _};

use super::*;
use crate::api::scripted::{ReceivedRequest, Reply, Server, widget};
use crate::api::{Api, ApiSettings, Deleted, WriteGate};
use kube_gc_core::object::{GroupResource, Identity, Namespace, PropagationPolicy};
use kube_gc_decode::Named;

fn widget_in(namespace: &str, name: &str) -> Identity {
    Identity { namespace: Namespace::parse(namespace), name: name.into(), ..widget() }
}

async fn delete(api: &Api, namespace: &str, name: &str) -> Result<Deleted, ApiError> {
    api.delete(&widget_in(namespace, name), PropagationPolicy::Background, None).await
}

fn is_in(seen: &ReceivedRequest, namespace: &str) -> bool {
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
    assert!(api.0.bulkhead.state().is_idle());
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
    api.0.bulkhead.close_circuits();
    assert!(api.0.bulkhead.state().is_idle());
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

/// A bulkhead without requests.
struct Bed(Bulkhead);

impl Bed {
    fn new() -> Self {
        Self(Bulkhead::default())
    }

    /// A request in a namespace, if it is admitted.
    fn admit(&self, namespace: &str, name: &str) -> Result<CompartmentGuard, ApiError> {
        let widgets = crate::api::scripted::widgets();
        self.0.admit(&call(&widgets.group_resource, namespace, name))
    }

    /// A request that hangs.
    fn hang(&self, namespace: &str) -> CompartmentGuard {
        let mut guard = self.admit(namespace, "w").unwrap();
        guard.hangs();
        guard
    }

    /// A request that fails after this time.
    async fn fail(&self, namespace: &str, after: Duration) {
        let guard = self.admit(namespace, "w").unwrap();
        tokio::time::advance(after).await;
        let widgets = crate::api::scripted::widgets();
        let error = call(&widgets.group_resource, namespace, "w").error(ErrorClass::Transient, "no", None);
        guard.end(End::Failed(&error));
    }
}

fn call<'a>(widgets: &'a GroupResource, namespace: &'a str, name: &'a str) -> Call<'a> {
    let mut call = Call::get(crate::api::Verb::Delete, String::new(), "", widgets);
    call.object = Some(Named { group_resource: widgets, namespace: Some(namespace), name });
    call
}

#[tokio::test(start_paused = true)]
async fn a_request_hangs_after_a_second_or_after_an_eighth_where_others_hang() {
    let bed = Bed::new();
    let patience = |namespace: &str| bed.admit(namespace, "w").unwrap().patience();
    assert_eq!(patience("other"), Duration::from_secs(1));
    let _hangs = bed.hang("bad");
    assert_eq!(patience("other"), Duration::from_millis(125));
    assert_eq!(patience("bad"), Duration::ZERO, "it is expected to hang");
    bed.admit("other", "w").unwrap().end(End::Answered);
    assert_eq!(patience("other"), Duration::from_secs(1), "it was answered in time");
}

#[tokio::test(start_paused = true)]
async fn while_one_request_hangs_four_are_in_flight() {
    let bed = Bed::new();
    let mut in_flight = vec![bed.hang("bad")];
    while let Ok(guard) = bed.admit("bad", "w") {
        in_flight.push(guard);
    }
    assert_eq!(in_flight.len(), 4);
    let error = bed.admit("bad", "w").unwrap_err().to_string();
    assert!(error.contains("4 requests of this type and verb in this namespace"), "{error}");
    in_flight.pop();
    assert!(bed.admit("bad", "w").is_ok(), "there is room again");
}

#[tokio::test(start_paused = true)]
async fn all_that_are_known_to_hang_have_64_requests_in_flight_and_96_with_others() {
    let bed = Bed::new();
    let mut in_flight: Vec<_> = (0..20).map(|n| bed.hang(&format!("bad-{n}"))).collect();
    for n in 0..20 {
        while let Ok(guard) = bed.admit(&format!("bad-{n}"), "w") {
            in_flight.push(guard);
        }
    }
    assert_eq!(in_flight.len(), 64);
    bed.admit("quick", "w").unwrap().end(End::Answered);
    for n in 0.. {
        let Ok(mut guard) = bed.admit(&format!("unknown-{n}"), "w") else { break };
        guard.hangs();
        in_flight.push(guard);
    }
    assert_eq!(in_flight.len(), 96);
    assert!(bed.admit("quick", "w").is_ok(), "it was answered in time");
}

#[tokio::test(start_paused = true)]
async fn only_a_failure_that_took_two_seconds_opens_the_circuit() {
    let bed = Bed::new();
    bed.fail("bad", Duration::from_millis(1999)).await;
    assert!(bed.admit("bad", "w").is_ok());
    bed.fail("bad", Duration::from_secs(2)).await;
    assert_eq!(retry_after(bed.admit("bad", "w")), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn the_circuit_stays_open_for_one_second_and_doubles_up_to_thirty() {
    let bed = Bed::new();
    for seconds in [1, 2, 4, 8, 16, 30, 30, 30] {
        bed.fail("bad", Duration::from_secs(10)).await;
        let wait = Duration::from_secs(seconds);
        assert_eq!(retry_after(bed.admit("bad", "w")), wait);
        tokio::time::advance(wait).await;
    }
    bed.admit("bad", "w").unwrap().end(End::Answered);
    bed.fail("bad", Duration::from_secs(10)).await;
    assert_eq!(retry_after(bed.admit("bad", "w")), Duration::from_secs(1), "an answer ended it");
}

#[tokio::test(start_paused = true)]
async fn no_more_than_4096_compartments_are_in_memory() {
    let bed = Bed::new();
    // Admitted together, before any of them hangs.
    let mut guards: Vec<_> = (0..5000).map(|n| bed.admit(&format!("bad-{n}"), "w").unwrap()).collect();
    guards.iter_mut().for_each(CompartmentGuard::hangs);
    assert_eq!(bed.0.state().len(), 4096);
    drop(guards);
    assert!(bed.0.state().is_idle());
}

#[tokio::test(start_paused = true)]
async fn unused_compartments_are_forgotten() {
    let bed = Bed::new();
    for n in 0..100 {
        bed.fail(&format!("bad-{n}"), SLOW).await;
        assert!(bed.0.state().len() <= 20, "those that nobody has asked for since are forgotten");
    }
}
