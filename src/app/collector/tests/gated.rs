//! The collector is not idle while requests or events of its own work are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::body::Body as Stream;
use futures::StreamExt as _;
use http::{Method, Request, Response};
use kube::client::Body;
use kube_gc_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::task::yield_now;

use super::Collector;
use crate::introspect::{IdleQuery, IdleReport};
use kube_gc_config::Settings;

/// Stands between a collector and the API server: requests that match wait until they are let through, and
/// events until the gate is open.
#[derive(Clone)]
struct Gates {
    held: fn(&Method, &str) -> bool,
    /// Matching requests that have arrived, and those that may go on.
    arrived: Arc<Semaphore>,
    passes: Arc<Semaphore>,
    is_armed: Arc<AtomicBool>,
    events: watch::Sender<bool>,
}

impl Gates {
    fn new(held: fn(&Method, &str) -> bool) -> Self {
        let semaphore = || Arc::new(Semaphore::new(0));
        let is_armed = Arc::new(AtomicBool::new(true));
        Self { held, arrived: semaphore(), passes: semaphore(), is_armed, events: watch::Sender::new(true) }
    }

    fn before(&self, server: &ApiServer) -> kube::Client {
        let (gates, client) = (self.clone(), server.client());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (gates, client) = (gates.clone(), client.clone());
            async move {
                let is_held = (gates.held)(request.method(), request.uri().path());
                if is_held && gates.is_armed.load(Ordering::SeqCst) {
                    gates.arrived.add_permits(1);
                    gates.passes.acquire().await.unwrap().forget();
                }
                let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
                let answer: Response<Body> = client.send(request).await?;
                let (parts, body) = answer.into_parts();
                if !is_watch {
                    return Ok::<_, kube::Error>(Response::from_parts(parts, Stream::new(body)));
                }
                let chunks = Stream::new(body).into_data_stream().then(move |chunk| {
                    let mut events = gates.events.subscribe();
                    async move {
                        // An error means that the test has ended.
                        let _ = events.wait_for(|is_open| *is_open).await;
                        chunk
                    }
                });
                Ok(Response::from_parts(parts, Stream::from_stream(chunks)))
            }
        });
        kube::Client::new(service, "default")
    }

    /// Waits until a matching request has arrived.
    async fn arrived(&self) {
        self.arrived.acquire().await.unwrap().forget();
    }

    /// Lets one matching request through, with no event of it until the gate opens again.
    fn pass_without_event(&self) {
        self.events.send_replace(false);
        self.passes.add_permits(1);
    }
}

/// Sends a request, and returns what is answered.
async fn send(server: &ApiServer, method: &str, path: &str, body: Value) -> Value {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    server.client().request(request.body(body).unwrap()).await.unwrap()
}

/// Creates an object, perhaps with an owner.
async fn create(
    server: &ApiServer,
    path: &str,
    name: &str,
    owner: Option<&Value>,
    finalizer: Option<&str>,
) -> Value {
    let owners = owner.map(|owner| {
        json!({
            "apiVersion": owner["apiVersion"], "kind": owner["kind"],
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        })
    });
    let metadata = json!({
        "name": name, "ownerReferences": Vec::from_iter(owners), "finalizers": Vec::from_iter(finalizer),
    });
    send(server, "POST", path, json!({ "metadata": metadata })).await
}

fn of_namespace(name: &str) -> IdleQuery {
    IdleQuery { namespace: kube_gc_core::object::Namespace::parse(name), ..IdleQuery::default() }
}

fn below(owner: &Value) -> IdleQuery {
    let uid = owner["metadata"]["uid"].as_str().unwrap();
    IdleQuery { owner: kube_gc_core::object::Uid::parse(uid), ..IdleQuery::default() }
}

async fn ask(collector: &Collector, query: &IdleQuery) -> IdleReport {
    collector.introspection.idle(IdleQuery { parked_ok: true, ..query.clone() }).await
}

async fn assert_busy(collector: &Collector, queries: &[IdleQuery]) {
    for query in queries {
        let report = ask(collector, query).await;
        assert!(!report.idle, "{query:?}");
    }
}

/// Nothing but an event is missing after a while. Until then, each answer is that there is work.
async fn assert_only_an_event_is_missing(collector: &Collector, queries: &[IdleQuery]) {
    for query in queries {
        loop {
            let report = ask(collector, query).await;
            assert!(!report.idle, "{query:?}");
            if report.unseen_writes > 0 && report.reasons.len() == 1 {
                break;
            }
            yield_now().await;
        }
    }
}

async fn started(gates: &Gates, server: &ApiServer, settings: Settings) -> Collector {
    let collector =
        Collector::builder_with_client(gates.before(server)).settings(settings).start().await.unwrap();
    collector.wait_idle().await.unwrap();
    collector
}

fn bare() -> ApiServer {
    let settings = kube_gc_apiserver::Settings::default();
    ApiServer::new(kube_gc_apiserver::Settings { namespace_controller: false, ..settings })
}

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Rule 9.8: nobody can tell whom the work on claims and volumes concerns.
#[tokio::test]
async fn who_waits_for_what_a_claim_owns_waits_for_the_end_of_its_protection() {
    let gates = Gates::new(|method, path| *method == Method::PATCH && path.ends_with("/claim"));
    let server = bare();
    let mut settings = Settings::default();
    settings.remove_protection_finalizers = true;
    let collector = started(&gates, &server, settings).await;
    let head = create(&server, CONFIG_MAPS, "head", None, None).await;
    let claim = create(&server, CLAIMS, "claim", Some(&head), Some("kubernetes.io/pvc-protection")).await;
    create(&server, CONFIG_MAPS, "tail", Some(&claim), None).await;
    send(&server, "DELETE", &format!("{CONFIG_MAPS}/head"), Value::Null).await;
    gates.arrived().await;
    let queries = [IdleQuery::default(), of_namespace("default"), below(&head), below(&claim)];
    assert_busy(&collector, &queries).await;
    assert_busy(&collector, &[of_namespace("other")]).await;
    gates.pass_without_event();
    assert_only_an_event_is_missing(&collector, &queries).await;
    gates.events.send_replace(true);
    collector.wait_idle_in("default").await.unwrap();
    let left = send(&server, "GET", CONFIG_MAPS, Value::Null).await;
    assert_eq!(left["items"], json!([]));
    collector.stop().await.unwrap();
}

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const NAMESPACES: &str = "/api/v1/namespaces";

