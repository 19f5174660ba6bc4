//! What several scenarios begin with.

use anyhow::Result;
use serde_json::json;

use crate::conformance::stage::{HOLD, Stage};
use crate::conformance::user::User;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Collector, Ns, Obj, Policy};

/// A user who may read and list objects of one core resource, and nothing else.
pub async fn reader_of(stage: &Stage, ns: &Ns, resource: &str) -> Result<User> {
    let rules = json!([{ "apiGroups": [""], "resources": [resource], "verbs": ["get", "list"] }]);
    User::create(stage.plane, &stage.cluster, ns, rules).await
}

/// ConfigMap/root owns ConfigMap/seen and Secret/unseen, which the user may not read.
pub async fn half_seen(stage: &Stage) -> Result<(Ns, User)> {
    let ns = stage.cluster.namespace().await?;
    let user = reader_of(stage, &ns, "configmaps").await?;
    let root = ns.configmap("root").create().await?;
    ns.configmap("seen").owned_by(&root).create().await?;
    ns.secret("unseen").owned_by(&root).create().await?;
    Ok((ns, user))
}

/// A foreground deletion of ConfigMap/root that the finalizer of Secret/held holds, and a collector.
pub struct HeldCascade {
    pub ns: Ns,
    pub root: Obj,
    pub held: Obj,
    pub collector: Collector,
}

impl HeldCascade {
    pub async fn begin(stage: &Stage) -> Result<Self> {
        let cluster = &stage.cluster;
        let ns = cluster.namespace().await?;
        let root = ns.configmap("root").create().await?;
        let held = ns.secret("held").owned_by(&root).blocking().finalizer(HOLD).create().await?;
        let collector = stage.collector().await?;
        cluster.delete(&root, Policy::Foreground).await?;
        poll("the cascade to be held", async || Ok(cluster.fresh(&held).await?.is_terminating())).await?;
        cluster.settled(&collector).await?;
        Ok(Self { ns, root, held, collector })
    }

    /// Removes the finalizer, and waits until everything is gone.
    pub async fn end(self, stage: &Stage) -> Result<()> {
        stage.cluster.set_finalizers(&self.held, &[]).await?;
        stage.cluster.settled(&self.collector).await?;
        self.collector.stop().await
    }
}
