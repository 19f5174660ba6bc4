//! The expected outcome of a scenario, in whichever order the collector and the objects appear.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret, ServiceAccount};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Resource as _;
use kube::api::ApiResource;
use serde_json::{Value, json};

use crate::conformance::stage::Stage;
pub use kube_gc_testkit::Rest;
use kube_gc_testkit::cluster::{is_status, poll};
use kube_gc_testkit::{Cluster, Collector, Obj, Options, Policy};

/// The number of concurrent requests.
const PARALLEL: usize = 16;

/// Whether the objects or the collector come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The collector finds everything in its first lists.
    ObjectsFirst,
    /// The collector sees everything in its watches.
    CollectorFirst,
}

impl Order {
    /// Both of them.
    pub const BOTH: [Self; 2] = [Self::ObjectsFirst, Self::CollectorFirst];
}

impl Stage {
    /// Starts the collector now if it comes before the objects.
    pub async fn early(&self, order: Order, config: &str) -> Result<Option<Collector>> {
        match order {
            Order::ObjectsFirst => Ok(None),
            Order::CollectorFirst => self.late(None, config).await.map(Some),
        }
    }

    /// The collector that came before the objects, or one that starts now.
    pub async fn late(&self, early: Option<Collector>, config: &str) -> Result<Collector> {
        match early {
            Some(collector) => Ok(collector),
            None => self.collector_with(Options::config(config)).await,
        }
    }

    /// Waits until the collector has nothing to do.
    pub async fn settled(&self, collector: &Collector, rest: Rest) -> Result<()> {
        self.cluster.settle(collector, rest).await
    }

    /// Creates garbage of a type that scenarios do not use otherwise, and fails unless it is
    /// collected. Returns when the collector is idle again.
    pub async fn prove_alive(&self, collector: &Collector, rest: Rest) -> Result<()> {
        let ns = self.cluster.namespace().await?;
        let owner = ns.of::<ServiceAccount>("owner").create().await?;
        let dependent = ns.of::<ServiceAccount>("dependent").owned_by(&owner).create().await?;
        self.cluster.delete(&owner, Policy::Background).await?;
        self.settled(collector, rest).await?;
        self.cluster.assert_gone([&dependent]).await
    }

    /// Removes the remains of scenarios: custom types, and potential garbage. Parked objects of one
    /// scenario would keep the collector of the next one from being idle.
    pub async fn clear(&self) -> Result<()> {
        self.cluster.remove_leftover_crds().await?;
        for api in self.cluster.list(&ApiResource::erase::<APIService>(&()), None).await? {
            // The API server creates the others.
            if api.raw["spec"]["service"].is_object() {
                self.remove(&api).await?;
            }
        }
        for resource in [
            ApiResource::erase::<ConfigMap>(&()),
            ApiResource::erase::<Secret>(&()),
            ApiResource::erase::<Pod>(&()),
            ApiResource::erase::<ServiceAccount>(&()),
            ApiResource::erase::<Ingress>(&()),
            ApiResource::erase::<Node>(&()),
            ApiResource::erase::<Namespace>(&()),
        ] {
            let all = self.cluster.list(&resource, None).await?;
            let ours = all.into_iter().filter(is_ours);
            stream::iter(ours.map(async |object| self.remove(&object).await))
                .buffer_unordered(PARALLEL)
                .try_collect::<()>()
                .await?;
        }
        Ok(())
    }

