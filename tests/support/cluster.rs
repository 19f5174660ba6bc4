//! A client to write scenarios with.
//!
//! Everything is sent and kept as raw JSON, so that objects may have owner
//! references of any shape, wrong ones included.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ApiResource, GroupVersionKind};
use kube::{Client, Resource};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::collector::{Collector, parse_metrics};

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(20);
/// How long anything may take before the test fails.
const DEADLINE: Duration = Duration::from_secs(60);
const MERGE_PATCH: Option<&str> = Some("application/merge-patch+json");
/// How many requests of a bulk operation are under way at a time.
const PARALLEL: usize = 16;
/// Marks the CRDs of scenarios, so that the next one can clear them away.
const CRD_LABEL: &str = "kube-gc-test/crd";
/// Marks the objects that [`Cluster::settled`] writes.
const MARKER_LABEL: &str = "kube-gc-test/marker";
/// The name of those objects, and of the namespace of the namespaced ones.
const MARKER: &str = "kube-gc-test-marker";
/// The groups of what a scenario sets the stage with. A marker there would not
/// be without effect: a copy of a role binding would grant what it grants.
const MEANS: [&str; 4] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "rbac.authorization.k8s.io",
];

/// A `propagationPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The object goes at once, its dependents afterwards.
    Background,
    /// The dependents that block go first.
    Foreground,
    /// The dependents stay.
    Orphan,
}

/// Where a custom resource lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In namespaces.
    Namespaced,
    /// In the cluster.
    Cluster,
}

/// The client side of a scenario. Clones share what was [seen](Self::seen).
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    touched: Arc<Mutex<BTreeMap<String, Touched>>>,
    /// Namespaces of this scenario are told apart from an earlier one's by it.
    run: Arc<str>,
    counter: Arc<AtomicU64>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("touched", &self.touched).finish_non_exhaustive()
    }
}

/// What the scenario did with one resource.
#[derive(Clone, Debug)]
struct Touched {
    resource: ApiResource,
    namespaced: bool,
    /// The highest resourceVersion of any answer about it.
    seen: String,
    /// How to make one more of them: the last one, without its metadata.
    template: Value,
}

impl Cluster {
    /// For one scenario.
    pub fn new(client: Client) -> Self {
        // Time alone would do, were clocks never set back.
        let run = format!("{:x}{:x}", std::process::id(), unix_nanos());
        Self { client, touched: Arc::default(), run: run.into(), counter: Arc::default() }
    }

    /// The client itself.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Creates a fresh namespace.
    pub async fn namespace(&self) -> Result<Ns> {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let object = self.of::<Namespace>(format!("test-{}-{number}", self.run)).create().await?;
        Ok(Ns { cluster: self.clone(), object })
    }

    /// A cluster-scoped object of any resource, yet to be created.
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

    /// Deletes an object under a policy.
    pub async fn delete(&self, object: &Obj, policy: Policy) -> Result<()> {
        self.delete_with(object, &json!({ "propagationPolicy": format!("{policy:?}") })).await
    }

