//! Foreground deletion: which dependents the owner waits for, and until when.

use anyhow::{Context as _, Result, ensure};

use crate::conformance::stage::{
    FOREGROUND, HOLD, Scene, gone_since, lives_with, play, terminating_with, untouched,
};
use kube_gc_testkit::{Cluster, Ns, Obj, Policy};

kube_gc_testkit::scenarios! {
    a_blocking_dependent_keeps_its_owner_until_it_is_gone_or_no_longer_blocks,
    a_dependent_that_does_not_block_is_not_waited_for,
    a_dependent_with_a_solid_owner_loses_the_reference_to_the_waiting_one,
    foreground_deletion_goes_down_a_chain_and_completes_from_the_bottom,
    an_object_can_be_deleted_in_foreground_twice,
}

/// Sends a foreground deletion and returns the finalizers in its answer, which the API server set
/// before the collector could act.
async fn delete_in_foreground(cluster: &Cluster, object: &Obj) -> Result<Vec<String>> {
    let options = serde_json::json!({ "propagationPolicy": "Foreground" });
    let answer = cluster.send("DELETE", &object.path(), None, Some(&options)).await?;
    let finalizers = &answer["metadata"]["finalizers"];
    Ok(serde_json::from_value(finalizers.clone()).unwrap_or_default())
}

/// How a dependent that blocks its owner can release it.
#[derive(Clone, Copy, Debug)]
enum WayOut {
    Goes,
    DropsTheReference,
    StopsBlocking,
}

/// An owner, the dependent that blocks it, and one that does not.
struct Held {
    owner: Obj,
    holds: Obj,
    goes_at_once: Obj,
    way_out: WayOut,
}

/// One blocked owner for each kind of release.
struct WaysOut(Vec<Held>);

impl Scene for WaysOut {
    const STEPS: usize = 2;

    async fn plant(cluster: &Cluster) -> Result<Self> {
        let ns = cluster.namespace().await?;
        let mut all = Vec::new();
        for way_out in [WayOut::Goes, WayOut::DropsTheReference, WayOut::StopsBlocking] {
            let name = format!("{way_out:?}").to_lowercase();
            let owner = ns.configmap(&name).create().await?;
            let holds = ns.secret(&name).owned_by(&owner).blocking().finalizer(HOLD).create().await?;
            let goes_at_once = ns.pod(&name).owned_by(&owner).blocking().create().await?;
            all.push(Held { owner, holds, goes_at_once, way_out });
        }
        Ok(Self(all))
    }

    async fn step(&self, cluster: &Cluster, step: usize) -> Result<()> {
        for Held { owner, holds, way_out, .. } in &self.0 {
            if step == 0 {
                cluster.delete(owner, Policy::Foreground).await?;
                continue;
            }
            match way_out {
                WayOut::Goes => cluster.set_finalizers(holds, &[]).await?,
                WayOut::DropsTheReference => cluster.set_owner_references(holds, &[]).await?,
                WayOut::StopsBlocking => crate::conformance::stage::own(cluster, owner, holds, false).await?,
            };
        }
        Ok(())
    }

    async fn holds(&self, cluster: &Cluster, step: usize) -> Result<()> {
        for Held { owner, holds, goes_at_once, way_out } in &self.0 {
            let check = async {
                cluster.assert_gone([goes_at_once]).await?;
                if step == 0 {
                    terminating_with(cluster, owner, &[FOREGROUND]).await?;
                    return terminating_with(cluster, holds, &[HOLD]).await;
                }
                cluster.assert_gone([owner]).await?;
                match way_out {
                    WayOut::Goes => cluster.assert_gone([holds]).await,
                    WayOut::DropsTheReference | WayOut::StopsBlocking => {
                        terminating_with(cluster, holds, &[HOLD]).await
                    }
                }
            };
            check.await.with_context(|| format!("{way_out:?}"))?;
        }
        Ok(())
    }
}

/// The owner stays, with a `deletionTimestamp`, as long as a blocking dependent with
/// somebody else's finalizer holds it. It is released when the dependent is removed,
/// drops the reference, or stops blocking (rules 1.7 and 10.4).
async fn a_blocking_dependent_keeps_its_owner_until_it_is_gone_or_no_longer_blocks() -> Result<()> {
    play::<WaysOut>().await
}

