use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;

use super::*;
use crate::testing::{Reply, Server, order, widget};
use crate::{Api, ErrorClass};
use kube_gc_core::object::Identity;

/// A server that can be away.
fn server(away: &Arc<AtomicBool>) -> Server {
    let away = Arc::clone(away);
    Server::answering(move |seen| {
        if away.load(Ordering::SeqCst) {
            return unavailable();
        }
        match seen.method.as_str() {
            "GET" => Reply::ok("{}"),
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

fn is_deferred(error: &ApiError) -> bool {
    matches!(error.class, ErrorClass::Deferred { .. })
}

#[tokio::test(start_paused = true)]
async fn three_failures_hold_later_requests_and_one_at_a_time_probes() {
    let away = Arc::new(AtomicBool::new(true));
    let server = server(&away);
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
