//! A client that counts its requests, and how it observes the end of a cascade: in ways that cost the
//! server little and are the same for all contestants.

use std::cell::Cell;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use futures::TryStreamExt as _;
use http::{Method, Request, header};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::WatchEvent;
use kube_gc_testkit::cluster::collection;
use kube_gc_testkit::{Ns, Obj, Policy};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// The time limit of every wait.
const DEADLINE: Duration = Duration::from_secs(600);

/// A request.
pub type Call = Request<Vec<u8>>;

/// A request about an object.
pub fn call(method: Method, object: &Obj, content_type: &str, body: &Value) -> Result<Call> {
    let request = Request::builder().method(method).uri(object.path());
    Ok(request.header(header::CONTENT_TYPE, content_type).body(serde_json::to_vec(body)?)?)
}

/// The DELETE of an object.
pub fn deletion(object: &Obj, policy: Policy, preconditions: &Value) -> Result<Call> {
    let body = json!({
        "kind": "DeleteOptions", "apiVersion": "v1",
        "propagationPolicy": format!("{policy:?}"), "preconditions": preconditions,
    });
    call(Method::DELETE, object, "application/json", &body)
}

/// Connections to one API server. There are as many as are used at the same time.
pub struct Client {
    inner: kube::Client,
    sent: Cell<u64>,
}

impl Client {
    pub async fn of(kubeconfig: &Path) -> Result<Self> {
        let config = kube_gc_testkit::config_of(kubeconfig).await?;
        Ok(Self { inner: kube::Client::try_from(config)?, sent: Cell::new(0) })
    }

    /// Sends a request and reads the whole answer, which must be a success.
    pub async fn send(&self, call: Call) -> Result<String> {
        self.sent.set(self.sent.get() + 1);
        let what = format!("{} {}", call.method(), call.uri());
        self.inner.request_text(call).await.context(what)
    }

    pub async fn get(&self, path: &str) -> Result<String> {
        self.send(Request::get(path).body(Vec::new())?).await
    }

    /// Opens connections in advance, by requests that are under way at the same time.
    pub async fn warm_up(&self, connections: usize) -> Result<()> {
        futures::future::try_join_all((0..connections).map(|_| self.get("/readyz"))).await.map(drop)
    }

    /// The number of requests sent, without watches.
    pub fn sent(&self) -> u64 {
        self.sent.get()
    }

    /// The number of ConfigMaps in a namespace: one list with a limit of one, which includes the number
    /// of remaining items.
    pub async fn remaining(&self, ns: &Ns) -> Result<u64> {
        let list = self.get(&format!("/api/v1/namespaces/{}/configmaps?limit=1", ns.name())).await?;
        let list: Value = serde_json::from_str(&list)?;
        let page = list["items"].as_array().context("not a list")?.len();
        Ok(u64::try_from(page)? + list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0))
    }

    /// Waits until a namespace has no ConfigMap, and returns when that was.
    ///
    /// The next check follows after a part of the estimated rest of the time: about twenty checks for
    /// any number of objects, and the end is found within milliseconds.
    pub async fn emptied(&self, ns: &Ns, size: usize) -> Result<Instant> {
        let begun = Instant::now();
        let size = u64::try_from(size)?;
        loop {
            let left = self.remaining(ns).await?;
            let now = Instant::now();
            if left == 0 {
                return Ok(now);
            }
            ensure!(now - begun < DEADLINE, "{left} objects are left after {DEADLINE:?}");
            sleep(next_look(now - begun, size, left)).await;
        }
    }

    /// Begins to watch a ConfigMap, from its known version. The future returns when it was deleted.
    pub async fn watch(&self, object: &Obj) -> Result<impl Future<Output = Result<Instant>> + use<>> {
        let all = collection(&object.resource, object.namespace.as_deref());
        let path = format!(
            "{all}?watch=true&timeoutSeconds=3600&resourceVersion={}&fieldSelector=metadata.name%3D{}",
            object.resource_version, object.name
        );
        let events = self.inner.request_events::<ConfigMap>(Request::get(path).body(Vec::new())?).await?;
        Ok(async move {
            let mut events = std::pin::pin!(events);
            loop {
                let event = timeout(DEADLINE, events.try_next()).await.context("no event for too long")??;
                match event.context("the watch has ended")? {
                    WatchEvent::Deleted(_) => return anyhow::Ok(Instant::now()),
                    WatchEvent::Error(error) => bail!("the watch has failed: {error:?}"),
                    _ => {}
                }
            }
        })
    }

    /// The API server's count of requests for ConfigMaps, without watches.
    ///
    /// Rejected requests count, too. Older servers count them separately, with the requests that
    /// ended early.
    pub async fn counted_by_the_server(&self) -> Result<u64> {
        let series = kube_gc_testkit::collector::parse_metrics(&self.get("/metrics").await?);
        let counts = |labels: &&String| {
            let counts_all = labels.starts_with("apiserver_request_total{");
            let refused = labels.starts_with("apiserver_request_terminations_total{")
                && labels.contains("code=\"429\"");
            (counts_all || refused)
                && labels.contains("resource=\"configmaps\"")
                && !labels.contains("verb=\"WATCH\"")
        };
        let sum: f64 = series.iter().filter(|(labels, _)| counts(labels)).map(|(_, value)| value).sum();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a count")]
        Ok(sum as u64)
    }
}

/// The shortest interval.
const SHORTEST: Duration = Duration::from_millis(5);
/// The longest interval.
const LONGEST: Duration = Duration::from_millis(500);

/// The next interval. At most a quarter of the elapsed time, because the speed at the beginning
/// says little.
fn next_look(elapsed: Duration, size: u64, left: u64) -> Duration {
    let done = size.saturating_sub(left);
    if done == 0 {
        return SHORTEST * 4;
    }
    #[allow(clippy::cast_precision_loss, reason = "a float represents such counts exactly")]
    let rest = elapsed.mul_f64(left as f64 / done as f64);
    rest.mul_f64(0.7).min(elapsed / 4).clamp(SHORTEST, LONGEST)
}
