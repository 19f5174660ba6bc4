//! Leadership changes hands while the store is restored from a backup.

use anyhow::{Context as _, Result, ensure};

use crate::faults::restore::{Family, VERSIONS};
use crate::leader::replica::Replica;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Fault, Matcher, Reply, Verb};
use kube_gc_testkit::{Cluster, ControlPlane, Obj, Turn};

kube_gc_testkit::scenarios! {
    a_standby_that_takes_over_during_a_restore_deletes_nothing_of_the_backup,
}

/// Waits until the graph of a standby has an object at this version or later.
async fn sees(replica: &Replica, object: &Obj) -> Result<()> {
    replica.collector.sees(&object.resource_key(), &object.resource_version).await
}

async fn answers(cluster: &Cluster) -> bool {
    cluster.send("GET", "/api/v1/namespaces/default", None, None).await.is_ok()
}

/// The standby has seen that the owners are gone, and has queued their dependents. It never led
/// while the store was in the state that it remembers. The restore raises the version, so no
/// version goes back. Fails if the standby acts on its earlier state when it takes over (rule
/// 1.23).
async fn a_standby_that_takes_over_during_a_restore_deletes_nothing_of_the_backup() -> Result<()> {
    let _turn = Turn::take().await?;
    let plane = ControlPlane::start()?;
    let cluster = Cluster::new(plane.client().await?);
    let ns = cluster.namespace().await?;
    let family = Family::make(&ns).await?;
    plane.back_up().await?;
    poll("the API server to answer", async || Ok(answers(&cluster).await)).await?;

    let one = Replica::start(&plane, "one", ns.name()).await?;
    one.collector.ready().await?;
    one.leads().await?;
    let other = Replica::start(&plane, "other", ns.name()).await?;
    other.collector.ready().await?;
    other.stands_by("one").await?;
    let failing =
        one.proxy.always(Matcher::object(Verb::Delete, &family.pending), Fault::Instead(Reply::broken()));
    family.end(&cluster).await?;
    failing.hit(2).await?;
    family.gone(&cluster).await?;
    let filler = create_all((0..VERSIONS).map(|n| ns.configmap(format!("filler-{n}")))).await?;
    sees(&other, &family.pending).await?;
    sees(&other, filler.last().context("there is filler")?).await?;
    ensure!(other.writes()?.is_empty(), "a standby has written: {:?}", other.writes()?);

    let killed = async {
        poll("the API server to go", async || Ok(!answers(&cluster).await)).await?;
        one.collector.kill()
    };
    let (restored, killed) = tokio::join!(plane.restore_raised(), killed);
    restored.and(killed)?;
    other.leads().await?;
    // A client without the earlier watches.
    let cluster = Cluster::new(plane.client().await?);
    cluster.settled(&other.collector).await?;
    family.is_back(&cluster).await?;
    let writes = other.writes()?;
    ensure!(writes.is_empty(), "there is nothing to do: {writes:?}");
    family.end_again(&cluster, &other.collector).await?;
    other.collector.stop().await
}
