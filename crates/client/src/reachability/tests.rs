use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;

use super::*;
use crate::list_watch::{Step, WatchStart};
use crate::scripted::{Part, Reply, Server, lines, widget, widgets};
use crate::{Api, ErrorClass, HighWater};
use kube_gc_core::object::{GroupResource, Identity, PropagationPolicy, ResourceType};
use kube_gc_observe::telemetry::Exporter;

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
    api.delete(&object, PropagationPolicy::Background, None).await.map(drop)
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
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        let all = join_all((0..100).map(|n| {
            let api = api.clone();
            async move { delete(&api, &n.to_string()).await }
        }));
        assert!(all.await.iter().all(|result| is_deferred(result.as_ref().unwrap_err())));
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    assert!(api.outage().is_some_and(|error| error.contains("/version: 503")));
    let probes: Vec<_> = server.requests().split_off(3);
    assert!(probes.iter().all(|request| request == "GET /version"), "{probes:?}");
    assert!((55..=65).contains(&probes.len()), "{}", probes.len());
    away.store(false, Ordering::SeqCst);
    let mut recoveries = api.recoveries();
    tokio::time::advance(LONGEST).await;
    assert_eq!(delete(&api, "w").await, Ok(()));
    assert!(recoveries.has_changed().unwrap() && api.outage().is_none());
    recoveries.mark_unchanged();
}

const LONGEST: Duration = Duration::from_secs(1);

