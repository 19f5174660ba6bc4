mod idle;
mod pages;
mod readiness;
mod streams;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::absent::Absent;
use super::*;
use crate::telemetry::Exporter;
use kube_gc_core::object::{GroupResource, ResourceVersion};

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

/// Returns fixed answers.
struct Fake {
    readiness: Readiness,
    ready_keys: usize,
    asked: Mutex<Vec<IdleQuery>>,
}

impl Fake {
    fn new() -> Self {
        Self { readiness: Readiness::default(), ready_keys: 0, asked: Mutex::default() }
    }
}

impl Introspection for Fake {
    fn monitors(&self) -> BoxFuture<'_, Vec<MonitorStatus>> {
        async { vec![widgets()] }.boxed()
    }

    fn undiscovered(&self) -> Vec<Undiscovered> {
        vec![things()]
    }

    fn graph(&self, format: GraphFormat) -> TextStream {
        stream::iter([Ok(format!("{format:?} ")), Ok("0".to_owned())]).boxed()
    }

    fn component(&self, uids: Vec<Uid>, format: GraphFormat) -> BoxFuture<'_, Result<Option<String>, Ended>> {
        async move {
            let known = uids.contains(&Uid::parse(UID).unwrap());
            Ok(known.then(|| format!("{format:?} {}", uids.len())))
        }
        .boxed()
    }

    fn search(&self, query: FindQuery) -> BoxFuture<'_, Result<FoundPage, Ended>> {
        async move { Ok(FoundPage { found: Vec::new(), more: query.limit == 1 }) }.boxed()
    }

    fn neighbourhood(&self, query: ObjectQuery) -> BoxFuture<'_, Result<Option<NeighbourhoodPage>, Ended>> {
        let is_known = query.uid == Uid::parse(UID).unwrap();
        async move { Ok(is_known.then(NeighbourhoodPage::default)) }.boxed()
    }

    fn follow(&self, _: ObjectQuery) -> Box<dyn Follow> {
        Box::new(Absent)
    }

    fn explain(&self, _: ObjectQuery) -> BoxFuture<'_, Result<Option<ExplanationPage>, Ended>> {
        async { Err(Ended) }.boxed()
    }

    fn summary(&self) -> BoxFuture<'_, Result<SummaryPage, Ended>> {
        async { Ok(SummaryPage { role: "alone", ..SummaryPage::default() }) }.boxed()
    }

    fn decisions(&self, query: &DecisionQuery) -> DecisionsPage {
        pages::decisions(query)
    }

    fn stuck(&self, query: StuckQuery) -> BoxFuture<'_, Result<StuckPage, Ended>> {
        async move { pages::stuck(&query) }.boxed()
    }

    fn idle(&self, query: IdleQuery) -> BoxFuture<'_, IdleReport> {
        async move {
            self.asked.lock().unwrap().push(query.clone());
            let counts = QueueCounts { ready: self.ready_keys, parked: 1, ..QueueCounts::default() };
            let queues = BTreeMap::from([("garbage_collector_attempt_to_delete".to_owned(), counts)]);
            IdleReport::judge(&query, queues, 0, &query.seen, Vec::new())
        }
        .boxed()
    }

    fn queues(&self) -> BoxFuture<'_, Vec<QueueStatus>> {
        async {
            vec![QueueStatus {
                name: "q".to_owned(),
                counts: QueueCounts { parked: 1, ..QueueCounts::default() },
                adds_total: 3,
                retries_total: 2,
                oldest_ready_seconds: None,
                longest_running_seconds: Some(0.5),
                failing: vec![FailingItem {
                    object: ObjectView {
                        resource: "pods".to_owned(),
                        namespace: Some("a".to_owned()),
                        name: Some("b".to_owned()),
                        uid: "u".to_owned(),
                    },
                    attempts: 2,
                    since: noon(),
                    last_error: "denied".to_owned(),
                    next_retry_seconds: Some(1.5),
                }],
            }]
        }
        .boxed()
    }

    fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }
}

/// Status, content type, body.
type Answer = (StatusCode, String, String);

async fn get(router: Router, path: &str) -> Answer {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    let status = response.status();
    let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, content_type, String::from_utf8(body.to_vec()).unwrap())
}

async fn get_debug(path: &str) -> Answer {
    get(debug_router(Arc::new(Fake::new())), path).await
}

fn health(readiness: Readiness) -> Router {
    let (_, exporter) = Exporter::local().unwrap();
    health_router(Arc::new(Fake { readiness, ..Fake::new() }), exporter)
}

fn json_of((status, content_type, body): Answer) -> (StatusCode, Value) {
    assert_eq!(content_type, "application/json");
    (status, serde_json::from_str(&body).unwrap())
}

