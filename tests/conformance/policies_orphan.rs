//! Orphaning, late dependents, and changes of the policy.

use anyhow::{Context as _, Result, ensure};

use crate::conformance::stage::{
    Breakable, HOLD, Scene, Stage, list_configmaps, lives_with, play, terminating_with, untouched,
};
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Cluster, Collector, Ns, Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    orphaning_releases_the_dependents_and_the_owner_is_deleted,
    a_type_that_cannot_be_listed_holds_orphaning_only_for_a_while,
    the_later_policy_of_two_deletions_applies,
}

/// Neither start-up nor orphaning waits long for a type that cannot be listed.
const HASTY: &str = "[startup]\nsync_timeout = \"1s\"\n[discovery]\norphan_wait = \"2s\"\n\
                     [watch]\nmin_backoff = \"50ms\"\nmax_backoff = \"200ms\"\n";

/// Owners with 10 and 100 dependents, and their other dependents.
struct Orphans {
    owners: Vec<Obj>,
    dependents: Vec<Obj>,
    shared: Obj,
    keeper: Obj,
    grandchild: Obj,
    held: Obj,
    of_held: Obj,
}

impl Scene for Orphans {
    const STEPS: usize = 2;

    async fn plant(cluster: &Cluster) -> Result<Self> {
        let ns = cluster.namespace().await?;
        let (mut owners, mut dependents) = (Vec::new(), Vec::new());
        for count in [10, 100] {
            let owner = ns.configmap(format!("of-{count}")).create().await?;
            let mut family = create_all((0..count).map(|number| {
                let name = format!("of-{count}-{number}");
                let builder = match number % 3 {
                    0 => ns.configmap(name),
                    1 => ns.secret(name),
                    _ => ns.pod(name),
                };
                let builder = builder.owned_by(&owner);
                if number % 2 == 0 { builder.blocking() } else { builder }
            }))
            .await?;
            owners.push(owner);
            dependents.append(&mut family);
        }
        let keeper = ns.configmap("keeper").create().await?;
        let shared = ns.secret("shared").owned_by(&keeper).blocking().owned_by(&owners[0]).create().await?;
        let grandchild = ns.secret("grandchild").owned_by(&dependents[0]).create().await?;
        let held = ns.secret("held").finalizer(HOLD).create().await?;
        let of_held = ns.secret("of-held").owned_by(&held).create().await?;
        Ok(Self { owners, dependents, shared, keeper, grandchild, held, of_held })
    }

    async fn step(&self, cluster: &Cluster, step: usize) -> Result<()> {
        if step == 1 {
            return cluster.set_finalizers(&self.held, &[]).await.map(drop);
        }
        cluster.delete_all(&self.owners, Policy::Orphan).await?;
        cluster.delete(&self.held, Policy::Orphan).await
    }

    async fn holds(&self, cluster: &Cluster, step: usize) -> Result<()> {
        cluster.assert_gone(&self.owners).await?;
        for dependent in self.dependents.iter().chain([&self.of_held]) {
            lives_with(cluster, dependent, &[]).await?;
        }
        lives_with(cluster, &self.shared, &[&self.keeper]).await?;
        untouched(cluster, [&self.keeper, &self.grandchild]).await?;
        match step {
            0 => terminating_with(cluster, &self.held, &[HOLD]).await,
            _ => cluster.assert_gone([&self.held]).await,
        }
    }
}

/// 10 and 100 dependents lose the reference and live. The owner is removed, or keeps
/// nothing but its own finalizer (rules 1.8 and 5.1).
async fn orphaning_releases_the_dependents_and_the_owner_is_deleted() -> Result<()> {
    play::<Orphans>().await
}

/// The number of ConfigMaps in a namespace. Fails unless all exist without owners.
pub async fn released(cluster: &Cluster, ns: &Ns) -> Result<usize> {
    let all = list_configmaps(cluster, ns).await?;
    for object in &all {
        ensure!(!object.is_terminating() && object.owner_uids().is_empty(), "not released: {}", object.raw);
    }
    Ok(all.len())
}

/// The number of ConfigMaps in a namespace that have an owner.
pub async fn unreleased(cluster: &Cluster, ns: &Ns) -> Result<usize> {
    let all = list_configmaps(cluster, ns).await?;
    Ok(all.iter().filter(|object| !object.owner_uids().is_empty()).count())
}

/// A type that cannot be listed does not hold up orphaning for ever, whether it is broken from the
/// start or breaks later (rules 5.8, 5.14 and 5.16). Its object, which appears after its owner is
/// gone, loses the reference and lives.
async fn a_type_that_cannot_be_listed_holds_orphaning_only_for_a_while() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let widgets = Breakable::create(cluster, "widgets.orphaning.example.com").await?;
    let any = ns.object(widgets.resource(), "any").create().await?;
    let collector = stage.collector_with(Options::config(HASTY)).await?;
    orphan_while_broken(cluster, &ns, &collector, &widgets, "sound-before").await?;
    collector.stop().await?;

    // Broken before the collector starts.
    widgets.break_it().await?;
    let collector = stage.collector_with(Options::config(HASTY)).await?;
    orphan_while_broken(cluster, &ns, &collector, &widgets, "broken-before").await?;
    lives_with(cluster, &any, &[]).await?;
    widgets.remove().await?;
    collector.stop().await
}

async fn orphan_while_broken(
    cluster: &Cluster,
    ns: &Ns,
    collector: &Collector,
    widgets: &Breakable,
    name: &str,
) -> Result<()> {
    let owner = ns.configmap(name).create().await?;
    let listed = ns.secret(name).owned_by(&owner).create().await?;
    widgets.break_it().await?;
    // Only now, because no watch shows it any more. Creating it needs no conversion.
    poll("the collector to notice that widgets cannot be listed", async || {
        let monitors = collector.monitors().await?;
        let widgets = monitors.iter().find(|monitor| monitor["group"] == widgets.resource().group.as_str());
        Ok(widgets.is_some_and(|widgets| widgets["synced"] == false && widgets["last_error"].is_string()))
    })
    .await?;
    let hidden = ns.object(widgets.resource(), name).owned_by(&owner).create().await?;
    cluster.forget(widgets.resource());
    cluster.delete(&owner, Policy::Orphan).await?;
    cluster.gone(&owner).await?;
    lives_with(cluster, &listed, &[]).await?;

    widgets.mend().await?;
    poll("the hidden dependent to lose its owner", async || {
        Ok(cluster.fresh(&hidden).await?.owner_uids().is_empty())
    })
    .await?;
    cluster.settled(collector).await?;
    lives_with(cluster, &hidden, &[]).await
}

/// Changes of the policy with a certain outcome, because no collector acts in between (rule 1.9).
async fn the_later_policy_of_two_deletions_applies() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let mut cases = Vec::new();
    for (first, second) in [(Policy::Foreground, Policy::Orphan), (Policy::Orphan, Policy::Foreground)] {
        let name = format!("{second:?}").to_lowercase();
        let owner = ns.configmap(&name).create().await?;
        let dependent = ns.secret(&name).owned_by(&owner).blocking().create().await?;
        cluster.delete(&owner, first).await?;
        cluster.delete(&owner, second).await?;
        cases.push((owner, dependent, second));
    }
    let collector = stage.collector().await?;
    cluster.settled(&collector).await?;
    for (owner, dependent, policy) in &cases {
        cluster.assert_gone([owner]).await?;
        match policy {
            Policy::Orphan => lives_with(cluster, dependent, &[]).await,
            _ => cluster.assert_gone([dependent]).await,
        }
        .with_context(|| format!("finally {policy:?}"))?;
    }
    collector.stop().await
}
