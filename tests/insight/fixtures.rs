//! What scenarios begin with, and how a plan comes true.

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};

use super::Caller;
use super::proof::{self, Case, Moment, Shown, holds};
use crate::conformance::stage::{HOLD, Stage};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Cluster, Collector, Ns, Obj, Policy};

/// A stage with a namespace. The next scenario clears both.
pub struct World {
    pub stage: Stage,
    ns: Ns,
}

impl World {
    pub async fn set() -> Result<Self> {
        let stage = Stage::set().await?;
        let ns = stage.cluster.namespace().await?;
        Ok(Self { stage, ns })
    }

    pub fn parts(&self) -> (&Cluster, &Ns, Caller<'_>) {
        let kubeconfig = self.stage.plane.kubeconfig();
        (&self.stage.cluster, &self.ns, Caller { kubeconfig, namespace: self.ns.name() })
    }
}

/// A correct reference, with some fields replaced.
pub fn reference(owner: &Obj, changed: &Value) -> Value {
    let mut reference = owner.reference();
    for (field, value) in changed.as_object().into_iter().flatten() {
        reference[field] = value.clone();
    }
    reference
}

/// A reference to an owner whose kind nobody serves.
pub fn unserved() -> Value {
    json!({ "apiVersion": "gone.example.com/v1", "kind": "Gone", "name": "x", "uid": "x" })
}

/// Waits until an answer of `stuck` counts this many objects: the times of the server have no fractions of
/// a second.
pub async fn stuck(caller: Caller<'_>, line: &str, count: u64) -> Result<Value> {
    poll("the second of the deletion to pass", async || Ok(caller.json(line).await?["stuck"] == count))
        .await?;
    caller.json(line).await
}

/// A foreground deletion of ConfigMap/root, which ConfigMap/middle blocks, which the finalizer of
/// Secret/held holds; and a collector.
pub struct HeldCascade {
    pub root: Obj,
    pub middle: Obj,
    pub held: Obj,
    pub collector: Collector,
}

impl HeldCascade {
    pub async fn begin(world: &World) -> Result<Self> {
        let (cluster, ns, _) = world.parts();
        let root = ns.configmap("root").create().await?;
        let middle = ns.configmap("middle").owned_by(&root).controlled().blocking().create().await?;
        let held = ns.secret("held").owned_by(&middle).blocking().finalizer(HOLD).create().await?;
        let collector = world.stage.collector().await?;
        cluster.delete(&root, Policy::Foreground).await?;
        poll("the cascade to be held", async || Ok(cluster.fresh(&held).await?.is_terminating())).await?;
        cluster.settled(&collector).await?;
        Ok(Self { root, middle, held, collector })
    }

    /// Removes the finalizer, and waits until everything is gone.
    pub async fn end(self, world: &World) -> Result<()> {
        let cluster = &world.stage.cluster;
        cluster.set_finalizers(&self.held, &[]).await?;
        cluster.settled(&self.collector).await?;
        cluster.assert_gone([&self.root, &self.middle, &self.held]).await?;
        self.collector.stop().await
    }
}

/// A deletion, what a plan has to say about it, and all objects that could be concerned.
pub struct Truth<'a> {
    pub line: String,
    pub says: &'a [&'a str],
    pub policy: Policy,
    pub roots: &'a [&'a Obj],
    pub objects: &'a [&'a Obj],
}

impl Truth<'_> {
    /// Fails unless the plan says this, and what then happens is what it says: until nothing changes any more,
    /// and again without the finalizers of others, and after `release`.
    pub async fn comes_true(
        &self,
        world: &World,
        collector: &Collector,
        release: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<()> {
        // What is under way already is no part of the plan, and its requests and markers are none of it.
        for custom in self.objects.iter().filter(|object| object.resource.group.contains('.')) {
            world.stage.cluster.forget(&custom.resource);
        }
        world.stage.cluster.settled_with_parked(collector).await?;
        self.follows(&self.planned(world).await?, world, collector, release).await
    }

    /// Fails unless the plan says this.
    pub async fn planned(&self, world: &World) -> Result<Case> {
        let (cluster, _, caller) = world.parts();
        let before = cluster.request_counts().await?;
        let asked = caller.ask(&format!("{} -o json", self.line)).await?;
        caller.says(&self.line, asked.code, self.says).await?;
        let sent = cluster.request_counts().await?.since(&before);
        ensure!(sent.writes() == 0, "something was written: {sent:?}");
        let mut objects = Vec::new();
        for object in self.objects {
            objects.push(cluster.fresh(object).await?);
        }
        let plan = serde_json::from_value(asked.json()?)?;
        Ok(Case { title: self.line.clone(), objects, had_deleted: false, plan })
    }

    /// Fails unless what happens is what was planned.
    pub async fn follows(
        &self,
        case: &Case,
        world: &World,
        collector: &Collector,
        release: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<()> {
        let (cluster, ..) = world.parts();
        for root in self.roots {
            if cluster.exists_with_uid(root).await? {
                cluster.delete(root, self.policy).await?;
            }
            collect_pods(cluster, root, &case.objects).await?;
        }
        came_true(cluster, collector, case, Moment::Idle).await?;
        for object in &case.objects {
            let Ok(Some(object)) = cluster.get(object).await else { continue };
            if !holds(&object).is_empty() {
                proof::release(cluster, &object).await?;
            }
        }
        release().await?;
        came_true(cluster, collector, case, Moment::Released).await
    }
}

/// Does what PodGC of kube-controller-manager does with the pods of a node that is gone.
async fn collect_pods(cluster: &Cluster, node: &Obj, objects: &[Obj]) -> Result<()> {
    let is_on =
        |pod: &&Obj| node.resource.kind == "Node" && pod.raw["spec"]["nodeName"] == node.name.as_str();
    for pod in objects.iter().filter(is_on) {
        cluster.gone(node).await?;
        cluster.delete_with(pod, &json!({ "gracePeriodSeconds": 0 })).await?;
    }
    Ok(())
}

/// What a namespace or a definition takes along goes after the collector has settled, so this waits.
async fn came_true(cluster: &Cluster, collector: &Collector, case: &Case, moment: Moment) -> Result<()> {
    for custom in case.objects.iter().filter(|object| object.resource.group.contains('.')) {
        // No marker can be written of a type that goes.
        cluster.forget(&custom.resource);
    }
    cluster.settled_with_parked(collector).await?;
    let differences = async || case.differences(&Shown::of(cluster, &case.objects).await, moment);
    let came = poll("the plan to come true", async || Ok(differences().await.is_empty())).await;
    came.with_context(|| case.title.clone()).or(Err(anyhow!("{:?}", differences().await)))
}
