//! Background deletion, self-owners, and policies mixed in a chain.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use serde_json::json;

use crate::conformance::stage::{HOLD, ORPHAN, Scene, lives_with, own, play, terminating_with, untouched};
use kube_gc_testkit::cluster::is_status;
use kube_gc_testkit::{Cluster, Obj, Policy};

kube_gc_testkit::scenarios! {
    background_deletion_deletes_dependents_without_other_owners,
    a_ring_of_blocking_objects_is_deleted,
    an_object_that_owns_itself_can_be_deleted_under_each_policy,
    an_orphan_finalizer_in_a_chain_keeps_the_objects_below,
}

/// A root with a chain of five levels, a diamond, a dependent with a second owner, and unrelated
/// objects.
struct Family {
    root: Obj,
    garbage: Vec<Obj>,
    shared: Obj,
    keeper: Obj,
    bystanders: Vec<Obj>,
}

impl Scene for Family {
    async fn plant(cluster: &Cluster) -> Result<Self> {
        let ns = cluster.namespace().await?;
        let root = ns.configmap("root").create().await?;

        let child = ns.secret("depth-1").owned_by(&root).blocking().controlled().create().await?;
        let grandchild = ns.pod("depth-2").owned_by(&child).not_blocking().create().await?;
        let third = ns.of::<ServiceAccount>("depth-3").owned_by(&grandchild).create().await?;
        let fourth = ns.configmap("depth-4").owned_by(&third).create().await?;
        let fifth = ns.secret("depth-5").owned_by(&fourth).blocking().create().await?;

        let left = ns.configmap("left").owned_by(&root).create().await?;
        let right = ns.secret("right").owned_by(&root).create().await?;
        let bottom = ns.of::<Lease>("bottom").owned_by(&left).owned_by(&right).create().await?;

        let keeper = ns.secret("keeper").create().await?;
        let shared = ns
            .configmap("shared")
            .label("untouched", "yes")
            .field("data", json!({ "key": "value" }))
            .owned_by(&root)
            .blocking()
            .owned_by(&keeper)
            .controlled()
            .create()
            .await?;
        let bystanders = vec![
            ns.configmap("ownerless").create().await?,
            ns.pod("ownerless").create().await?,
            ns.secret("kept-by-the-keeper").owned_by(&keeper).create().await?,
            // Its owner stays because another object owns that one.
            ns.secret("kept-by-the-shared").owned_by(&shared).blocking().create().await?,
        ];
        let garbage = vec![child, grandchild, third, fourth, fifth, left, right, bottom];
        Ok(Self { root, garbage, shared, keeper, bystanders })
    }

    async fn step(&self, cluster: &Cluster, _: usize) -> Result<()> {
        cluster.delete(&self.root, Policy::Background).await
    }

    async fn holds(&self, cluster: &Cluster, _: usize) -> Result<()> {
        cluster.assert_gone([&self.root]).await?;
        cluster.assert_gone(&self.garbage).await?;
        lives_with(cluster, &self.shared, &[&self.keeper]).await?;
        let shared = cluster.fresh(&self.shared).await?;
        let kept = shared.owner_references()?.remove(0);
        ensure!(kept.controller == Some(true) && kept.name == "keeper", "changed: {}", shared.raw);
        ensure!(shared.raw["data"] == self.shared.raw["data"], "changed: {}", shared.raw);
        ensure!(shared.raw["metadata"]["labels"] == self.shared.raw["metadata"]["labels"]);
        untouched(cluster, [&self.keeper]).await?;
        untouched(cluster, &self.bystanders).await
    }
}

/// Dependents that have no other owner are deleted, along a chain and through a diamond.
/// A dependent with a second living owner keeps only that reference. An object without
/// owners is untouched (rule 1.6).
async fn background_deletion_deletes_dependents_without_other_owners() -> Result<()> {
    play::<Family>().await
}

/// Three objects, each the owner of the next, and the last one the owner of the first.
type Ring = [Obj; 3];

/// Cycles, and which of their objects are deleted: see [`Rings::step`].
struct Rings {
    in_foreground: Ring,
    all_at_once: Ring,
    in_background: Ring,
    orphaned: Ring,
}

/// Creates a cycle.
async fn ring(cluster: &Cluster) -> Result<Ring> {
    let ns = cluster.namespace().await?;
    let first = ns.configmap("first").create().await?;
    let second = ns.secret("second").owned_by(&first).blocking().create().await?;
    let third = ns.configmap("third").owned_by(&second).blocking().create().await?;
    let first = own(cluster, &third, &first, true).await?;
    Ok([first, second, third])
}

impl Scene for Rings {
    async fn plant(cluster: &Cluster) -> Result<Self> {
        Ok(Self {
            in_foreground: ring(cluster).await?,
            all_at_once: ring(cluster).await?,
            in_background: ring(cluster).await?,
            orphaned: ring(cluster).await?,
        })
    }

