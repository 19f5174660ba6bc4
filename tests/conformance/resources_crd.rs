//! Types that are removed with all their objects.

use anyhow::{Result, ensure};

use crate::conformance::outcome::{Order, Outcome, Rest, reported_as_failing, uids};
use crate::conformance::stage::{Stage, seen};
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Cluster, Collector, Crd, Ns, Obj, Scope};

kube_gc_testkit::scenarios! {
    dependents_of_a_removed_type_are_deleted_with_its_objects,
    dependents_of_a_type_removed_while_nobody_watched_are_kept_until_it_is_back,
}

/// The number of objects of a removed type.
const OBJECTS: usize = 20;

/// Objects of a type, and their dependents.
struct Family {
    objects: Vec<Obj>,
    /// Their dependents, and the dependents of these.
    sole: Vec<Obj>,
    /// Dependents that have another owner, too.
    shared: Vec<Obj>,
    other: Obj,
}

impl Family {
    async fn make(cluster: &Cluster, ns: &Ns, widgets: &Crd, gadgets: &Crd) -> Result<Self> {
        let run = cluster.seen().len();
        let other = ns.configmap(format!("other-{run}")).create().await?;
        let objects =
            create_all((0..OBJECTS).map(|n| ns.object(widgets.resource(), format!("w-{n}")))).await?;
        let of = |kind: &str, owner: &Obj| format!("{kind}-of-{}", owner.name);
        let first = create_all(objects.iter().flat_map(|owner| {
            [
                ns.configmap(of("configmap", owner)).owned_by(owner).blocking(),
                ns.object(gadgets.resource(), of("gadget", owner)).owned_by(owner),
                ns.object(widgets.resource(), of("widget", owner)).owned_by(owner),
            ]
        }))
        .await?;
        let second = create_all(first.iter().map(|owner| {
            ns.secret(format!("secret-of-{}-{}", owner.resource.plural, owner.name)).owned_by(owner)
        }))
        .await?;
        let shared = create_all(
            objects
                .iter()
                .map(|owner| ns.secret(of("shared", owner)).owned_by(owner).blocking().owned_by(&other)),
        )
        .await?;
        Ok(Self { objects, sole: first.into_iter().chain(second).collect(), shared, other })
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            gone: self.objects.iter().chain(&self.sole).cloned().collect(),
            kept: self.shared.iter().map(|object| (object.clone(), uids([&self.other]))).collect(),
            untouched: vec![self.other.clone()],
            ..Outcome::default()
        }
    }
}

/// Removes a type, and returns when the collector has seen the deletion of all objects. There can
/// be no marker of the type.
async fn remove(widgets: &Crd, collector: &Collector) -> Result<()> {
    widgets.remove().await?;
    poll("the monitor of the type to end", async || {
        Ok(collector.monitors().await?.iter().all(|monitor| monitor["resource"] != "widgets"))
    })
    .await
}

/// When a CRD is deleted, its objects and their dependents are deleted (rule 2.10). The
/// same happens after the CRD was created again.
async fn dependents_of_a_removed_type_are_deleted_with_its_objects() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    for order in Order::BOTH {
        let early = stage.early(order, "").await?;
        let ns = cluster.namespace().await?;
        let gadgets = cluster.crd("gadgets.example.com", Scope::Namespaced, &["v1"]).await?;
        let widgets = cluster.crd("widgets.example.com", Scope::Namespaced, &["v1"]).await?;
        let family = Family::make(cluster, &ns, &widgets, &gadgets).await?;
        let collector = stage.late(early, "").await?;
        match order {
            Order::ObjectsFirst => cluster.settled(&collector).await?,
            // In the middle of its work, but after it has seen all objects, because the deletion of
            // an unseen object proves nothing. An object that was created after a list shows that
            // the watch is open, without which no deletion is seen.
            Order::CollectorFirst => {
                seen(cluster, &collector, widgets.resource()).await?;
                ns.object(widgets.resource(), "watched").create().await?;
                seen(cluster, &collector, widgets.resource()).await?;
            }
        }
        remove(&widgets, &collector).await?;
        cluster.settled(&collector).await?;
        family.outcome().check(cluster).await?;

        for _ in 0..2 {
            let ns = cluster.namespace().await?;
            let widgets = cluster.crd("widgets.example.com", Scope::Namespaced, &["v1"]).await?;
            let family = Family::make(cluster, &ns, &widgets, &gadgets).await?;
            cluster.settled(&collector).await?;
            cluster.assert_kept(family.sole.iter().chain(&family.shared).chain(&family.objects)).await?;
            remove(&widgets, &collector).await?;
            cluster.settled(&collector).await?;
            family.outcome().check(cluster).await?;
        }
        let monitors = collector.monitors().await?;
        ensure!(monitors.iter().all(|monitor| monitor["resource"] != "widgets"), "{monitors:?}");
        collector.stop().await?;
        stage.clear().await?;
    }
    Ok(())
}

/// A type that was removed while no collector ran proves nothing. Its dependents are kept
/// and reported, and deleted when the type is served again without its objects
/// (rule 2.11).
async fn dependents_of_a_type_removed_while_nobody_watched_are_kept_until_it_is_back() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let widgets = cluster.crd("widgets.example.com", Scope::Namespaced, &["v1"]).await?;
    let owner = ns.object(widgets.resource(), "owner").create().await?;
    let other = ns.configmap("other").create().await?;
    let sole = ns.secret("sole").owned_by(&owner).blocking().create().await?;
    let second = ns.configmap("second").owned_by(&sole).create().await?;
    let shared = ns.secret("shared").owned_by(&owner).owned_by(&other).create().await?;
    widgets.remove().await?;

    let collector = stage.collector().await?;
    stage.settled(&collector, Rest::Parked).await?;
    let untouched = [&other, &sole, &second, &shared].into_iter().cloned().collect();
    Outcome { untouched, ..Outcome::default() }.check(cluster).await?;
    reported_as_failing(&collector, &[&sole], "example.com").await?;

    cluster.crd("widgets.example.com", Scope::Namespaced, &["v1"]).await?;
    // Waits for discovery, too. Until then, the collector is not idle.
    poll("the garbage to go", async || Ok(cluster.assert_gone([&sole, &second]).await.is_ok())).await?;
    cluster.settled(&collector).await?;
    Outcome {
        gone: vec![owner, sole, second],
        kept: vec![(shared, uids([&other]))],
        untouched: vec![other],
        ..Outcome::default()
    }
    .check(cluster)
    .await?;
    collector.stop().await
}