    /// Deletes an object with any `DeleteOptions`.
    pub async fn delete_with(&self, object: &Obj, options: &Value) -> Result<()> {
        let answer = self.send("DELETE", &object.path(), None, Some(options)).await;
        let answer = answer.with_context(|| format!("cannot delete {object}"))?;
        // Either a Status or, when it is not gone yet, the object.
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

    /// What goes by the object's name now, be it the same object or not.
    pub async fn get(&self, object: &Obj) -> Result<Option<Obj>> {
        match self.send("GET", &object.path(), None, None).await {
            Ok(answer) => Ok(Some(self.saw(&object.resource, object.namespace.is_some(), &answer))),
            Err(error) if is_status(&error, 404) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot get {object}")),
        }
    }

    /// The object as it is now; it must exist.
    pub async fn fresh(&self, object: &Obj) -> Result<Obj> {
        match self.get(object).await? {
            Some(now) if now.uid == object.uid => Ok(now),
            Some(now) => bail!("{object} was replaced by {now}"),
            None => bail!("{object} is gone"),
        }
    }

    /// Whether this very object still exists.
    pub async fn exists_with_uid(&self, object: &Obj) -> Result<bool> {
        Ok(self.get(object).await?.is_some_and(|now| now.uid == object.uid))
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

    /// The highest resourceVersion that an answer to this client has named,
    /// for each resource that it has written or read.
    pub fn seen(&self) -> Vec<(String, String)> {
        lock(&self.touched).iter().map(|(key, touched)| (key.clone(), touched.seen.clone())).collect()
    }

    /// Forgets a resource: [`settled`](Self::settled) neither writes nor lists
    /// it any more. For a type that a scenario breaks on purpose.
    pub fn forget(&self, resource: &ApiResource) {
        lock(&self.touched).remove(&key(resource));
    }

    /// Waits until the collector has finished with all that this client did.
    ///
    /// That means: it is idle, after having seen everything that happened to
    /// any resource that was used here, and has done nothing in the meantime
    /// that would change that. To know what "everything" is, a marker is
    /// written to each of those resources, in a namespace aside; what its
    /// watch says later than the marker happened later. (The
    /// resourceVersions of the answers would not do: that of a deletion is in
    /// none.)
    pub async fn settled(&self, collector: &Collector) -> Result<()> {
        self.settle(collector, false).await
    }

    /// Like [`settled`](Self::settled), where objects that wait for their next
    /// attempt after a failure are no reason to wait.
    pub async fn settled_with_parked(&self, collector: &Collector) -> Result<()> {
        self.settle(collector, true).await
    }

    async fn settle(&self, collector: &Collector, parked: bool) -> Result<()> {
        let deadline = Instant::now() + DEADLINE;
        let mut before = None;
        loop {
            self.write_markers().await?;
            let left = deadline.saturating_duration_since(Instant::now());
            collector.idle_within(left, &self.seen(), parked).await?;
            // If nothing has changed since the round before, then the
            // collector was idle after it had seen everything there is: what
            // that round found is older than this round's markers.
            let now = Some(self.snapshot().await?);
            if now == before {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "objects still change after {DEADLINE:?}");
            before = now;
        }
    }

    /// Writes to every resource that was used, so that its resourceVersion is
    /// later than all that has happened to it.
    async fn write_markers(&self) -> Result<()> {
        let touched: Vec<Touched> = lock(&self.touched).values().cloned().collect();
        for Touched { resource, namespaced, template, .. } in touched {
            let Some(resource) = self.still_served(&resource).await? else {
                self.forget(&resource);
                continue;
            };
            let namespace = namespaced.then_some(MARKER);
            let marker = Obj::named(&resource, namespace, MARKER);
            let count = self.counter.fetch_add(1, Ordering::Relaxed).to_string();
            let patch = json!({ "metadata": { "annotations": { MARKER_LABEL: count } } });
            let mut answer = self.send("PATCH", &marker.path(), MERGE_PATCH, Some(&patch)).await;
            if matches!(&answer, Err(error) if is_status(error, 404)) {
                answer = self.create_marker(&resource, namespace, template).await;
            }
            let answer = answer.with_context(|| format!("cannot write the marker {marker}"))?;
            self.saw(&resource, namespaced, &answer);
        }
        Ok(())
    }

    async fn create_marker(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        template: Value,
    ) -> Result<Value> {
        if namespace.is_some() {
            // Not by way of `create`: namespaces would count as used.
            let body = marker_body(&ApiResource::erase::<Namespace>(&()), None, json!({}));
            match self.send("POST", "/api/v1/namespaces", None, Some(&body)).await {
                Err(error) if !is_status(&error, 409) => return Err(error),
                _ => {}
            }
        }
        let body = marker_body(resource, namespace, template);
        self.send("POST", &collection(resource, namespace), None, Some(&body)).await
    }

    /// The resource in the version that was used or, if that is gone, in
    /// another one. `None` if it is not served at all: a CRD was removed.
    async fn still_served(&self, resource: &ApiResource) -> Result<Option<ApiResource>> {
        if self.is_listed(resource).await? {
            return Ok(Some(resource.clone()));
        }
        let group = match self.send("GET", &format!("/apis/{}", resource.group), None, None).await {
            Err(error) if is_status(&error, 404) => return Ok(None),
            group => group?,
        };
        for version in group["versions"].as_array().into_iter().flatten() {
            let version = version["version"].as_str().unwrap_or_default();
            let gvk = GroupVersionKind::gvk(&resource.group, version, &resource.kind);
            let other = ApiResource::from_gvk_with_plural(&gvk, &resource.plural);
            if self.is_listed(&other).await? {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    async fn is_listed(&self, resource: &ApiResource) -> Result<bool> {
        match self.send("GET", &(collection(resource, None) + "?limit=1"), None, None).await {
            Ok(_) => Ok(true),
            Err(error) if is_status(&error, 404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Every object of the resources that were used, with its version.
    async fn snapshot(&self) -> Result<BTreeSet<(String, String, String)>> {
        let resources: Vec<ApiResource> =
            lock(&self.touched).values().map(|touched| touched.resource.clone()).collect();
        let mut objects = BTreeSet::new();
        for resource in resources {
            for object in self.list(&resource, None).await? {
                if object.raw["metadata"]["labels"][MARKER_LABEL].is_null() {
                    objects.insert((key(&resource), object.uid, object.resource_version));
                }
            }
        }
        Ok(objects)
    }

    /// Creates a CRD, `widgets.example.com` for example, and waits until all
    /// its versions are served. The first one is the one that is stored.
    ///
    /// A CRD of that name that an earlier scenario left behind is removed
    /// first, with its objects.
    pub async fn crd(&self, name: &str, scope: Scope, versions: &[&str]) -> Result<Crd> {
        let (plural, group) = name.split_once('.').with_context(|| format!("no name of a CRD: {name}"))?;
        let singular = plural.strip_suffix('s').unwrap_or(plural);
        let kind = singular[..1].to_uppercase() + &singular[1..];
        let resources: Vec<ApiResource> = versions
            .iter()
            .map(|version| {
                ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, &kind), plural)
            })
            .collect();
        let schema =
            json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        let versions: Vec<Value> = versions
            .iter()
            .enumerate()
            .map(|(index, version)| json!({ "name": version, "served": true, "storage": index == 0, "schema": schema }))
            .collect();
        let definition = ApiResource::erase::<CustomResourceDefinition>(&());
        let body = json!({
            "apiVersion": definition.api_version,
            "kind": definition.kind,
            "metadata": { "name": name, "labels": { CRD_LABEL: "true" } },
            "spec": {
                "group": group,
                "scope": format!("{scope:?}"),
                "names": { "plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List") },
                "versions": versions,
            },
        });
        let mut crd =
            Crd { cluster: self.clone(), definition: Obj::named(&definition, None, name), resources };
        let path = collection(&definition, None);
        let mut created = self.send("POST", &path, None, Some(&body)).await;
        if matches!(&created, Err(error) if is_status(error, 409)) {
            crd.remove_with_objects().await?;
            created = self.send("POST", &path, None, Some(&body)).await;
        }
        let created = created.with_context(|| format!("cannot create the CRD {name}"))?;
        crd.definition = Obj::new(&definition, created);
        crd.served().await?;
        Ok(crd)
    }

    /// Removes all CRDs that earlier scenarios left behind, with their
    /// objects. (A CRD is not removed by dropping its [`Crd`]: that would
    /// have to wait for the API server in the middle of a failing test.)
    pub async fn remove_leftover_crds(&self) -> Result<()> {
        let definition = ApiResource::erase::<CustomResourceDefinition>(&());
        for found in self.list(&definition, None).await? {
            if found.raw["metadata"]["labels"][CRD_LABEL].is_null() {
                continue;
            }
            let spec = &found.raw["spec"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let versions = spec["versions"].as_array().cloned().unwrap_or_default();
            let resources = versions
                .iter()
                .filter(|version| version["served"] == true)
                .map(|version| {
                    let kind = text(&spec["names"]["kind"]);
                    let gvk = GroupVersionKind::gvk(&text(&spec["group"]), &text(&version["name"]), &kind);
                    ApiResource::from_gvk_with_plural(&gvk, &text(&spec["names"]["plural"]))
                })
                .collect();
            Crd { cluster: self.clone(), definition: found, resources }.remove_with_objects().await?;
        }
        Ok(())
    }

    /// How many requests the API server has answered so far.
    pub async fn request_counts(&self) -> Result<RequestCounts> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let metrics = self.client.request_text(request).await?;
        let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
        for (series, value) in parse_metrics(&metrics) {
            let Some(labels) = series.strip_prefix("apiserver_request_total{") else { continue };
            let labels = format!(",{labels}");
            let label = |name: &str| {
                let (_, rest) = labels.split_once(&format!(",{name}=\""))?;
                rest.split('"').next()
            };
            let (Some(verb), Some(plural)) = (label("verb"), label("resource")) else { continue };
            let resource = match label("group") {
                None | Some("") => plural.to_owned(),
                Some(group) => format!("{plural}.{group}"),
            };
            // A count; far below what a float holds exactly.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let value = value as u64;
            *counts.entry((verb.to_owned(), resource)).or_default() += value;
        }
        Ok(RequestCounts { counts })
    }

    /// Sends any request with a JSON body and returns the JSON answer.
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

    /// Notes what an answer shows, and makes an [`Obj`] of it.
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
                // A template is written for a version.
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

/// A namespace of a scenario. It stays when the scenario is over: a bare API
/// server has nobody who would empty it.
#[derive(Clone, Debug)]
pub struct Ns {
    cluster: Cluster,
    object: Obj,
}

impl Ns {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.object.name
    }

    /// The Namespace object itself.
    pub fn as_object(&self) -> &Obj {
        &self.object
    }

    /// An object of any namespaced resource, yet to be created.
    pub fn object(&self, resource: &ApiResource, name: impl Into<String>) -> Builder {
        Builder::new(&self.cluster, resource.clone(), Some(self.name().to_owned()), &name.into())
    }

    /// An object of a built-in type.
    pub fn of<K: Resource<DynamicType = ()>>(&self, name: impl Into<String>) -> Builder {
        self.object(&ApiResource::erase::<K>(&()), name)
    }

    /// A ConfigMap.
    pub fn configmap(&self, name: impl Into<String>) -> Builder {
        self.of::<ConfigMap>(name)
    }

    /// A Secret.
    pub fn secret(&self, name: impl Into<String>) -> Builder {
        self.of::<Secret>(name)
    }

    /// A Pod. No node runs it, so its deletion takes effect at once.
    pub fn pod(&self, name: impl Into<String>) -> Builder {
        self.of::<Pod>(name).field("spec", json!({ "containers": [{ "name": "main", "image": "none" }] }))
    }

    /// Ends a deletion of the namespace the way the namespace controller does
    /// once all in it is gone.
    pub async fn finalize(&self) -> Result<()> {
        // As it is now: the finalizers in its metadata are not this controller's.
        let mut body = self.cluster.send("GET", &self.object.path(), None, None).await?;
        body["spec"]["finalizers"] = json!([]);
        self.cluster.send("PUT", &(self.object.path() + "/finalize"), None, Some(&body)).await?;
        Ok(())
    }
}

/// An object that is yet to be created.
#[derive(Clone, Debug)]
#[must_use = "nothing is created before create()"]
pub struct Builder {
    cluster: Cluster,
    resource: ApiResource,
    namespace: Option<String>,
    body: Value,
}

impl Builder {
    fn new(cluster: &Cluster, resource: ApiResource, namespace: Option<String>, name: &str) -> Self {
        let mut body = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": { "name": name },
        });
        if let Some(namespace) = &namespace {
            body["metadata"]["namespace"] = json!(namespace);
        }
        Self { cluster: cluster.clone(), resource, namespace, body }
    }

    /// With one more owner: a right reference, without `blockOwnerDeletion`.
    pub fn owned_by(self, owner: &Obj) -> Self {
        self.owner_reference(owner.reference())
    }

    /// With one more owner reference, sent as it is.
    pub fn owner_reference(self, reference: Value) -> Self {
        self.push("ownerReferences", reference)
    }

    /// The last owner reference has `blockOwnerDeletion: true`.
    pub fn blocking(self) -> Self {
        self.in_last_reference("blockOwnerDeletion", json!(true))
    }

    /// The last owner reference has `blockOwnerDeletion: false`.
    pub fn not_blocking(self) -> Self {
        self.in_last_reference("blockOwnerDeletion", json!(false))
    }

    /// The last owner reference has `controller: true`.
    pub fn controlled(self) -> Self {
        self.in_last_reference("controller", json!(true))
    }

    /// With one more finalizer.
    pub fn finalizer(self, finalizer: &str) -> Self {
        self.push("finalizers", json!(finalizer))
    }

    /// With a label.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.body["metadata"]["labels"][key] = json!(value);
        self
    }

    /// With an annotation.
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.body["metadata"]["annotations"][key] = json!(value);
        self
    }

    /// With a field outside of the metadata, `spec` or `data`.
    pub fn field(mut self, name: &str, value: Value) -> Self {
        self.body[name] = value;
        self
    }

    /// What would be sent.
    pub fn body(&self) -> &Value {
        &self.body
    }

    /// Creates it.
    pub async fn create(self) -> Result<Obj> {
        let path = collection(&self.resource, self.namespace.as_deref());
        let answer = self.cluster.send("POST", &path, None, Some(&self.body)).await;
        let answer = answer.with_context(|| {
            format!("cannot create {path}/{}", self.body["metadata"]["name"].as_str().unwrap_or_default())
        })?;
        Ok(self.cluster.saw(&self.resource, self.namespace.is_some(), &answer))
    }

    fn push(mut self, list: &str, value: Value) -> Self {
        match self.body["metadata"][list].as_array_mut() {
            Some(list) => list.push(value),
            None => self.body["metadata"][list] = json!([value]),
        }
        self
    }

    fn in_last_reference(mut self, field: &str, value: Value) -> Self {
        let references = self.body["metadata"]["ownerReferences"].as_array_mut();
        match references.and_then(|references| references.last_mut()) {
            Some(reference) => reference[field] = value,
            None => panic!("{field} of no owner reference"),
        }
        self
    }
}

/// Creates many objects, several at a time; the result is in their order.
pub async fn create_all(builders: impl IntoIterator<Item = Builder>) -> Result<Vec<Obj>> {
    stream::iter(builders.into_iter().map(Builder::create)).buffered(PARALLEL).try_collect().await
}

/// An object as an answer of the API server showed it.
#[derive(Clone, Debug)]
pub struct Obj {
    /// The resource and version that it was read through.
    pub resource: ApiResource,
    /// Its namespace, unless it is cluster-scoped.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its version.
    pub resource_version: String,
    /// All of it.
    pub raw: Value,
}

impl Obj {
    fn new(resource: &ApiResource, raw: Value) -> Self {
        let text = |field: &str| raw["metadata"][field].as_str().map(str::to_owned);
        Self {
            resource: resource.clone(),
            namespace: text("namespace").filter(|namespace| !namespace.is_empty()),
            name: text("name").unwrap_or_default(),
            uid: text("uid").unwrap_or_default(),
            resource_version: text("resourceVersion").unwrap_or_default(),
            raw,
        }
    }