/// However many callers wait.
#[tokio::test(start_paused = true)]
async fn probes_become_rarer_until_there_is_one_a_second() {
    let server = server(&Arc::new(AtomicBool::new(true)), unavailable());
    let api = server.api();
    for n in 0..3 {
        assert!(delete(&api, &n.to_string()).await.is_err());
    }
    let start = server.seen().last().unwrap().at;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(6) {
        for n in 0..10 {
            let _ = delete(&api, &n.to_string()).await;
        }
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    let probes = server.seen().split_off(3);
    assert!(probes.iter().all(|probe| probe.path == "/version"));
    let after: Vec<_> = probes.iter().map(|probe| ((probe.at - start).as_millis() + 5) / 10 * 10).collect();
    assert_eq!(after, [0, 100, 300, 700, 1500, 2500, 3500, 4500, 5500]);
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
async fn outage(how: Reply, lasts: Duration) {
    let away = Arc::new(AtomicBool::new(false));
    let server = server(&away, how.clone());
    let api = server.api();
    let high_water = HighWater::default();
    let synced = Arc::new(Mutex::new(Vec::new()));
    let follow = types(60).into_iter().map(|resource| {
        let start = WatchStart { high_water: high_water.clone(), aggregated: false };
        let (mut watch, synced) = (api.watch(resource, start), Arc::clone(&synced));
        tokio::spawn(async move {
            while let Some(step) = watch.next().await {
                if matches!(step, Step::Bookmark { .. } | Step::Resumed) {
                    synced.lock().unwrap().push((Instant::now(), watch.resource().clone()));
                }
            }
        })
    });
    let follow: Vec<_> = follow.collect();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(synced.lock().unwrap().len(), 60);

    away.store(true, Ordering::SeqCst);
    let mut recoveries = api.recoveries();
    let began = server_time(&server, &api).await;
    // All watches break, and new ones cannot be had.
    follow.into_iter().for_each(|task| task.abort());
    let follow: Vec<_> = types(60)
        .into_iter()
        .map(|resource| {
            let start = WatchStart { high_water: high_water.clone(), aggregated: false };
            let (mut watch, synced) = (api.watch(resource, start), Arc::clone(&synced));
            tokio::spawn(async move {
                while let Some(step) = watch.next().await {
                    if matches!(step, Step::Bookmark { .. }) {
                        synced.lock().unwrap().push((Instant::now(), watch.resource().clone()));
                    }
                }
            })
        })
        .collect();
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
    tokio::time::sleep(lasts).await;
    let counts = each_second(&server, began);
    // The outage is not known before the first requests have failed.
    let settled = counts.iter().rposition(|count| *count > 5).map_or(0, |last| last + 1);
    assert!(settled <= 32, "{counts:?}");
    assert!(counts.len() - settled > 50, "{counts:?}");
    synced.lock().unwrap().clear();
    let back = Instant::now();
    away.store(false, Ordering::SeqCst);
    recoveries.changed().await.unwrap();
    assert!(back.elapsed() <= Duration::from_millis(1100), "{:?}", back.elapsed());
    tokio::time::sleep_until(back + Duration::from_secs(5)).await;
    assert_eq!(synced.lock().unwrap().len(), 60, "every type is followed again");
    assert!(!recoveries.has_changed().unwrap(), "there was one outage");
    workers.iter().chain(&follow).for_each(tokio::task::JoinHandle::abort);
}

/// Now, on the clock of the server.
async fn server_time(server: &Server, api: &Api) -> Duration {
    let _ = tokio::time::timeout(Duration::ZERO, delete(api, "mark")).await;
    server.seen().last().unwrap().at
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_503s_costs_few_probes_and_ends_for_all_requests_at_once() {
    outage(unavailable(), Duration::from_secs(120)).await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_broken_connections_costs_few_probes_and_ends_for_all_at_once() {
    outage(Reply::stream([Part::Break]).with_code(502), Duration::from_secs(120)).await;
}

#[tokio::test(start_paused = true)]
async fn a_hanging_server_costs_few_probes_and_returns_for_all_requests_at_once() {
    outage(Reply::never(), Duration::from_secs(120)).await;
}

/// A role that is loaded a moment after the server: no backoff from the outage, and none of
/// many seconds from the refusals.
#[tokio::test(start_paused = true)]
async fn denied_requests_are_retried_soon_after_an_outage() {
    let (away, refuses) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
    let (is_away, is_refusing) = (Arc::clone(&away), Arc::clone(&refuses));
    let server = Server::answering(move |seen| {
        if is_away.load(Ordering::SeqCst) {
            unavailable()
        } else if seen.path == "/version" {
            Reply::ok("{}")
        } else if is_refusing.load(Ordering::SeqCst) {
            Reply::status(403, "no role", "{}")
        } else if seen.query("watch").is_some() {
            Reply::stream([lines([BOOKMARK]), Part::Hang])
        } else {
            Reply::ok(LIST)
        }
    });
    let start = WatchStart { high_water: HighWater::default(), aggregated: false };
    let mut watch = server.api().watch(widgets(), start);
    let (ready, mut is_ready) = tokio::sync::mpsc::unbounded_channel();
    let following = tokio::spawn(async move {
        while let Some(step) = watch.next().await {
            if matches!(step, Step::Bookmark { .. }) {
                let _ = ready.send(Instant::now());
            }
        }
    });
    tokio::time::sleep(Duration::from_secs(60)).await;
    away.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(15)).await;
    refuses.store(false, Ordering::SeqCst);
    let allowed = Instant::now();
    let ready = is_ready.recv().await.unwrap();
    assert!(ready - allowed <= Duration::from_millis(1600), "{:?}", ready - allowed);
    following.abort();
}

#[test]
fn a_window_has_few_lines_and_one_that_says_so() {
    let (mut unanswered, mut now) = (Unanswered::default(), Instant::now());
    for _ in 0..2 {
        let all: Vec<_> = (0..1000).map(|_| unanswered.one_more(now)).collect();
        assert_eq!(all, (1..=1000).collect::<Vec<_>>());
        now += LINES_EVERY;
    }
}

#[tokio::test]
async fn refused_credentials_are_known_until_they_are_accepted() {
    let (recorder, exporter) = Exporter::local().unwrap();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let refused = || Reply::status(401, "Unauthorized", "{}");
    let server = Server::replying([refused(), refused(), Reply::status(403, "Forbidden", "{}")]);
    let api = server.api();
    let recoveries = api.recoveries();
    for value in [1, 1, 0] {
        api.look_up(&widget()).await.unwrap_err();
        assert_eq!(api.refused_credentials().is_some(), value == 1);
        assert_eq!(recoveries.has_changed().unwrap(), value == 0, "what failed is tried again");
        let line = format!("kube_gc_credentials_refused {value}");
        let page = exporter.render();
        assert!(page.lines().any(|found| found == line), "no line {line:?} in:\n{page}");
    }
}