    /// Deletes an object in spite of its finalizers. The resource does not count as used.
    async fn remove(&self, object: &Obj) -> Result<()> {
        let path = object.path();
        let none = json!({ "metadata": { "finalizers": null, "ownerReferences": null } });
        let background = json!({ "propagationPolicy": "Background" });
        let finalized = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": object.name },
            "spec": { "finalizers": [] },
        });
        let mut steps = vec![("DELETE", path.clone(), None, background)];
        if !object.finalizers().is_empty() || !object.owner_uids().is_empty() {
            steps.insert(0, ("PATCH", path.clone(), Some("application/merge-patch+json"), none));
        }
        if object.resource.kind == Namespace::kind(&()) {
            steps.push(("PUT", path + "/finalize", None, finalized));
        }
        for (method, path, content_type, body) in steps {
            match self.cluster.send(method, &path, content_type, Some(&body)).await {
                Err(error) if !is_status(&error, 404) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether a scenario created the object. (The client creates markers.)
fn is_ours(object: &Obj) -> bool {
    match (&object.namespace, object.resource.kind.as_str()) {
        (Some(namespace), _) => namespace.starts_with("test-"),
        (None, "Namespace") => object.name.starts_with("test-"),
        (None, _) => !object.name.ends_with("marker"),
    }
}

/// The expected outcome.
#[derive(Debug, Default)]
pub struct Outcome {
    /// These objects are gone.
    pub gone: Vec<Obj>,
    /// These exist, with references to exactly these uids.
    pub kept: Vec<(Obj, Vec<String>)>,
    /// These have not been written to.
    pub untouched: Vec<Obj>,
    /// These have a warning event about a reference across namespaces.
    pub warned: Vec<Obj>,
    /// These have no events.
    pub unmentioned: Vec<Obj>,
}

impl Outcome {
    /// Fails unless everything is as expected. It waits for warnings only, which are written
    /// asynchronously.
    pub async fn check(&self, cluster: &Cluster) -> Result<()> {
        cluster.assert_gone(&self.gone).await?;
        for (object, owners) in &self.kept {
            let now = cluster.fresh(object).await?;
            ensure!(now.owner_uids() == *owners, "{now} has other references: {}", now.raw["metadata"]);
            ensure!(!now.is_terminating(), "{now} is being deleted");
        }
        for object in &self.untouched {
            let now = cluster.fresh(object).await?;
            ensure!(now.resource_version == object.resource_version, "{now} was written to: {}", now.raw);
        }
        for object in &self.warned {
            warned_about(cluster, object).await?;
        }
        for object in &self.unmentioned {
            let events = cluster.events(object).await?;
            ensure!(events.is_empty(), "events about {object}: {events:?}");
        }
        Ok(())
    }
}

/// Waits for the warning about a reference across namespaces.
pub async fn warned_about(cluster: &Cluster, object: &Obj) -> Result<()> {
    poll(&format!("an event about {object}"), async || Ok(!cluster.events(object).await?.is_empty())).await?;
    let events = cluster.events(object).await?;
    for event in &events {
        let about = &event.involved_object;
        ensure!(event.reason.as_deref() == Some("OwnerRefInvalidNamespace"), "{event:?}");
        ensure!(event.type_.as_deref() == Some("Warning"), "{event:?}");
        let source = event.source.as_ref().and_then(|source| source.component.as_deref());
        ensure!(source == Some("garbage-collector-controller"), "{event:?}");
        ensure!(about.name.as_deref() == Some(&object.name), "{event:?}");
        ensure!(about.kind.as_deref() == Some(&object.resource.kind), "{event:?}");
        ensure!(about.api_version.as_deref() == Some(&object.resource.api_version), "{event:?}");
        ensure!(
            about.namespace.as_deref().unwrap_or_default() == object.namespace.as_deref().unwrap_or_default()
        );
        let expected = object.namespace.as_deref().unwrap_or("default");
        ensure!(event.metadata.namespace.as_deref() == Some(expected), "{event:?}");
        let message = event.message.as_deref().unwrap_or_default();
        let named = object.owner_uids().iter().any(|uid| message.contains(uid));
        ensure!(named && message.contains(object.namespace.as_deref().unwrap_or_default()), "{message}");
    }
    Ok(())
}

/// The cluster, and the collector if it has been started, while a scenario is set up.
pub struct Setting<'a> {
    pub stage: &'a Stage,
    collector: Option<&'a Collector>,
}

impl Setting<'_> {
    /// The client.
    pub fn cluster(&self) -> &Cluster {
        &self.stage.cluster
    }

    /// The collector, if it has been started.
    pub fn collector(&self) -> Option<&Collector> {
        self.collector
    }

    /// Waits until the collector, if it has been started, has seen everything.
    pub async fn caught_up(&self) -> Result<()> {
        match self.collector {
            Some(collector) => self.stage.cluster.settled_with_parked(collector).await,
            None => Ok(()),
        }
    }
}

/// Runs a scenario in both orders, and checks its outcome when the collector is idle, and again
/// after a restart.
pub async fn in_both_orders(rest: Rest, make: impl AsyncFn(&Setting<'_>) -> Result<Outcome>) -> Result<()> {
    for order in Order::BOTH {
        Box::pin(play(order, rest, &make)).await.with_context(|| format!("{order:?}"))?;
    }
    Ok(())
}

async fn play(order: Order, rest: Rest, make: &impl AsyncFn(&Setting<'_>) -> Result<Outcome>) -> Result<()> {
    let stage = Stage::set().await?;
    let early = stage.early(order, "").await?;
    let outcome = make(&Setting { stage: &stage, collector: early.as_ref() }).await?;
    let collector = stage.late(early, "").await?;
    stage.settled(&collector, rest).await?;
    outcome.check(&stage.cluster).await?;
    collector.stop().await?;

    let collector = stage.collector().await?;
    stage.settled(&collector, rest).await.context("after a restart")?;
    outcome.check(&stage.cluster).await.context("after a restart")?;
    collector.stop().await
}

/// An owner reference.
pub fn reference(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid })
}

/// A correct reference to the object with one field changed.
pub fn reference_but(object: &Obj, field: &str, value: &str) -> Value {
    let mut reference = object.reference();
    reference[field] = json!(value);
    reference
}

/// A uid that no object ever has.
pub fn unused_uid() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map(|now| now.as_micros()).unwrap_or_default();
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let mut uid = format!("{now:016x}{count:016x}");
    for at in [8, 13, 18, 23] {
        uid.insert(at, '-');
    }
    uid
}

/// The uids of objects, as [`Outcome::kept`] expects them.
pub fn uids<'a>(objects: impl IntoIterator<Item = &'a Obj>) -> Vec<String> {
    objects.into_iter().map(|object| object.uid.clone()).collect()
}

/// Fails unless the collector reports each of these as failing, with a text.
pub async fn reported_as_failing(collector: &Collector, objects: &[&Obj], text: &str) -> Result<()> {
    let queues = collector.get_debug("/debug/queues").await?.json()?;
    let queues = queues.as_array().cloned().unwrap_or_default();
    let failing: Vec<&Value> =
        queues.iter().filter_map(|queue| queue["failing"].as_array()).flatten().collect();
    for object in objects {
        let found = failing.iter().find(|item| item["object"]["uid"] == object.uid.as_str());
        let found = found.with_context(|| format!("{object} is not in /debug/queues: {failing:?}"))?;
        ensure!(
            found["last_error"].as_str().is_some_and(|error| error.contains(text)),
            "no {text:?}: {found}"
        );
    }
    Ok(())
}
