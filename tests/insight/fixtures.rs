//! What scenarios begin with.

use anyhow::Result;
use serde_json::{Value, json};

use super::Caller;
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