/// Rule 9.8: a cascade leads through a namespace that is finished, and an object without a namespace, into
/// another namespace.
#[tokio::test]
async fn who_waits_for_what_a_namespace_owns_waits_for_its_end() {
    let gates = Gates::new(|method, path| {
        (*method == Method::PUT && path.ends_with("/shop/finalize"))
            || (*method == Method::DELETE && path.ends_with("/middle"))
    });
    let server = bare();
    let mut settings = Settings::default();
    settings.finish_namespaces = true;
    settings.namespaces.quiet = std::time::Duration::ZERO;
    let collector = started(&gates, &server, settings).await;
    let head = create(&server, ROLES, "head", None, None).await;
    let shop = create(&server, NAMESPACES, "shop", Some(&head), None).await;
    create(&server, "/api/v1/namespaces/shop/configmaps", "inside", None, None).await;
    let other = create(&server, CONFIG_MAPS, "other", None, None).await;
    let middle = create(&server, ROLES, "middle", Some(&shop), None).await;
    create(&server, CONFIG_MAPS, "tail", Some(&middle), None).await;
    send(&server, "DELETE", &format!("{ROLES}/head"), Value::Null).await;
    gates.arrived().await;
    let queries = [IdleQuery::default(), of_namespace("default"), below(&head), below(&shop)];
    assert_busy(&collector, &queries).await;
    assert_busy(&collector, &[of_namespace("shop")]).await;
    collector.wait_idle_below(other["metadata"]["uid"].as_str().unwrap()).await.unwrap();
    gates.pass_without_event();
    assert_only_an_event_is_missing(&collector, &queries).await;
    gates.events.send_replace(true);
    gates.arrived().await;
    assert_busy(&collector, &queries).await;
    gates.pass_without_event();
    assert_only_an_event_is_missing(&collector, &queries).await;
    gates.events.send_replace(true);
    collector.wait_idle_in("default").await.unwrap();
    let left = send(&server, "GET", CONFIG_MAPS, Value::Null).await;
    assert_eq!(left["items"].as_array().unwrap().len(), 1, "{left}");
    collector.stop().await.unwrap();
}

/// Others may create types all the time.
#[tokio::test]
async fn a_namespace_does_not_wait_for_discovery() {
    let gates = Gates::new(|method, path| *method == Method::GET && path == "/apis");
    gates.is_armed.store(false, Ordering::SeqCst);
    let server = bare();
    let collector = started(&gates, &server, Settings::default()).await;
    gates.is_armed.store(true, Ordering::SeqCst);
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    send(&server, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    gates.arrived().await;
    collector.wait_idle_in("default").await.unwrap();
    // Discovery begins before the graph has the definition.
    loop {
        let reasons = ask(&collector, &IdleQuery::default()).await.reasons;
        assert!(reasons.contains(&"discovery is in progress".to_owned()), "{reasons:?}");
        if reasons.len() == 1 {
            break;
        }
        yield_now().await;
    }
    gates.passes.add_permits(1000);
    collector.wait_idle().await.unwrap();
    collector.stop().await.unwrap();
}

/// Rights that are revoked while it runs are told as those that it has never had.
#[tokio::test]
async fn rights_are_looked_at_again_when_the_server_refuses_a_write() {
    static ALLOWED: AtomicBool = AtomicBool::new(true);
    static REVIEWS: AtomicUsize = AtomicUsize::new(0);
    let server = bare();
    let client = server.client();
    let answering = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let is_allowed = ALLOWED.load(Ordering::SeqCst);
            let answer = |code: u16, body: Value| {
                let answer = Response::builder().status(code).header("content-type", "application/json");
                Ok::<_, kube::Error>(answer.body(Body::from(body.to_string().into_bytes())).unwrap())
            };
            if request.uri().path().ends_with("/selfsubjectaccessreviews") {
                REVIEWS.fetch_add(1, Ordering::SeqCst);
                return answer(201, json!({"status": {"allowed": is_allowed}}));
            }
            if request.method() == Method::DELETE
                && request.uri().path().ends_with("/configmaps")
                && !is_allowed
            {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
                    "message": "configmaps is forbidden",
                });
                return answer(403, status);
            }
            client.send(request).await
        }
    });
    let mut settings = Settings::default();
    settings.finish_namespaces = true;
    let client = kube::Client::new(answering, "default");
    let collector = Collector::builder_with_client(client).settings(settings).start().await.unwrap();
    while REVIEWS.load(Ordering::SeqCst) < 2 {
        yield_now().await;
    }
    ALLOWED.store(false, Ordering::SeqCst);
    create(&server, NAMESPACES, "shop", None, None).await;
    create(&server, "/api/v1/namespaces/shop/configmaps", "inside", None, None).await;
    send(&server, "DELETE", "/api/v1/namespaces/shop", Value::Null).await;
    while !collector.introspection.readiness().verbose("readyz").contains("lack rights to finish") {
        yield_now().await;
    }
    collector.stop().await.unwrap();
}