    fn named(resource: &ApiResource, namespace: Option<&str>, name: &str) -> Self {
        Self::new(resource, json!({ "metadata": { "name": name, "namespace": namespace } }))
    }

    /// A right owner reference to it, to be changed at will.
    pub fn reference(&self) -> Value {
        json!({
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "name": self.name,
            "uid": self.uid,
        })
    }

    /// The resource as [`Collector::idle`] wants it: `configmaps`,
    /// `widgets.example.com`.
    pub fn resource_key(&self) -> String {
        key(&self.resource)
    }

    /// Its owner references.
    pub fn owner_references(&self) -> Result<Vec<OwnerReference>> {
        match &self.raw["metadata"]["ownerReferences"] {
            Value::Null => Ok(Vec::new()),
            references => Ok(serde_json::from_value(references.clone())?),
        }
    }

    /// The uids of its owners.
    pub fn owner_uids(&self) -> Vec<&str> {
        let references = self.raw["metadata"]["ownerReferences"].as_array();
        references.into_iter().flatten().filter_map(|reference| reference["uid"].as_str()).collect()
    }

    /// Its finalizers.
    pub fn finalizers(&self) -> Vec<&str> {
        let finalizers = self.raw["metadata"]["finalizers"].as_array();
        finalizers.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Whether it is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.raw["metadata"]["deletionTimestamp"].is_string()
    }

