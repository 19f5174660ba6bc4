//! A store that was restored from a backup with a version higher than any before.

use anyhow::Result;

use crate::conformance::stage::as_created;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Fault, Matcher, Proxy, Reply, Verb};
use kube_gc_testkit::{Cluster, Collector, ControlPlane, Ns, Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    nothing_alive_is_deleted_after_a_restore_with_a_raised_version,
}

/// Discovery runs on demand only. Failures are retried soon.
const CONFIG: &str = "[discovery]\ninterval = \"1h\"\n[retry]\nmax = \"500ms\"\n";
/// More versions than the API server itself writes when it starts.
pub const VERSIONS: usize = 400;

/// The content of the backup: an owner with dependents, and one that orphans.
pub struct Family {
    pub owner: Obj,
    pub child: Obj,
    pub grandchild: Obj,
    pub pending: Obj,
    pub orphaning: Obj,
    orphan: Obj,
}

impl Family {
    pub async fn make(ns: &Ns) -> Result<Self> {
        let owner = ns.configmap("owner").create().await?;
        let child = ns.secret("child").owned_by(&owner).create().await?;
        let grandchild = ns.secret("grandchild").owned_by(&child).blocking().create().await?;
        let pending = ns.secret("pending").owned_by(&owner).create().await?;
        let orphaning = ns.configmap("orphaning").create().await?;
        let orphan = ns.secret("orphan").owned_by(&orphaning).create().await?;
        Ok(Self { owner, child, grandchild, pending, orphaning, orphan })
    }

    fn owned(&self) -> [&Obj; 4] {
        [&self.child, &self.grandchild, &self.pending, &self.orphan]
    }

    /// Checks that everything is as in the backup.
    pub async fn is_back(&self, cluster: &Cluster) -> Result<()> {
        as_created(cluster, self.owned()).await
    }

    /// Repeats the deletions in the background. Nothing that was remembered as absent or orphaned
    /// counts any more.
    pub async fn end_again(&self, cluster: &Cluster, collector: &Collector) -> Result<()> {
        for owner in [&self.owner, &self.orphaning] {
            cluster.delete(owner, Policy::Background).await?;
        }
        cluster.settled(collector).await?;
        cluster.assert_gone(self.owned()).await
    }
}

/// `etcdutl snapshot restore --bump-revision --mark-compacted` makes such a store (rule 1.23).
/// Fails if an earlier proof of absence still counts: the DELETE of `pending`, which has failed
/// until then, would succeed.
async fn nothing_alive_is_deleted_after_a_restore_with_a_raised_version() -> Result<()> {
    let plane = ControlPlane::start()?;
    let cluster = Cluster::new(plane.client().await?);
    let ns = cluster.namespace().await?;
    let proxy = Proxy::start(&plane).await?;
    let family = Family::make(&ns).await?;
    plane.back_up().await?;
    poll("the API server to answer", async || {
        Ok(cluster.send("GET", "/api/v1/namespaces/default", None, None).await.is_ok())
    })
    .await?;

    let collector = Collector::start_with(proxy.kubeconfig(), Options::config(CONFIG)).await?;
    collector.ready().await?;
    cluster.settled(&collector).await?;
    let deletes =
        proxy.always(Matcher::object(Verb::Delete, &family.pending), Fault::Instead(Reply::broken()));
    cluster.delete(&family.owner, Policy::Background).await?;
    cluster.delete(&family.orphaning, Policy::Orphan).await?;
    deletes.hit(2).await?;
    for gone in [&family.owner, &family.child, &family.grandchild, &family.orphaning] {
        cluster.gone(gone).await?;
    }
    create_all((0..VERSIONS).map(|n| ns.configmap(format!("filler-{n}")))).await?;

    let mark = proxy.mark();
    plane.restore_raised().await?;
    // A restore takes a real API server down for seconds. The embedded one is back before the
    // collector notices.
    poll("a watch to be opened again", async || {
        Ok(!proxy.since(mark, &Matcher::verb(Verb::Watch)).is_empty())
    })
    .await?;
    deletes.remove();
    // A client without the earlier watches.
    let cluster = Cluster::new(plane.client().await?);
    cluster.settled(&collector).await?;
    family.is_back(&cluster).await?;
    family.end_again(&cluster, &collector).await?;
    collector.stop().await
}