/// Dependents that block no owner, with a finalizer of another client.
struct NotBlocking {
    owner: Obj,
    dependents: Vec<Obj>,
}

impl Scene for NotBlocking {
    const STEPS: usize = 2;

    async fn plant(cluster: &Cluster) -> Result<Self> {
        let ns = cluster.namespace().await?;
        let owner = ns.configmap("owner").create().await?;
        let dependents = vec![
            ns.secret("false").owned_by(&owner).not_blocking().finalizer(HOLD).create().await?,
            ns.secret("unset").owned_by(&owner).finalizer(HOLD).create().await?,
        ];
        Ok(Self { owner, dependents })
    }

    async fn step(&self, cluster: &Cluster, step: usize) -> Result<()> {
        if step == 0 {
            return cluster.delete(&self.owner, Policy::Foreground).await;
        }
        for dependent in &self.dependents {
            cluster.set_finalizers(dependent, &[]).await?;
        }
        Ok(())
    }

    async fn holds(&self, cluster: &Cluster, step: usize) -> Result<()> {
        cluster.assert_gone([&self.owner]).await?;
        if step == 1 {
            return cluster.assert_gone(&self.dependents).await;
        }
        for dependent in &self.dependents {
            terminating_with(cluster, dependent, &[HOLD]).await?;
        }
        Ok(())
    }
}

/// The owner does not wait for dependents whose `blockOwnerDeletion` is false or unset;
/// they stay terminating (rule 4.2).
async fn a_dependent_that_does_not_block_is_not_waited_for() -> Result<()> {
    play::<NotBlocking>().await
}

/// Dependents of an owner in foreground deletion and of a solid one.
struct SolidOwner {
    /// An owner with shared dependents only.
    owner: Obj,
    /// An owner that another finalizer keeps.
    held_owner: Obj,
    holds: Obj,
    keeper: Obj,
    of_owner: Obj,
    of_held_owner: Obj,
}

impl Scene for SolidOwner {
    const STEPS: usize = 2;

    async fn plant(cluster: &Cluster) -> Result<Self> {
        let ns = cluster.namespace().await?;
        let owner = ns.configmap("owner").create().await?;
        let held_owner = ns.configmap("held-owner").create().await?;
        let holds = ns.secret("holds").owned_by(&held_owner).blocking().finalizer(HOLD).create().await?;
        let keeper = ns.secret("keeper").create().await?;
        let of_owner =
            ns.configmap("of-owner").owned_by(&owner).blocking().owned_by(&keeper).create().await?;
        let of_held_owner = ns
            .configmap("of-held-owner")
            .owned_by(&keeper)
            .blocking()
            .owned_by(&held_owner)
            .blocking()
            .create()
            .await?;
        Ok(Self { owner, held_owner, holds, keeper, of_owner, of_held_owner })
    }

    async fn step(&self, cluster: &Cluster, step: usize) -> Result<()> {
        if step == 1 {
            return cluster.set_finalizers(&self.holds, &[]).await.map(drop);
        }
        cluster.delete(&self.owner, Policy::Foreground).await?;
        cluster.delete(&self.held_owner, Policy::Foreground).await
    }

    async fn holds(&self, cluster: &Cluster, step: usize) -> Result<()> {
        cluster.assert_gone([&self.owner]).await?;
        match step {
            0 => terminating_with(cluster, &self.held_owner, &[FOREGROUND]).await?,
            _ => cluster.assert_gone([&self.held_owner, &self.holds]).await?,
        }
        untouched(cluster, [&self.keeper]).await?;
        lives_with(cluster, &self.of_owner, &[&self.keeper]).await?;
        lives_with(cluster, &self.of_held_owner, &[&self.keeper]).await
    }
}

/// A dependent that also has a solid owner loses the waiting reference, lives, and does
/// not block (rule 4.15). The same holds while another dependent blocks the waiting
/// owner.
async fn a_dependent_with_a_solid_owner_loses_the_reference_to_the_waiting_one() -> Result<()> {
    play::<SolidOwner>().await
}