#[tokio::test]
async fn monitors_have_exactly_the_documented_fields() {
    let answer = json_of(get_debug("/debug/monitors").await);
    let expected = json!([{
        "group": "example.com", "version": "v1", "resource": "widgets", "synced": false,
        "since": "2026-11-20T12:00:00Z", "last_error": "conversion webhook failed:\nconnection refused",
    }]);
    assert_eq!(answer, (StatusCode::OK, expected));
}

#[tokio::test]
async fn undiscovered_groups_have_exactly_the_documented_fields() {
    let answer = json_of(get_debug("/debug/discovery").await);
    let expected = json!([{
        "group": "things.example.com", "version": "v1",
        "since": "2026-11-20T12:00:00Z", "last_error": "service\nunavailable",
    }]);
    assert_eq!(answer, (StatusCode::OK, expected));
}

#[tokio::test]
async fn the_graph_comes_as_dot_or_as_json() {
    let (status, content_type, body) = get_debug("/debug/graph").await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "Dot 0"));
    assert_eq!(content_type, "text/vnd.graphviz; charset=utf-8");
    let (_, content_type, body) = get_debug(&format!("/debug/graph?format=json&uid={UID}&uid=x")).await;
    assert_eq!((content_type.as_str(), body.as_str()), ("application/json", "Json 2"));
}

#[tokio::test]
async fn a_graph_of_unknown_uids_is_not_found() {
    let (status, _, body) = get_debug("/debug/graph?uid=x").await;
    assert_eq!((status, body.as_str()), (StatusCode::NOT_FOUND, "none of these uids is in the graph\n"));
    assert_eq!(get_debug(&format!("/debug/graph?uid=x&uid={UID}")).await.0, StatusCode::OK);
}

#[tokio::test]
async fn unknown_parameters_are_rejected() {
    for path in [
        "/debug/graph?uid=",
        "/debug/graph?format=svg",
        "/debug/graph?uids=x",
        "/debug/idle?seen=pods",
        "/debug/idle?seen=pods=",
        "/debug/idle?seen==3",
        "/debug/idle?seen=pods=newest",
        "/debug/idle?seen=pods=0",
        "/debug/idle?seen=pods=3&seen=pods=-3",
        "/debug/idle?parked=no",
        "/debug/idle?sen=pods=3",
    ] {
        assert_eq!(get_debug(path).await.0, StatusCode::BAD_REQUEST, "{path}");
    }
}

#[tokio::test]
async fn queues_show_failing_objects() {
    let answer = json_of(get_debug("/debug/queues").await);
    let expected = json!([{
        "name": "q", "ready": 0, "processing": 0, "delayed": 0, "parked": 1,
        "adds_total": 3, "retries_total": 2, "oldest_ready_seconds": null, "longest_running_seconds": 0.5,
        "failing": [{
            "object": {"resource": "pods", "namespace": "a", "name": "b", "uid": "u"}, "attempts": 2, "since": "2026-11-20T12:00:00Z", "last_error": "denied",
            "next_retry_seconds": 1.5,
        }],
    }]);
    assert_eq!(answer, (StatusCode::OK, expected));
}

#[tokio::test]
async fn the_index_names_every_page() {
    let (status, _, index) = get_debug("/").await;
    assert_eq!(status, StatusCode::OK);
    let pages = ["monitors", "discovery", "graph", "queues", "idle", "stuck", "decisions"];
    for path in pages.map(|page| format!("/debug/{page}")) {
        let path = path.as_str();
        assert!(index.contains(path));
        assert_ne!(get_debug(path).await.0, StatusCode::NOT_FOUND);
    }
    assert_eq!(get_debug("/debug/nothing").await.0, StatusCode::NOT_FOUND);
    // The limits of streams, and access to a page, go by the path as it was sent.
    for path in ["/debug/strea%6d", "/debug/stuck%2Fcauses", "/debug/./summary", "/debug//summary", "/debug/"]
    {
        assert_eq!(get_debug(path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    let (_, _, index) = get(health(Readiness::default()), "/").await;
    for path in ["/livez", "/readyz", "/healthz", "/metrics"] {
        assert!(index.contains(path));
    }
}

#[tokio::test]
async fn liveness_does_not_depend_on_readiness() {
    for path in ["/livez", "/healthz", "/livez?verbose"] {
        assert_eq!(get(health(Readiness::default()), path).await.0, StatusCode::OK);
    }
    assert_eq!(get(health(Readiness::default()), "/livez").await.2, "ok");
    let (_, _, verbose) = get(health(Readiness::default()), "/livez?verbose").await;
    assert_eq!(verbose, "[+]ping ok\nlivez check passed\n");
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
    let error = bind(Listener::Debug, first.address()).await.unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "cannot listen on {} for the debug pages: another process uses this address; choose another one with \
             --debug-listen ADDRESS:PORT (port 0: any free one)",
            first.address()
        )
    );
}