    async fn step(&self, cluster: &Cluster, _: usize) -> Result<()> {
        cluster.delete(&self.in_foreground[0], Policy::Foreground).await?;
        // The collector may have deleted it first.
        stream::iter(&self.all_at_once)
            .map(async |object| match cluster.delete(object, Policy::Foreground).await {
                Err(error) if is_status(&error, 404) => Ok(()),
                result => result,
            })
            .buffer_unordered(3)
            .try_collect::<()>()
            .await?;
        cluster.delete(&self.in_background[0], Policy::Background).await?;
        cluster.delete(&self.orphaned[0], Policy::Orphan).await
    }

    async fn holds(&self, cluster: &Cluster, _: usize) -> Result<()> {
        cluster.assert_gone(&self.in_foreground).await.context("one deleted in foreground")?;
        cluster.assert_gone(&self.all_at_once).await.context("all deleted in foreground")?;
        cluster.assert_gone(&self.in_background).await.context("one deleted in background")?;
        let [first, second, third] = &self.orphaned;
        cluster.assert_gone([first]).await?;
        lives_with(cluster, second, &[]).await?;
        lives_with(cluster, third, &[second]).await
    }
}

/// A cycle of three blocking objects stays until one of them, or all of them, are
/// deleted. Then all are deleted and nothing hangs (rules 4.5 and 10.4).
async fn a_ring_of_blocking_objects_is_deleted() -> Result<()> {
    Box::pin(play::<Rings>()).await
}

/// Objects that own themselves, blocking and not, one of each for every policy.
struct SelfOwners(Vec<(Obj, Policy)>);

impl Scene for SelfOwners {
    async fn plant(cluster: &Cluster) -> Result<Self> {
        let ns = cluster.namespace().await?;
        let mut owners = Vec::new();
        for policy in [Policy::Background, Policy::Foreground, Policy::Orphan] {
            for blocking in [false, true] {
                let name = format!("{policy:?}-{blocking}").to_lowercase();
                let object = ns.configmap(name).create().await?;
                owners.push((own(cluster, &object, &object, blocking).await?, policy));
            }
        }
        Ok(Self(owners))
    }

    async fn step(&self, cluster: &Cluster, _: usize) -> Result<()> {
        for (object, policy) in &self.0 {
            cluster.delete(object, *policy).await?;
        }
        Ok(())
    }

    async fn holds(&self, cluster: &Cluster, _: usize) -> Result<()> {
        cluster.assert_gone(self.0.iter().map(|(object, _)| object)).await
    }
}

/// An object that owns itself, blocking or not, stays until it is deleted, and can be
/// deleted under each policy (rule 4.4).
async fn an_object_that_owns_itself_can_be_deleted_under_each_policy() -> Result<()> {
    play::<SelfOwners>().await
}

/// A, which is deleted in the background; B, which A owns and which has the finalizer `orphan`; and
/// C, which B owns.
struct MixedChain {
    a: Obj,
    b: Obj,
    held: Obj,
    /// Owned by B and by another object.
    c: [Obj; 2],
}

impl Scene for MixedChain {
    const STEPS: usize = 2;

    async fn plant(cluster: &Cluster) -> Result<Self> {
        let ns = cluster.namespace().await?;
        let a = ns.configmap("a").create().await?;
        let b = ns.secret("b").owned_by(&a).finalizer(ORPHAN).create().await?;
        let held = ns.secret("held").owned_by(&a).finalizer(ORPHAN).finalizer(HOLD).create().await?;
        let c = [
            ns.configmap("c").owned_by(&b).blocking().create().await?,
            ns.configmap("c-of-the-held").owned_by(&held).create().await?,
        ];
        Ok(Self { a, b, held, c })
    }

    async fn step(&self, cluster: &Cluster, step: usize) -> Result<()> {
        match step {
            0 => cluster.delete(&self.a, Policy::Background).await,
            _ => cluster.set_finalizers(&self.held, &[]).await.map(drop),
        }
    }

    async fn holds(&self, cluster: &Cluster, step: usize) -> Result<()> {
        cluster.assert_gone([&self.a, &self.b]).await?;
        match step {
            0 => terminating_with(cluster, &self.held, &[HOLD]).await?,
            _ => cluster.assert_gone([&self.held]).await?,
        }
        for c in &self.c {
            lives_with(cluster, c, &[]).await?;
        }
        Ok(())
    }
}

/// A is deleted in the background and B carries the finalizer `orphan`, so C lives,
/// without references (rules 1.8 and 4.20). The same holds while another finalizer holds
/// B.
async fn an_orphan_finalizer_in_a_chain_keeps_the_objects_below() -> Result<()> {
    play::<MixedChain>().await
}