/// A chain of blocking ConfigMaps whose leaf has a finalizer.
struct Chain {
    ns: Ns,
    levels: Vec<Obj>,
}

impl Scene for Chain {
    const STEPS: usize = 2;

    async fn plant(cluster: &Cluster) -> Result<Self> {
        let ns = cluster.namespace().await?;
        let mut levels = vec![ns.configmap("level-0").create().await?];
        for depth in 1..4 {
            let level = ns.configmap(format!("level-{depth}")).owned_by(&levels[depth - 1]).blocking();
            levels.push(if depth == 3 { level.finalizer(HOLD) } else { level }.create().await?);
        }
        Ok(Self { ns, levels })
    }

    async fn step(&self, cluster: &Cluster, step: usize) -> Result<()> {
        match step {
            0 => cluster.delete(&self.levels[0], Policy::Foreground).await,
            _ => cluster.set_finalizers(&self.levels[3], &[]).await.map(drop),
        }
    }

    async fn holds(&self, cluster: &Cluster, step: usize) -> Result<()> {
        if step == 0 {
            for level in &self.levels[..3] {
                terminating_with(cluster, level, &[FOREGROUND]).await?;
            }
            return terminating_with(cluster, &self.levels[3], &[HOLD]).await;
        }
        cluster.assert_gone(&self.levels).await?;
        let leaf = &self.levels[3];
        let levels = self.levels.len();
        let gone = gone_since(cluster, &leaf.resource, &self.ns, &leaf.resource_version, levels).await?;
        ensure!(gone == ["level-3", "level-2", "level-1", "level-0"], "gone in this order: {gone:?}");
        Ok(())
    }
}

/// Each level of a chain is deleted in the foreground, and the leaves are removed first
/// (rules 1.7 and 4.18).
async fn foreground_deletion_goes_down_a_chain_and_completes_from_the_bottom() -> Result<()> {
    play::<Chain>().await
}

/// An owner that a foreign finalizer holds, and what it owns at each time.
struct Twice {
    owner: Obj,
    dependent: Obj,
    ns: Ns,
}

impl Twice {
    async fn later_dependent(&self, cluster: &Cluster) -> Result<Option<Obj>> {
        let resource = &self.dependent.resource;
        let all = cluster.list(resource, Some(self.ns.name())).await?;
        Ok(all.into_iter().find(|object| object.name == "later"))
    }
}

impl Scene for Twice {
    const STEPS: usize = 4;

    async fn plant(cluster: &Cluster) -> Result<Self> {
        let ns = cluster.namespace().await?;
        let owner = ns.configmap("owner").finalizer(HOLD).create().await?;
        let dependent = ns.secret("dependent").owned_by(&owner).blocking().create().await?;
        Ok(Self { owner, dependent, ns })
    }

    async fn step(&self, cluster: &Cluster, step: usize) -> Result<()> {
        match step {
            // An owner that terminates without waiting for anybody is solid.
            1 => self.ns.secret("later").owned_by(&self.owner).blocking().create().await.map(drop),
            3 => cluster.set_finalizers(&self.owner, &[]).await.map(drop),
            _ => {
                let mut finalizers = delete_in_foreground(cluster, &self.owner).await?;
                finalizers.sort();
                ensure!(finalizers == [HOLD, FOREGROUND], "not in foreground: {finalizers:?}");
                Ok(())
            }
        }
    }

    async fn holds(&self, cluster: &Cluster, step: usize) -> Result<()> {
        cluster.assert_gone([&self.dependent]).await?;
        let later = self.later_dependent(cluster).await?;
        ensure!(later.is_some() == (step == 1), "step {step}: {later:?}");
        if step == 3 {
            return cluster.assert_gone([&self.owner]).await;
        }
        terminating_with(cluster, &self.owner, &[HOLD]).await
    }
}

/// Two foreground deletions in a row of an object that another finalizer holds:
/// `foregroundDeletion` is removed each time, and each time the dependents are deleted,
/// including one that was created in between (rule 3.13).
async fn an_object_can_be_deleted_in_foreground_twice() -> Result<()> {
    play::<Twice>().await
}
