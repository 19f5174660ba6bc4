//! The client of scenarios.
//!
//! Objects are raw JSON, so that they can have owner references of any shape, including invalid
//! ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, GroupVersionKind};
use kube::{Client, Resource};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::collector::{Collector, Rest, parse_metrics};
use crate::{DEADLINE, POLL, lock};

pub use super::object::{Obj, collection, key};

mod builder;
mod counts;
mod crd;
mod settle;

pub use builder::{Builder, Ns, create_all};
pub use counts::RequestCounts;
pub use crd::Crd;

const MERGE_PATCH: Option<&str> = Some("application/merge-patch+json");
/// The number of concurrent requests of a bulk operation.
const PARALLEL: usize = 16;
/// Marks the CRDs of scenarios, so that later scenarios can remove them.
const CRD_LABEL: &str = "kube-gc-test/crd";
/// Marks the objects that [`Cluster::settled`] writes.
const MARKER_LABEL: &str = "kube-gc-test/marker";
/// The name of those objects, and of the namespace of the namespaced ones.
pub const MARKER: &str = "kube-gc-test-marker";
/// The groups of types that configure the cluster. A marker of such a type could have an effect: a
/// copy of a role binding would grant the same rights.
const MEANS: [&str; 4] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "rbac.authorization.k8s.io",
];

/// A `propagationPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The object is deleted at once, its dependents afterwards.
    Background,
    /// The dependents that block are deleted first.
    Foreground,
    /// The dependents stay.
    Orphan,
}

/// The scope of a custom resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Namespaced.
    Namespaced,
    /// Cluster-scoped.
    Cluster,
}

/// The client of a scenario. Clones share what was [seen](Self::seen).
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    touched: Arc<Mutex<BTreeMap<String, Touched>>>,
    /// Distinguishes the namespaces of this scenario from those of earlier ones.
    run: Arc<str>,
    counter: Arc<AtomicU64>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("touched", &self.touched).finish_non_exhaustive()
    }
}

/// How a scenario used a resource.
#[derive(Clone, Debug)]
struct Touched {
    resource: ApiResource,
    namespaced: bool,
    /// The highest resourceVersion in any answer about it.
    seen: String,
    /// A template for one more object: the last one, without its metadata.
    template: Value,
}

impl Cluster {
    /// A client for one scenario.
    pub fn new(client: Client) -> Self {
        // The time alone would do if clocks were never set back.
        let run = format!("{:x}{:x}", std::process::id(), unix_nanos());
        Self { client, touched: Arc::default(), run: run.into(), counter: Arc::default() }
    }

    /// The Kubernetes client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Creates a new namespace.
    pub async fn namespace(&self) -> Result<Ns> {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let object = self.of::<Namespace>(format!("test-{}-{number}", self.run)).create().await?;
        Ok(Ns { cluster: self.clone(), object })
    }

    /// A cluster-scoped object of any resource, to be created.
    pub fn object(&self, resource: &ApiResource, name: impl Into<String>) -> Builder {
        Builder::new(self, resource.clone(), None, &name.into())
    }

    /// A cluster-scoped object of a built-in type.
    pub fn of<K: Resource<DynamicType = ()>>(&self, name: impl Into<String>) -> Builder {
        self.object(&ApiResource::erase::<K>(&()), name)
    }

    /// A node.
    pub fn node(&self, name: impl Into<String>) -> Builder {
        self.of::<Node>(name)
    }

    /// Deletes an object with a policy.
    pub async fn delete(&self, object: &Obj, policy: Policy) -> Result<()> {
        self.delete_with(object, &json!({ "propagationPolicy": format!("{policy:?}") })).await
    }

    /// Deletes an object with any `DeleteOptions`.
    pub async fn delete_with(&self, object: &Obj, options: &Value) -> Result<()> {
        let answer = self.send("DELETE", &object.path(), None, Some(options)).await;
        let answer = answer.with_context(|| format!("cannot delete {object}"))?;
        // The answer is a Status or, if the object still exists, the object.
        let shown = if answer["metadata"]["uid"].is_string() { &answer } else { &object.raw };
        self.saw(&object.resource, object.namespace.is_some(), shown);
        Ok(())
    }

    /// Deletes many objects, several at a time.
    pub async fn delete_all(&self, objects: &[Obj], policy: Policy) -> Result<()> {
        stream::iter(objects.iter().map(|object| self.delete(object, policy)))
            .buffer_unordered(PARALLEL)
            .try_collect::<()>()
            .await
    }

    /// The object that has this object's name now, whether it is the same one or not.
    pub async fn get(&self, object: &Obj) -> Result<Option<Obj>> {
        match self.send("GET", &object.path(), None, None).await {
            Ok(answer) => Ok(Some(self.saw(&object.resource, object.namespace.is_some(), &answer))),
            Err(error) if is_status(&error, 404) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot get {object}")),
        }
    }

    /// The current state of the object, which must exist.
    pub async fn fresh(&self, object: &Obj) -> Result<Obj> {
        match self.get(object).await? {
            Some(now) if now.uid == object.uid => Ok(now),
            Some(now) => bail!("{object} was replaced by {now}"),
            None => bail!("{object} is gone"),
        }
    }

    /// Whether the object with this uid still exists.
    pub async fn exists_with_uid(&self, object: &Obj) -> Result<bool> {
        Ok(self.get(object).await?.is_some_and(|now| now.uid == object.uid))
    }

    /// Waits until an object is gone.
    pub async fn gone(&self, object: &Obj) -> Result<()> {
        poll(&format!("{object} to go"), async || Ok(!self.exists_with_uid(object).await?)).await
    }

