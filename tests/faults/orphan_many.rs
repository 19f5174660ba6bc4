//! Dependents that appear late during the orphaning of an owner, which may have many others.

use anyhow::{Result, ensure};

use crate::faults::stage::{Stage, requests};
use kube_gc_testkit::cluster::create_all;
use kube_gc_testkit::proxy::{Matcher, Verb};
use kube_gc_testkit::{Collector, Obj, Policy, Scope};

kube_gc_testkit::scenarios! {
    a_late_dependent_is_released_before_its_owner_goes,
    a_dependent_among_many_that_names_an_unserved_version_is_released,
}

/// More than one page of dependents.
const KNOWN: usize = 200;

/// An owner before its orphaning, and one more dependent whose event is late.
struct Late {
    stage: Stage,
    collector: Collector,
    owner: Obj,
    known: Vec<Obj>,
}

impl Late {
    async fn set(scope: Scope, known: usize) -> Result<Self> {
        let stage = Stage::set().await?;
        let ns = &stage.ns;
        let collector = stage.collector().await?;
        let owner = match scope {
            Scope::Namespaced => ns.secret("owner").create().await?,
            Scope::Cluster => stage.cluster.node(format!("owner-{}", ns.name())).create().await?,
        };
        let known = (0..known).map(|n| ns.configmap(format!("known-{n}")).owned_by(&owner));
        let known = create_all(known).await?;
        stage.cluster.settled(&collector).await?;
        Ok(Self { stage, collector, owner, known })
    }

    /// The number of rounds.
    fn rounds(&self) -> usize {
        requests(self.stage.proxy.all(&self.stage.here(Verb::List).of("secrets"))).len()
    }

    async fn assert_released(&self, late: &Obj) -> Result<()> {
        for dependent in self.known.iter().chain([late]) {
            self.stage.assert_owners(dependent, &[]).await?;
        }
        ensure!(self.stage.of(Verb::Delete, late).is_empty());
        self.collector.log_line(r#""late_dependents":1"#).await?;
        Ok(())
    }
}

/// The dependent was created before the DELETE was sent, and its watch stands still (rules 5.5, 5.6, 5.10
/// and 10.3). Fails without the confirming lists: the dependent is deleted when its event arrives.
async fn a_late_dependent_is_released_before_its_owner_goes() -> Result<()> {
    for (scope, known) in [(Scope::Namespaced, 1), (Scope::Cluster, 1), (Scope::Namespaced, KNOWN)] {
        let scene = Late::set(scope, known).await?;
        let stage = &scene.stage;
        // Dependents of an owner in no namespace are in any.
        let other = stage.cluster.namespace().await?;
        let ns = if scope == Scope::Cluster { &other } else { &stage.ns };
        let events = stage.proxy.hold_events(Matcher::resource("configmaps").within(ns.name()).named("late"));
        let late = ns.configmap("late").owned_by(&scene.owner).create().await?;
        events.caught().await?;
        stage.cluster.delete(&scene.owner, Policy::Orphan).await?;
        stage.gone(&scene.owner).await?;

        stage.assert_owners(&late, &[]).await?;
        events.release();
        stage.cluster.settled(&scene.collector).await?;
        scene.assert_released(&late).await?;
        ensure!(known == 1 || scene.rounds() == 1, "{} rounds", scene.rounds());
        scene.collector.stop().await?;
    }
    Ok(())
}

/// The round sees a reference through a version that is not served, which the graph does
/// not resolve to the owner (rule 5.10). Fails if only dependents that the graph knows are released:
/// the owner would be removed before its last reference.
async fn a_dependent_among_many_that_names_an_unserved_version_is_released() -> Result<()> {
    let scene = Late::set(Scope::Namespaced, KNOWN).await?;
    let (stage, ns) = (&scene.stage, &scene.stage.ns);
    let mut reference = scene.owner.reference();
    reference["apiVersion"] = "v9".into();
    let late = ns.configmap("late").owner_reference(reference).create().await?;
    stage.seen(&scene.collector, &late).await?;
    stage.cluster.delete(&scene.owner, Policy::Orphan).await?;
    stage.gone(&scene.owner).await?;

    scene.assert_released(&late).await?;
    stage.cluster.settled(&scene.collector).await?;
    scene.collector.stop().await
}
