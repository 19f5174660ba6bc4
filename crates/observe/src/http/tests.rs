mod readiness;
mod streams;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use futures::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::*;
use crate::telemetry::{Exporter, StuckReason};
use kube_gc_core::object::{GroupResource, Identity, Namespace, ResourceType, Scope, Uid};

const UID: &str = "0b1e5c1e-9b1a-4b58-8b7e-0f4b7a7e9d10";

/// 2026-11-20T12:00:00Z.
fn noon() -> Timestamp {
    Timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_176_000))
}

fn widgets() -> MonitorStatus {
    MonitorStatus {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        resource: "widgets".to_owned(),
        synced: false,
        since: noon(),
        last_error: Some("conversion webhook failed:\nconnection refused".to_owned()),
        failing_since: Some(noon()),
    }
}

fn things() -> Undiscovered {
    Undiscovered {
        group: "things.example.com".to_owned(),
        version: Some("v1".to_owned()),
        since: noon(),
        last_error: "service\nunavailable".to_owned(),
    }
}

/// Status, content type, body.
type Answer = (StatusCode, String, String);

async fn get(router: Router, path: &str) -> Answer {
    let request = Request::get(path).body(Body::empty()).unwrap();
    read(router.oneshot(request).await.unwrap()).await
}

async fn read(response: Response) -> Answer {
    let status = response.status();
    let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, content_type, String::from_utf8(body.to_vec()).unwrap())
}

fn health(readiness: Readiness) -> Router {
    let (_, exporter) = Exporter::local().unwrap();
    health_router(move || readiness.clone(), exporter)
}

fn object() -> ObjectView {
    ObjectView {
        resource: "jobs.batch".to_owned(),
        namespace: Some("a".to_owned()),
        name: Some("b".to_owned()),
        uid: UID.to_owned(),
    }
}

/// The JSON fields are a public interface.
#[test]
fn pages_have_exactly_the_documented_fields() {
    let object_fields = json!({ "resource": "jobs.batch", "namespace": "a", "name": "b", "uid": UID });
    let monitors = json!({
        "group": "example.com", "version": "v1", "resource": "widgets", "synced": false,
        "since": "2026-11-20T12:00:00Z", "last_error": "conversion webhook failed:\nconnection refused",
    });
    assert_eq!(json!(widgets()), monitors);
    let undiscovered = json!({
        "group": "things.example.com", "version": "v1",
        "since": "2026-11-20T12:00:00Z", "last_error": "service\nunavailable",
    });
    assert_eq!(json!(things()), undiscovered);

    let queue = QueueStatus {
        name: "q".to_owned(),
        now: QueueSummary {
            counts: QueueCounts { parked: 1, ..QueueCounts::default() },
            oldest_ready_seconds: None,
            longest_running_seconds: Some(0.5),
        },
        adds_total: 3,
        retries_total: 2,
        failing: vec![FailingItem {
            object: object(),
            attempts: 2,
            since: noon(),
            last_error: "denied".to_owned(),
            next_retry_seconds: Some(1.5),
        }],
    };
    let fields = json!({
        "name": "q", "ready": 0, "processing": 0, "delayed": 0, "parked": 1,
        "adds_total": 3, "retries_total": 2, "oldest_ready_seconds": null, "longest_running_seconds": 0.5,
        "failing": [{
            "object": object_fields, "attempts": 2, "since": "2026-11-20T12:00:00Z", "last_error": "denied",
            "next_retry_seconds": 1.5,
        }],
    });
    assert_eq!(json!(queue), fields);

    let decision = DecisionView {
        more_owners: 0,
        at: noon(),
        object: object(),
        action: "delete",
        policy: Some("Background"),
        finalizer: None,
        outcome: "denied",
        error: Some("no".to_owned()),
        owners: vec![OwnerView {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: "owner".to_owned(),
            uid: "u".to_owned(),
            blocking: true,
            controller: false,
            class: "absent".to_owned(),
            evidence: "live".to_owned(),
            error: None,
        }],
        owner: None,
    };
    let page = DecisionsPage { total: 7, capacity: 2, decisions: vec![decision], disagreements: None };
    let fields = json!({
        "total": 7, "capacity": 2,
        "decisions": [{
            "at": "2026-11-20T12:00:00Z", "object": object_fields,
            "action": "delete", "policy": "Background", "finalizer": null, "outcome": "denied", "error": "no",
            "owners": [{
                "api_version": "v1", "kind": "Pod", "name": "owner", "uid": "u", "blocking": true,
                "controller": false, "class": "absent", "evidence": "live", "error": null,
            }],
            "owner": null,
        }],
    });
    assert_eq!(json!(page), fields);

    let stuck = StuckItem {
        object: object(),
        reason: StuckReason::Denied.name(),
        since: noon(),
        waiting_seconds: 3.5,
        attempts: Some(2),
        next_retry_seconds: None,
        message: "no".to_owned(),
        blocked_by: Vec::new(),
        hint: hint(StuckReason::Denied),
    };
    let page = StuckPage { standby: false, totals: BTreeMap::from([("denied", 1)]), stuck: vec![stuck] };
    let fields = json!({
        "standby": false, "totals": { "denied": 1 },
        "stuck": [{
            "object": object_fields, "reason": "denied", "since": "2026-11-20T12:00:00Z",
            "waiting_seconds": 3.5, "attempts": 2, "next_retry_seconds": null, "message": "no",
            "hint": hint(StuckReason::Denied),
        }],
    });
    assert_eq!(json!(page), fields);
}

