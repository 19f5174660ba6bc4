//! A restore of the store while the collector runs.

use anyhow::{Result, ensure};

use crate::conformance::stage::{as_created, lives_with};
use crate::faults::stage::Stage;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Fault, Matcher, Proxy, Reply, Request, Verb};
use kube_gc_testkit::{Cluster, Collector, ControlPlane, Ns, Obj, Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    nothing_alive_is_deleted_after_the_store_was_restored_from_a_backup,
    nothing_alive_is_deleted_after_a_restore_with_a_raised_version,
    nothing_is_written_to_a_restored_store_before_its_version_is_known,
}

/// Discovery runs on demand only. Failures are retried soon.
const CONFIG: &str = "[discovery]\ninterval = \"1h\"\n[retry]\nmax = \"500ms\"\n";
/// More versions than the API server itself writes when it starts.
pub const VERSIONS: usize = 400;

/// The content of the backup: an owner with dependents, and one that orphans.
pub struct Family {
    owner: Obj,
    child: Obj,
    grandchild: Obj,
    pub pending: Obj,
    orphaning: Obj,
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

    /// Deletes both owners, which the restore undoes.
    pub async fn end(&self, cluster: &Cluster) -> Result<()> {
        cluster.delete(&self.owner, Policy::Background).await?;
        cluster.delete(&self.orphaning, Policy::Orphan).await
    }

    /// Waits until all have gone whose deletion does not fail.
    pub async fn gone(&self, cluster: &Cluster) -> Result<()> {
        for gone in [&self.owner, &self.child, &self.grandchild, &self.orphaning] {
            cluster.gone(gone).await?;
        }
        Ok(())
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

/// Versions go back, and uids come back (rules 1.21 and 10.1). Fails if the collector does not
/// notice. Fails if the collector still believes an earlier proof: that an owner is absent, that
/// its dependents were orphaned, or that a type is gone. Fails if the collector does not resume its
/// work, including that on types that came back.
async fn nothing_alive_is_deleted_after_the_store_was_restored_from_a_backup() -> Result<()> {
    let plane = ControlPlane::start()?;
    let cluster = Cluster::new(plane.client().await?);
    let ns = cluster.namespace().await?;
    let widgets = cluster.crd("widgets.example.com", Scope::Namespaced, &["v1"]).await?;
    let family = Family::make(&ns).await?;
    let widget = ns.object(widgets.resource(), "widget").create().await?;
    let of_widget = ns.secret("of-widget").owned_by(&widget).create().await?;
    plane.back_up().await?;

    let collector = Collector::start(&plane, Options::config(CONFIG)).await?;
    collector.ready().await?;
    cluster.settled(&collector).await?;
    family.end(&cluster).await?;
    widgets.remove().await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&family.pending, &of_widget]).await?;
    family.gone(&cluster).await?;
    lives_with(&cluster, &family.orphan, &[]).await?;
    let filler = create_all((0..VERSIONS).map(|n| ns.configmap(format!("filler-{n}")))).await?;
    cluster.settled(&collector).await?;
    ensure!(collector.metric("kube_gc_store_restored_total").await? == 0.0, "nothing was restored yet");

    plane.restore().await?;
    // A client that knows no version from before the restore.
    let cluster = Cluster::new(plane.client().await?);
    collector.log_line("data was restored from a backup; kube-gc rebuilds the graph").await?;
    cluster.settled(&collector).await?;
    family.is_back(&cluster).await?;
    as_created(&cluster, [&widget, &of_widget]).await?;
    cluster.assert_gone([&filler[0]]).await?;
    let times = collector.metric("kube_gc_store_restored_total").await?;
    ensure!(times == 1.0, "noticed {times} times");
    cluster.delete(&widget, Policy::Background).await?;
    family.end_again(&cluster, &collector).await?;
    cluster.assert_gone([&of_widget]).await?;
    collector.stop().await
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
    family.end(&cluster).await?;
    deletes.hit(2).await?;
    family.gone(&cluster).await?;
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

/// A deletion was decided before the restore and has failed so far. When the API server is back, it
/// is usually retried before any monitor has checked the store; here, no monitor can check for a
/// while. Fails if the DELETE is the first request: the owner is there again, and so are the
/// dependent's uid and version.
async fn nothing_is_written_to_a_restored_store_before_its_version_is_known() -> Result<()> {
    let stage = Stage::alone().await?;
    let (plane, ns) = (stage.plane()?, &stage.ns);
    let owner = ns.configmap("owner").create().await?;
    let child = ns.secret("child").owned_by(&owner).create().await?;
    plane.back_up().await?;
    stage.answers().await?;

    let collector = stage.collector_with(Options::config(CONFIG)).await?;
    let deletes = stage.proxy.always(Matcher::object(Verb::Delete, &child), Fault::Instead(Reply::broken()));
    create_all((0..VERSIONS).map(|n| ns.configmap(format!("filler-{n}")))).await?;
    stage.cluster.delete(&owner, Policy::Background).await?;
    deletes.hit(2).await?;

    let is_look = |request: &Request| request.query == "limit=1";
    let looks = || Matcher::verb(Verb::List).when(is_look);
    let first = stage.proxy.always(looks().of("namespaces"), Fault::Instead(Reply::broken()));
    let others = stage.proxy.always(looks(), Fault::Instead(Reply::broken()));
    plane.restore().await?;
    // The collector has seen its watches break. Now nothing else prevents the DELETE.
    others.hit(1).await?;
    deletes.remove();
    // A writer checks the store each time it tries, and its backoff grows. A monitor checks less often.
    first.hit(first.hits() + 2).await?;
    ensure!(stage.cluster.exists_with_uid(&child).await?, "its owner exists, so it must exist, too");
    first.remove();
    others.remove();

    collector.log_line("data was restored from a backup; kube-gc rebuilds the graph").await?;
    // A client that knows no version from before the restore.
    let cluster = Cluster::new(plane.client().await?);
    cluster.settled(&collector).await?;
    as_created(&cluster, [&owner, &child]).await?;
    cluster.delete(&owner, Policy::Background).await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&owner, &child]).await?;
    collector.stop().await
}
