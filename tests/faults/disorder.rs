//! Watches that show events of different types in any order (rule 3.21).

use anyhow::{Context, Result};

use crate::faults::stage::{Stage, never};
use kube_gc_testkit::cluster::create_all;
use kube_gc_testkit::proxy::Matcher;
use kube_gc_testkit::{Collector, Ns, Obj, Policy};

kube_gc_testkit::scenarios! {
    events_of_different_types_may_come_in_any_order,
}

/// The types of a family.
const TYPES: [&str; 3] = ["configmaps", "secrets", "pods"];

/// Owners and dependents of three types, in each direction between them.
struct Family {
    background: Obj,
    foreground: Obj,
    orphaning: Obj,
    solid: Obj,
    sole: Vec<Obj>,
    shared: Vec<Obj>,
    released: Vec<Obj>,
    freed: Obj,
}

impl Family {
    /// The prefix of the names.
    async fn make(ns: &Ns, name: &str) -> Result<Self> {
        let of = |kind: &str| format!("{name}-{kind}");
        let background = ns.configmap(of("background")).create().await?;
        let foreground = ns.secret(of("foreground")).create().await?;
        let orphaning = ns.pod(of("orphaning")).create().await?;
        let solid = ns.secret(of("solid")).create().await?;
        let all = |kind: &str| [ns.configmap(of(kind)), ns.secret(of(kind)), ns.pod(of(kind))];
        let mut sole = create_all(all("sole").map(|one| one.owned_by(&background))).await?;
        let below = sole.iter().rev().zip(all("below")).map(|(owner, one)| one.owned_by(owner).blocking());
        sole.extend(create_all(below.collect::<Vec<_>>()).await?);
        sole.extend(create_all(all("blocking").map(|one| one.owned_by(&foreground).blocking())).await?);
        let shared = create_all(all("shared").map(|one| one.owned_by(&background).owned_by(&solid))).await?;
        let released = create_all(all("released").map(|one| one.owned_by(&orphaning).blocking())).await?;
        let freed = ns.pod(of("freed")).owned_by(&background).create().await?;
        Ok(Self { background, foreground, orphaning, solid, sole, shared, released, freed })
    }

    /// All changes of the family. Returns the last one of each type.
    async fn play(&mut self, stage: &Stage) -> Result<[Obj; 3]> {
        let (cluster, ns) = (&stage.cluster, &stage.ns);
        self.freed = cluster.set_owner_references(&self.freed, &[self.solid.reference()]).await?;
        cluster.delete(&self.background, Policy::Background).await?;
        cluster.delete(&self.foreground, Policy::Foreground).await?;
        cluster.delete(&self.orphaning, Policy::Orphan).await?;
        // Another object with the name of the deleted one.
        let again = ns.configmap(&self.background.name).owned_by(&self.solid).create().await?;
        let garbage =
            ns.pod(format!("{}-garbage", self.solid.name)).owner_reference(never()).create().await?;
        self.sole.push(garbage.clone());
        let solid = cluster.set_label(&self.solid, "changed", "yes").await?;
        self.shared.push(again.clone());
        Ok([again, solid, garbage])
    }

    async fn is_over(&self, stage: &Stage, collector: &Collector) -> Result<()> {
        let cluster = &stage.cluster;
        cluster.settled(collector).await?;
        cluster.assert_gone([&self.background, &self.foreground, &self.orphaning]).await?;
        cluster.assert_gone(&self.sole).await?;
        for object in self.shared.iter().chain([&self.freed]) {
            stage.assert_owners(object, &[&self.solid]).await?;
        }
        for object in &self.released {
            stage.assert_owners(object, &[]).await?;
        }
        cluster.delete(&self.solid, Policy::Foreground).await?;
        cluster.settled(collector).await?;
        cluster.assert_gone(self.shared.iter().chain([&self.freed, &self.solid])).await?;
        cluster.assert_kept(&self.released).await
    }
}

/// Fails if anything depends on which of several types' events come first.
async fn events_of_different_types_may_come_in_any_order() -> Result<()> {
    let stage = Stage::set().await?;
    let collector = stage.collector().await?;
    // Each non-empty set of late types.
    for late in 1_usize..1 << TYPES.len() {
        let is_late = |number: usize| late >> number & 1 == 1;
        let mut family = Family::make(&stage.ns, &format!("late-{late}")).await?;
        stage.cluster.settled(&collector).await?;
        let mut held = Vec::new();
        for (number, resource) in TYPES.iter().enumerate() {
            if is_late(number) {
                held.push(stage.proxy.hold_events(Matcher::resource(resource).within(stage.ns.name())));
            }
        }
        let last = family.play(&stage).await?;
        for hold in &held {
            hold.caught().await?;
        }
        // Events that are not late have been seen, and perhaps handled.
        for (number, object) in last.iter().enumerate() {
            if !is_late(number) {
                stage.seen(&collector, object).await?;
            }
        }
        // The last type that was held is the first one to continue.
        while held.pop().is_some() {}
        let what = format!("late: {:?}", TYPES.iter().enumerate().filter(|(number, _)| is_late(*number)));
        family.is_over(&stage, &collector).await.context(what)?;
    }
    collector.stop().await
}