#[tokio::test]
async fn a_page_cannot_control_the_terminal_that_shows_it() {
    let harmful = "\u{7f}\u{9b}31m\u{1b}[2J\u{202e}\u{2028}\r\n";
    let page = crate::http::page::json(StatusCode::OK, &json!({ "message": harmful }));
    let body = axum::body::to_bytes(page.into_body(), usize::MAX).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert_eq!(body.lines().count(), 3, "{body:?}");
    assert!(body.chars().all(|c| c == '\n' || kube_gc_core::text::escape::is_printable(c)), "{body:?}");
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["message"], harmful);
}

#[test]
fn an_object_with_a_long_name_and_uid_is_shown_shortened() {
    let long = "x".repeat(500_000);
    let uid = Uid::parse(&long).unwrap();
    let resource = Arc::new(ResourceType {
        group_resource: GroupResource::parse("configmaps"),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        scope: Scope::Namespaced,
    });
    let namespace = Namespace::parse("a");
    let identity = Identity { resource, namespace, name: long.as_str().into(), uid };
    let view = serde_json::to_string(&ObjectView::from(&identity)).unwrap();
    assert!(view.len() < 1024, "{} bytes", view.len());
}

#[tokio::test]
async fn a_truncated_graph_is_recognizable() {
    let broken = stream::iter([Ok("half".to_owned()), Err(Ended)]);
    let answer = page::page(StatusCode::OK, "text/plain", Body::from_stream(broken));
    assert_eq!(answer.status(), StatusCode::OK, "that it would break off was not known");
    assert!(answer.into_body().collect().await.is_err());
}

#[tokio::test]
async fn a_graph_is_generated_only_as_fast_as_it_is_read() {
    let made = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&made);
    let endless = stream::repeat_with(move || {
        *counter.lock().unwrap() += 1;
        Ok::<_, Ended>("piece".to_owned())
    });
    let mut body = Body::from_stream(endless);
    assert_eq!(*made.lock().unwrap(), 0, "nothing is made for nobody");
    for _ in 0..3 {
        body.frame().await.unwrap().unwrap();
    }
    assert_eq!(*made.lock().unwrap(), 3);
}