    /// Requests a token of a service account. One that is bound to an object ends with the object.
    pub async fn token(
        &self,
        namespace: &str,
        account: &str,
        seconds: u32,
        bound_to: Option<&Value>,
    ) -> Result<String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": { "expirationSeconds": seconds, "boundObjectRef": bound_to },
        });
        let answer = self.send("POST", &path, None, Some(&request)).await?;
        Ok(answer["status"]["token"].as_str().context("no token")?.to_owned())
    }

    /// Fails unless all these objects are gone.
    pub async fn assert_gone<'a>(&self, objects: impl IntoIterator<Item = &'a Obj>) -> Result<()> {
        let wrong = self.those_that(objects, true).await?;
        ensure!(wrong.is_empty(), "still there: {}", listed(&wrong));
        Ok(())
    }

    /// Fails unless all these objects exist.
    pub async fn assert_kept<'a>(&self, objects: impl IntoIterator<Item = &'a Obj>) -> Result<()> {
        let wrong = self.those_that(objects, false).await?;
        ensure!(wrong.is_empty(), "gone: {}", listed(&wrong));
        Ok(())
    }

    async fn those_that<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Obj>,
        exist: bool,
    ) -> Result<Vec<&'a Obj>> {
        let objects: Vec<&Obj> = objects.into_iter().collect();
        let found: Vec<_> = stream::iter(objects.into_iter().map(async |object| {
            let exists = self.exists_with_uid(object).await?;
            anyhow::Ok((exists == exist).then_some(object))
        }))
        .buffered(PARALLEL)
        .try_collect()
        .await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Patches an object with a JSON merge patch.
    pub async fn patch(&self, object: &Obj, patch: &Value) -> Result<Obj> {
        let answer = self.send("PATCH", &object.path(), MERGE_PATCH, Some(patch)).await;
        let answer = answer.with_context(|| format!("cannot patch {object}"))?;
        Ok(self.saw(&object.resource, object.namespace.is_some(), &answer))
    }

    /// Replaces the finalizers.
    pub async fn set_finalizers(&self, object: &Obj, finalizers: &[&str]) -> Result<Obj> {
        self.patch(object, &json!({ "metadata": { "finalizers": finalizers } })).await
    }

    /// Replaces the owner references.
    pub async fn set_owner_references(&self, object: &Obj, references: &[Value]) -> Result<Obj> {
        self.patch(object, &json!({ "metadata": { "ownerReferences": references } })).await
    }

    /// Sets one label.
    pub async fn set_label(&self, object: &Obj, key: &str, value: &str) -> Result<Obj> {
        self.patch(object, &json!({ "metadata": { "labels": { key: value } } })).await
    }

    /// The events about an object.
    pub async fn events(&self, object: &Obj) -> Result<Vec<Event>> {
        let namespace = object.namespace.as_deref().unwrap_or("default");
        let path = format!(
            "/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.uid%3D{}",
            object.uid
        );
        let answer = self.send("GET", &path, None, None).await?;
        Ok(serde_json::from_value(answer["items"].clone())?)
    }

    /// All objects of a resource in a namespace, or in the cluster.
    pub async fn list(&self, resource: &ApiResource, namespace: Option<&str>) -> Result<Vec<Obj>> {
        let path = collection(resource, namespace);
        let answer =
            self.send("GET", &path, None, None).await.with_context(|| format!("cannot list {path}"))?;
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        Ok(items.into_iter().map(|item| Obj::new(resource, item)).collect())
    }

    /// Sends a request with a JSON body and returns the JSON answer.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Value> {
        let mut request = http::Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header(http::header::CONTENT_TYPE, content_type.unwrap_or("application/json"));
        }
        let body = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        Ok(self.client.request::<Value>(request.body(body)?).await?)
    }

    /// Records an answer, and converts it to an [`Obj`].
    fn saw(&self, resource: &ApiResource, namespaced: bool, answer: &Value) -> Obj {
        let object = Obj::new(resource, answer.clone());
        if MEANS.contains(&resource.group.as_str()) {
            return object;
        }
        let mut template = answer.clone();
        if let Some(fields) = template.as_object_mut() {
            fields.retain(|field, _| field != "metadata" && field != "status");
        }
        let mut all = lock(&self.touched);
        match all.get_mut(&key(resource)) {
            Some(touched) => {
                if is_later(&object.resource_version, &touched.seen) {
                    touched.seen.clone_from(&object.resource_version);
                }
                // A template is of one version.
                touched.resource = resource.clone();
                touched.template = template;
            }
            None => {
                let seen = object.resource_version.clone();
                all.insert(key(resource), Touched { resource: resource.clone(), namespaced, seen, template });
            }
        }
        object
    }
}

/// Waits until a condition holds.
pub async fn poll(what: &str, mut condition: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + DEADLINE;
    while !condition().await? {
        ensure!(Instant::now() < deadline, "waited {DEADLINE:?} for {what}");
        sleep(POLL).await;
    }
    Ok(())
}

/// Whether an error is an answer of the API server with this code.
pub fn is_status(error: &anyhow::Error, code: u16) -> bool {
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == code)
}

/// Versions of one resource are decimal numbers that grow.
fn is_later(version: &str, than: &str) -> bool {
    (version.len(), version) > (than.len(), than)
}

fn listed(objects: &[&Obj]) -> String {
    let mut names: Vec<String> = objects.iter().take(10).map(ToString::to_string).collect();
    if objects.len() > names.len() {
        names.push(format!("and {} more", objects.len() - names.len()));
    }
    names.join(", ")
}

fn unix_nanos() -> u128 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map(|since| since.as_nanos())
        .unwrap_or_default()
}
