//! The leader fails while it empties a namespace (rules 8.11 and 11.9).

use anyhow::{Result, ensure};

use crate::leader::election::{Election, Write, judge};
use crate::leader::replica::{Replica, Stage};
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Fault, Matcher, Reply, Verb};
use kube_gc_testkit::{Options, Policy};

kube_gc_testkit::scenarios! {
    a_standby_finishes_the_namespace_that_a_killed_leader_had_begun,
}

/// The objects of each type.
const EACH: usize = 10;

async fn finishing(stage: &Stage, name: &str) -> Result<Replica> {
    let options = Options::default().arg("--finish-namespaces");
    let replica = Replica::start_with(stage.plane, name, stage.ns.name(), options).await?;
    replica.collector.ready().await?;
    Ok(replica)
}

async fn a_standby_finishes_the_namespace_that_a_killed_leader_had_begun() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let election = Election::watch(&stage);
    let one = finishing(&stage, "one").await?;
    one.leads().await?;
    let other = finishing(&stage, "other").await?;
    other.stands_by("one").await?;
    let kept = stage.ns.configmap("kept").create().await?;
    let ns = cluster.namespace().await?;
    let configmaps = create_all((0..EACH).map(|number| ns.configmap(format!("a-{number}")))).await?;
    let secrets = create_all((0..EACH).map(|number| ns.secret(format!("a-{number}")))).await?;

    // The leader has deleted one type, and is about to delete the other.
    let mut hold = one.proxy.hold(Matcher::verb(Verb::Delete).of("secrets").within(ns.name()));
    cluster.delete(ns.as_object(), Policy::Background).await?;
    let held = hold.next().await?;
    let left = |of: &'static str| {
        let resource = if of == "secrets" { &secrets[0].resource } else { &configmaps[0].resource };
        async { anyhow::Ok(cluster.list(resource, Some(ns.name())).await?.len()) }
    };
    poll("the first type to be deleted", async || Ok(left("configmaps").await? == 0)).await?;
    ensure!(left("secrets").await? == EACH, "there is nothing left to do");
    ensure!(other.writes()?.is_empty(), "a standby has written: {:?}", other.writes()?);
    let writes = one.writes()?;
    one.collector.kill()?;
    held.end(Fault::Instead(Reply::broken()));

    cluster.gone(ns.as_object()).await?;
    cluster.assert_gone(configmaps.iter().chain(&secrets)).await?;
    cluster.assert_kept([&kept]).await?;
    let path = format!("/api/v1/namespaces/{}/finalize", ns.name());
    let finalizes = |writes: &[Write]| writes.iter().filter(|write| write.what.contains(&path)).count();
    ensure!(finalizes(&writes) == 0, "it was finalized with objects in it: {writes:?}");
    ensure!(finalizes(&other.writes()?) == 1, "{:?}", other.writes()?);
    election.went_to(&["one", "other"]).await?;
    judge(&[writes, other.writes()?], &election.end().await?)?;
    other.collector.stop().await
}