#[tokio::test]
async fn answers_about_an_object_have_a_status() {
    let kind = "Tree";
    for (answer, expected) in [
        (Ok(Some(NeighbourhoodPage::default())), StatusCode::OK),
        (Ok(None), StatusCode::NOT_FOUND),
        (Err(Ended), StatusCode::SERVICE_UNAVAILABLE),
    ] {
        assert_eq!(page::about_an_object(kind, answer).status(), expected);
    }
    tokio::time::pause();
    let answer = page::within_timeout(std::future::pending()).await;
    assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
}

#[test]
fn any_work_is_a_reason_not_to_be_idle() {
    let parked_ok = IdleQuery { parked_ok: true, ..IdleQuery::default() };
    let judge = |counts, unseen, others| {
        let queues = BTreeMap::from([("q".to_owned(), counts)]);
        IdleReport::judge(&parked_ok, queues, unseen, &[], others).idle
    };
    let none = QueueCounts::default();
    assert!(judge(none, 0, vec![]));
    let parked = QueueCounts { parked: 1, ..none };
    assert!(judge(parked, 0, vec![]));
    let queues = BTreeMap::from([("q".to_owned(), parked)]);
    let report = IdleReport::judge(&IdleQuery::default(), queues, 0, &[], Vec::new());
    assert_eq!((report.idle, report.reasons), (false, vec!["q: 1 parked".to_owned()]));
    assert!(!judge(QueueCounts { ready: 1, ..none }, 0, vec![]));
    assert!(!judge(QueueCounts { processing: 1, ..none }, 0, vec![]));
    assert!(!judge(QueueCounts { delayed: 1, ..none }, 0, vec![]));
    assert!(!judge(none, 1, vec![]));
    assert!(!judge(none, 0, vec!["syncing".to_owned()]));
}

#[tokio::test]
async fn liveness_does_not_depend_on_readiness() {
    for path in ["/livez", "/healthz", "/livez?verbose"] {
        assert_eq!(get(health(Readiness::default()), path).await.0, StatusCode::OK);
    }
    assert_eq!(get(health(Readiness::default()), "/livez").await.2, "ok");
    let (_, _, verbose) = get(health(Readiness::default()), "/livez?verbose").await;
    assert_eq!(verbose, "[+]ping ok\nlivez check passed\n");
    let (_, _, index) = get(health(Readiness::default()), "/").await;
    for path in ["/livez", "/readyz", "/healthz", "/metrics"] {
        assert!(index.contains(path));
    }
}

#[tokio::test]
async fn metrics_are_in_the_format_of_prometheus() {
    let (status, content_type, body) = get(health(Readiness::default()), "/metrics").await;
    assert_eq!((status, content_type.as_str()), (StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8"));
    assert!(body.contains("kube_gc_build_info"));
}

// Tests over real sockets, which also cover the listeners.

async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_listener_serves_until_it_is_stopped() {
    let any = "127.0.0.1:0".parse().unwrap();
    let listening = bind(Listener::Health, any).await.unwrap();
    let address = listening.address();
    assert_ne!(address.port(), 0);
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(listening.serve(health(Readiness::default()), shutdown.clone()));
    for version in ["1.0", "1.1"] {
        let request = format!("GET /livez HTTP/{version}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = exchange(address, &request).await;
        assert!(answer.starts_with(&format!("HTTP/{version} 200 OK\r\n")), "{answer}");
        assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    }
    // An idle connection does not delay shutdown.
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    idle.readable().await.unwrap();
    // The paused clock advances only when no task can run, so a shutdown without waits takes no time.
    tokio::time::pause();
    shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(2), server).await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_taken_address_is_explained() {
    let first = bind(Listener::Health, "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let error = bind(Listener::Debug, first.address()).await.err().unwrap().to_string();
    assert_eq!(
        error,
        format!(
            "cannot listen on {} for the debug pages: another process uses this address; choose another one with \
             --debug-listen ADDRESS:PORT (port 0: any free one)",
            first.address()
        )
    );
}
