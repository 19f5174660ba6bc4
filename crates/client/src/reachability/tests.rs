use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;

use super::*;
use crate::list_watch::{Step, WatchStart};
use crate::testing::{Part, Reply, Server, lines, order, widget, widgets};
use crate::{Api, ErrorClass, HighWater};
use kube_gc_core::object::{GroupResource, Identity, ResourceType};

const LIST: &str = r#"{"kind":"List","metadata":{"resourceVersion":"5"},"items":[]}"#;
const BOOKMARK: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}"#;

/// A server that can be away.
fn server(away: &Arc<AtomicBool>, how: Reply) -> Server {
    let away = Arc::clone(away);
    Server::answering(move |seen| {
        if away.load(Ordering::SeqCst) {
            return how.clone();
        }
        match seen.method.as_str() {
            "GET" if seen.query("watch").is_some() => Reply::stream([lines([BOOKMARK]), Part::Hang]),
            "GET" if seen.path == "/version" => Reply::ok("{}"),
            "GET" => Reply::ok(LIST),
            _ => Reply::ok(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#),
        }
    })
}

fn unavailable() -> Reply {
    Reply::code(503, "nobody is there")
}

async fn delete(api: &Api, name: &str) -> Result<(), ApiError> {
    let object = Identity { name: name.into(), ..widget() };
    api.delete(&order(&object), None).await.map(drop)
}

fn types(count: usize) -> Vec<Arc<ResourceType>> {
    let name = |n| GroupResource::parse(&format!("widgets-{n}.example.com"));
    (0..count).map(|n| Arc::new(ResourceType { group_resource: name(n), ..(*widgets()).clone() })).collect()
}

fn is_deferred(error: &ApiError) -> bool {
    matches!(error.class, ErrorClass::Deferred { .. })
}

/// The requests in each second.
fn each_second(server: &Server, from: Duration) -> Vec<usize> {
    let mut counts = Vec::new();
    for seen in server.seen().iter().filter(|seen| seen.at >= from) {
        let second = (seen.at - from).as_secs() as usize;
        counts.resize(counts.len().max(second + 1), 0);
        counts[second] += 1;
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn three_failures_hold_later_requests_and_one_at_a_time_probes() {
    let away = Arc::new(AtomicBool::new(true));
    let server = server(&away, unavailable());
    let api = server.api();
    for n in 0..3 {
        assert!(!is_deferred(&delete(&api, &n.to_string()).await.unwrap_err()));
    }
    assert!(api.is_unreachable() && api.outage().is_none(), "it is a suspicion");
    let (start, failed) = (Instant::now(), server.seen()[2].at);
    while start.elapsed() < Duration::from_secs(60) {
        let all = join_all((0..100).map(|n| {
            let api = api.clone();
            async move { delete(&api, &n.to_string()).await }
        }));
        assert!(all.await.iter().all(|result| is_deferred(result.as_ref().unwrap_err())));
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    assert!(api.outage().is_some_and(|error| error.contains("/version: 503")));
    let probes = server.seen().split_off(3);
    assert!(probes.iter().all(|probe| probe.path == "/version"), "{probes:?}");
    let after: Vec<_> = probes.iter().map(|probe| ((probe.at - failed).as_millis() + 5) / 10 * 10).collect();
    assert_eq!(after[..7], [0, 100, 300, 700, 1500, 2500, 3500], "up to one a second");
    assert!((55..=65).contains(&probes.len()), "{}", probes.len());
    away.store(false, Ordering::SeqCst);
    let mut recoveries = api.recoveries();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(delete(&api, "w").await, Ok(()));
    assert!(recoveries.has_changed().unwrap() && api.outage().is_none());
    recoveries.mark_unchanged();
}

#[tokio::test(start_paused = true)]
async fn failures_of_a_reachable_server_hold_requests_only_for_one_probe() {
    let server = Server::answering(|seen| match seen.path.as_str() {
        "/version" => Reply::ok("{}"),
        _ => unavailable(),
    });
    let api = server.api();
    let recoveries = api.recoveries();
    for n in 0..30 {
        assert!(!is_deferred(&delete(&api, &n.to_string()).await.unwrap_err()), "{n}");
    }
    let probes = server.requests().iter().filter(|request| *request == "GET /version").count();
    assert_eq!(probes, 9, "for each three failures");
    assert!(!recoveries.has_changed().unwrap(), "there was no outage");
}

/// Answers that show that the server is reachable, even rejections, are between the failures.
#[tokio::test(start_paused = true)]
async fn failures_with_successes_in_between_are_no_outage() {
    let server = Server::answering(|seen| match seen.path.as_str() {
        path if path.ends_with("/fine") => Reply::status(403, "no", "{}"),
        path if path.ends_with("/webhook") => Reply::status(500, "failed calling webhook", "{}"),
        _ => unavailable(),
    });
    let api = server.api();
    for n in 0..30 {
        let name = match n % 4 {
            0 => "fine",
            2 => "webhook",
            _ => "gone",
        };
        assert!(delete(&api, name).await.is_err());
        assert!(!api.is_unreachable());
    }
}

/// Whatever way it is away in: no more than a few probes in each second, one wake-up, and
/// every type is followed again within seconds. 60 types, and 100 workers that go on asking.
#[tokio::test(start_paused = true)]
async fn an_outage_costs_few_probes_and_ends_for_all_requests_at_once() {
    for how in [unavailable(), Reply::stream([Part::Break]).with_code(502), Reply::never()] {
        outage(how).await;
    }
}

async fn outage(how: Reply) {
    let away = Arc::new(AtomicBool::new(false));
    let server = server(&away, how);
    let api = server.api();
    let high_water = HighWater::default();
    let synced = Arc::new(Mutex::new(0));
    let follow = || -> Vec<_> {
        let follow = |resource| {
            let start = WatchStart { high_water: high_water.clone(), aggregated: false };
            let (mut watch, synced) = (api.watch(resource, start), Arc::clone(&synced));
            tokio::spawn(async move {
                while let Some(step) = watch.next().await {
                    if matches!(step, Step::Bookmark { .. }) {
                        *synced.lock().unwrap() += 1;
                    }
                }
            })
        };
        types(60).into_iter().map(follow).collect()
    };
    let following = follow();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(*synced.lock().unwrap(), 60);

    away.store(true, Ordering::SeqCst);
    let mut recoveries = api.recoveries();
    let began = server_time(&server, &api).await;
    // All watches break, and new ones cannot be had.
    following.into_iter().for_each(|task| task.abort());
    let following = follow();
    let workers: Vec<_> = (0..100)
        .map(|n| {
            let api = api.clone();
            tokio::spawn(async move {
                loop {
                    let result = delete(&api, &n.to_string()).await;
                    let wait = match result.map_err(|error| error.class) {
                        Ok(()) => Duration::from_millis(100),
                        Err(ErrorClass::Deferred { retry_after, .. }) => retry_after,
                        Err(_) => Duration::from_millis(50),
                    };
                    tokio::time::sleep(wait).await;
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(120)).await;
    let counts = each_second(&server, began);
    // The outage is not known before the first requests have failed.
    let settled = counts.iter().rposition(|count| *count > 5).map_or(0, |last| last + 1);
    assert!(settled <= 32, "{counts:?}");
    assert!(counts.len() - settled > 50, "{counts:?}");
    *synced.lock().unwrap() = 0;
    let back = Instant::now();
    away.store(false, Ordering::SeqCst);
    recoveries.changed().await.unwrap();
    assert!(back.elapsed() <= Duration::from_millis(1100), "{:?}", back.elapsed());
    tokio::time::sleep_until(back + Duration::from_secs(5)).await;
    assert_eq!(*synced.lock().unwrap(), 60, "every type is followed again");
    assert!(!recoveries.has_changed().unwrap(), "there was one outage");
    workers.iter().chain(&following).for_each(tokio::task::JoinHandle::abort);
}

/// Now, on the clock of the server.
async fn server_time(server: &Server, api: &Api) -> Duration {
    let _ = tokio::time::timeout(Duration::ZERO, delete(api, "mark")).await;
    server.seen().last().unwrap().at
}
