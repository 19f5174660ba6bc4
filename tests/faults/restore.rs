//! A restore of the store while the collector runs.

use anyhow::{Result, ensure};

use crate::conformance::stage::{as_created, lives_with};
use crate::faults::stage::{Stage, never};
use kube_gc_testkit::cluster::create_all;
use kube_gc_testkit::proxy::{Fault, Matcher, Reply, Request, Verb};
use kube_gc_testkit::{Cluster, Collector, ControlPlane, Crd, Ns, Obj, Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    nothing_alive_is_deleted_after_the_store_was_restored_from_a_backup,
    nothing_is_written_to_a_restored_store_before_its_version_is_known,
}

/// Discovery runs on demand only.
const NO_REGULAR_LOOK: &str = "[discovery]\ninterval = \"1h\"\n";
/// More versions than the API server itself writes when it starts.
const VERSIONS: usize = 400;

/// The content of the backup.
struct Family {
    background: Obj,
    foreground: Obj,
    orphaning: Obj,
    solid: Obj,
    widget: Obj,
    sole: Vec<Obj>,
    orphaned: Obj,
    shared: Obj,
    of_widget: Obj,
    free: Obj,
    garbage: Obj,
}

impl Family {
    async fn make(ns: &Ns, widgets: &Crd) -> Result<Self> {
        let background = ns.configmap("background").create().await?;
        let foreground = ns.configmap("foreground").create().await?;
        let orphaning = ns.configmap("orphaning").create().await?;
        let solid = ns.configmap("solid").create().await?;
        let widget = ns.object(widgets.resource(), "widget").create().await?;
        let child = ns.secret("child").owned_by(&background).create().await?;
        let grandchild = ns.pod("grandchild").owned_by(&child).blocking().create().await?;
        let blocking = ns.secret("blocking").owned_by(&foreground).blocking().create().await?;
        Ok(Self {
            sole: vec![child, grandchild, blocking],
            orphaned: ns.secret("orphaned").owned_by(&orphaning).create().await?,
            shared: ns.secret("shared").owned_by(&background).owned_by(&solid).create().await?,
            of_widget: ns.secret("of-widget").owned_by(&widget).create().await?,
            free: ns.secret("free").create().await?,
            garbage: ns.secret("garbage").owner_reference(never()).create().await?,
            background,
            foreground,
            orphaning,
            solid,
            widget,
        })
    }

    /// Changes after the backup, which the restore undoes.
    async fn end(&self, cluster: &Cluster, ns: &Ns, widgets: &Crd, collector: &Collector) -> Result<()> {
        cluster.delete(&self.background, Policy::Background).await?;
        cluster.delete(&self.foreground, Policy::Foreground).await?;
        cluster.delete(&self.orphaning, Policy::Orphan).await?;
        let adopting = ns.configmap("adopting").create().await?;
        cluster.set_owner_references(&self.free, &[adopting.reference()]).await?;
        cluster.settled(collector).await?;
        cluster.delete(&adopting, Policy::Background).await?;
        widgets.remove().await?;
        cluster.settled(collector).await?;

        cluster.assert_gone(self.sole.iter().chain([&self.of_widget, &self.free, &self.garbage])).await?;
        cluster.assert_gone([&self.background, &self.foreground, &self.orphaning]).await?;
        lives_with(cluster, &self.orphaned, &[]).await?;
        lives_with(cluster, &self.shared, &[&self.solid]).await
    }

    /// Checks that everything is as in the backup.
    async fn is_back(&self, cluster: &Cluster) -> Result<()> {
        let owners = [&self.background, &self.foreground, &self.orphaning, &self.solid, &self.widget];
        let owned = [&self.orphaned, &self.shared, &self.of_widget, &self.free];
        as_created(cluster, self.sole.iter().chain(owners).chain(owned)).await
    }

    /// Repeats the deletions, in the background. Nothing that was remembered from the first time,
    /// whether orphaned or absent, counts any more.
    async fn end_again(&self, cluster: &Cluster, collector: &Collector) -> Result<()> {
        for owner in [&self.background, &self.orphaning, &self.widget] {
            cluster.delete(owner, Policy::Background).await?;
        }
        cluster.delete(&self.foreground, Policy::Foreground).await?;
        cluster.settled(collector).await?;
        let gone = self.sole.iter().chain([&self.of_widget, &self.orphaned, &self.foreground]);
        cluster.assert_gone(gone).await?;
        cluster.assert_kept([&self.free]).await?;
        lives_with(cluster, &self.shared, &[&self.solid]).await
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
    let family = Family::make(&ns, &widgets).await?;
    plane.back_up().await?;

    let collector = Collector::start(&plane, Options::config(NO_REGULAR_LOOK)).await?;
    collector.ready().await?;
    cluster.settled(&collector).await?;
    family.end(&cluster, &ns, &widgets, &collector).await?;
    let filler = create_all((0..VERSIONS).map(|n| ns.configmap(format!("filler-{n}")))).await?;
    cluster.settled(&collector).await?;
    ensure!(collector.metric("kube_gc_store_restored_total").await? == 0.0, "nothing was restored yet");

    plane.restore().await?;
    // A client that knows no version from before the restore.
    let cluster = Cluster::new(plane.client().await?);
    collector.log_line("data was restored from a backup; kube-gc rebuilds the graph").await?;
    family.is_back(&cluster).await?;
    cluster.gone(&family.garbage).await?;
    cluster.settled(&collector).await?;
    family.is_back(&cluster).await?;
    cluster.assert_gone([&filler[0]]).await?;
    let times = collector.metric("kube_gc_store_restored_total").await?;
    ensure!(times == 1.0, "noticed {times} times");
    family.end_again(&cluster, &collector).await?;
    collector.stop().await
}

/// Failures are tried again soon, so that a write is the first to be tried.
const SOON: &str = "[retry]\nmax = \"500ms\"\n[discovery]\ninterval = \"1h\"\n";

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

    let collector = stage.collector_with(Options::config(SOON)).await?;
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
    // A writer checks the store each time it tries. A monitor checks less often.
    first.hit(first.hits() + 5).await?;
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