    /// Where it lives on the API server.
    pub fn path(&self) -> String {
        format!("{}/{}", collection(&self.resource, self.namespace.as_deref()), self.name)
    }
}

impl fmt::Display for Obj {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.path(), self.uid)
    }
}

/// A custom resource of a scenario.
#[derive(Clone, Debug)]
pub struct Crd {
    cluster: Cluster,
    definition: Obj,
    resources: Vec<ApiResource>,
}

impl Crd {
    /// The resource in the version that is stored.
    pub fn resource(&self) -> &ApiResource {
        &self.resources[0]
    }

    /// The resource in another of its versions.
    pub fn resource_at(&self, version: &str) -> ApiResource {
        let gvk = GroupVersionKind::gvk(&self.resource().group, version, &self.resource().kind);
        ApiResource::from_gvk_with_plural(&gvk, &self.resource().plural)
    }

    /// The CustomResourceDefinition itself, for patches.
    pub fn definition(&self) -> &Obj {
        &self.definition
    }

    /// Waits until every version is in discovery and answers.
    pub async fn served(&self) -> Result<()> {
        for resource in &self.resources {
            let group_version = format!("/apis/{}", resource.api_version);
            poll(&format!("{group_version}/{} to be served", resource.plural), async || {
                let listed = match self.cluster.send("GET", &group_version, None, None).await {
                    Ok(answer) => answer["resources"].as_array().is_some_and(|resources| {
                        resources.iter().any(|found| found["name"] == resource.plural)
                    }),
                    Err(_) => false,
                };
                Ok(listed && self.cluster.send("GET", &collection(resource, None), None, None).await.is_ok())
            })
            .await?;
        }
        Ok(())
    }

    /// Deletes the CRD and returns when it is gone and no longer served.
    pub async fn remove(&self) -> Result<()> {
        match self.cluster.send("DELETE", &self.definition.path(), None, None).await {
            Err(error) if !is_status(&error, 404) => return Err(error),
            _ => {}
        }
        self.wait_until_removed().await
    }

    async fn wait_until_removed(&self) -> Result<()> {
        self.cluster.forget(self.resource());
        poll(&format!("{} to go", self.definition.name), async || {
            if self.cluster.get_untracked(&self.definition).await?.is_some() {
                return Ok(false);
            }
            for resource in &self.resources {
                if self.cluster.is_listed(resource).await? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
        .await
    }

    /// Removes it even if objects of it have finalizers.
    async fn remove_with_objects(&self) -> Result<()> {
        match self.cluster.send("DELETE", &self.definition.path(), None, None).await {
            Err(error) if !is_status(&error, 404) => return Err(error),
            _ => {}
        }
        if let Some(resource) = self.resources.first() {
            // Not listed any more once the last one is gone.
            for object in self.cluster.list(resource, None).await.unwrap_or_default() {
                let no_finalizers = json!({ "metadata": { "finalizers": null } });
                match self.cluster.send("PATCH", &object.path(), MERGE_PATCH, Some(&no_finalizers)).await {
                    Err(error) if !is_status(&error, 404) => return Err(error),
                    _ => {}
                }
            }
        }
        self.wait_until_removed().await
    }
}

impl Cluster {
    /// Like [`get`](Self::get), without counting the resource as used.
    async fn get_untracked(&self, object: &Obj) -> Result<Option<Obj>> {
        match self.send("GET", &object.path(), None, None).await {
            Ok(answer) => Ok(Some(Obj::new(&object.resource, answer))),
            Err(error) if is_status(&error, 404) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The API server's own count of the requests it has answered.
#[derive(Clone, Debug, Default)]
pub struct RequestCounts {
    counts: BTreeMap<(String, String), u64>,
}

impl RequestCounts {
    /// The requests with a verb, `DELETE` or `LIST`, for a resource,
    /// `configmaps` or `widgets.example.com`.
    pub fn get(&self, verb: &str, resource: &str) -> u64 {
        self.counts.get(&(verb.to_owned(), resource.to_owned())).copied().unwrap_or_default()
    }

    /// The requests with a verb for any resource.
    pub fn verb(&self, verb: &str) -> u64 {
        self.counts.iter().filter(|((found, _), _)| found == verb).map(|(_, count)| count).sum()
    }

    /// The requests that may have written something.
    pub fn writes(&self) -> u64 {
        ["POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"]
            .iter()
            .map(|verb| self.verb(verb))
            .sum()
    }

    /// What has come since an earlier count.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = self.counts.iter().map(|(key, count)| {
            let before = earlier.counts.get(key).copied().unwrap_or_default();
            (key.clone(), count.saturating_sub(before))
        });
        Self { counts: counts.filter(|(_, count)| *count > 0).collect() }
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

/// A resource without its version: `configmaps`, `widgets.example.com`.
pub fn key(resource: &ApiResource) -> String {
    if resource.group.is_empty() {
        resource.plural.clone()
    } else {
        format!("{}.{}", resource.plural, resource.group)
    }
}

fn collection(resource: &ApiResource, namespace: Option<&str>) -> String {
    let root = if resource.group.is_empty() { "/api" } else { "/apis" };
    let namespace = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    format!("{root}/{}{namespace}/{}", resource.api_version, resource.plural)
}

/// An object like the template that concerns no garbage collector.
fn marker_body(resource: &ApiResource, namespace: Option<&str>, mut template: Value) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(MARKER));
    metadata.insert("labels".to_owned(), json!({ MARKER_LABEL: "true" }));
    if let Some(namespace) = namespace {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    template["apiVersion"] = json!(resource.api_version);
    template["kind"] = json!(resource.kind);
    template["metadata"] = Value::Object(metadata);
    template
}

/// Versions of one resource are ever longer decimal numbers.
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

// A panic of another test says nothing about what the lock guards.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
