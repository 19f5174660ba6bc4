//! Cluster-scoped owners.

use anyhow::{Context as _, Result, ensure};

use crate::conformance::outcome::{Order, Outcome, Rest, reference, uids, unused_uid};
use crate::conformance::stage::{Stage, lives_with};
use kube_gc_testkit::cluster::create_all;
use kube_gc_testkit::{Cluster, Crd, Ns, Obj, Policy, Scope};

kube_gc_testkit::scenarios! {
    a_namespace_owns_objects_in_other_namespaces,
    a_node_owns_objects_in_namespaces,
    a_custom_resource_of_the_cluster_owns_objects_in_namespaces,
    a_namespace_does_not_own_its_objects,
    dependents_are_evaluated_again_when_an_owner_no_longer_waits,
}

/// The number of namespaces with dependents.
const NAMESPACES: usize = 10;
const POLICIES: [Policy; 3] = [Policy::Background, Policy::Foreground, Policy::Orphan];
/// A finalizer that only the scenario removes.
const HOLD: &str = "example.com/hold";

/// The kind of owner in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Namespace,
    Node,
    Custom,
}

/// An owner and its dependents.
struct Family {
    policy: Policy,
    owner: Obj,
    /// The owner as a namespace, if it is one.
    as_namespace: Option<Ns>,
    /// Dependents without another owner.
    sole: Vec<Obj>,
    /// Dependents with another live owner.
    shared: Vec<Obj>,
    /// The last of `sole`. In a foreground deletion, the owner waits for it.
    held: Obj,
}

impl Family {
    async fn make(
        cluster: &Cluster,
        kind: Kind,
        policy: Policy,
        gadgets: &Crd,
        namespaces: &[Ns],
        other: &Obj,
    ) -> Result<Self> {
        let name = format!("{policy:?}").to_lowercase();
        let mut as_namespace = None;
        let owner = match kind {
            Kind::Namespace => {
                let namespace = cluster.namespace().await?;
                let owner = namespace.as_object().clone();
                as_namespace = Some(namespace);
                owner
            }
            Kind::Node => cluster.node(format!("owner-{name}")).create().await?,
            Kind::Custom => cluster.object(gadgets.resource(), format!("owner-{name}")).create().await?,
        };
        let blocking = |ns: &Ns| ns.configmap(format!("blocking-{name}")).owned_by(&owner).blocking();
        let plain = |ns: &Ns| ns.secret(format!("plain-{name}")).owned_by(&owner);
        let shared =
            |ns: &Ns| ns.configmap(format!("shared-{name}")).owned_by(&owner).blocking().owned_by(other);
        let mut sole = create_all(namespaces.iter().flat_map(|ns| [blocking(ns), plain(ns)])).await?;
        let shared = create_all(namespaces.iter().map(shared)).await?;
        // A cluster-scoped dependent, too.
        sole.push(cluster.node(format!("dependent-{name}")).owned_by(&owner).blocking().create().await?);
        let held = namespaces[NAMESPACES - 1].configmap(format!("held-{name}")).owned_by(&owner).blocking();
        let held = match policy {
            Policy::Foreground => held.finalizer(HOLD),
            Policy::Background | Policy::Orphan => held,
        };
        let held = held.create().await?;
        sole.push(held.clone());
        Ok(Self { policy, owner, as_namespace, sole, shared, held })
    }

    async fn delete(&self, cluster: &Cluster) -> Result<()> {
        cluster.delete(&self.owner, self.policy).await?;
        if let Some(namespace) = &self.as_namespace {
            // There is no namespace controller.
            namespace.finalize().await?;
        }
        Ok(())
    }

    /// A foreground deletion waits only for the one dependent that a finalizer keeps.
    async fn check_waiting(&self, cluster: &Cluster) -> Result<()> {
        if self.policy != Policy::Foreground {
            return Ok(());
        }
        let owner = cluster.fresh(&self.owner).await?;
        ensure!(owner.is_terminating() && owner.finalizers() == ["foregroundDeletion"], "{}", owner.raw);
        ensure!(cluster.fresh(&self.held).await?.is_terminating());
        cluster.assert_gone(self.sole.iter().filter(|object| object.uid != self.held.uid)).await
    }

    async fn let_go(&self, cluster: &Cluster) -> Result<()> {
        match self.policy {
            Policy::Foreground => cluster.set_finalizers(&self.held, &[]).await.map(drop),
            Policy::Background | Policy::Orphan => Ok(()),
        }
    }

    async fn check(&self, cluster: &Cluster, other: &Obj) -> Result<()> {
        let mut outcome = Outcome { gone: vec![self.owner.clone()], ..Outcome::default() };
        outcome.kept = self.shared.iter().map(|object| (object.clone(), uids([other]))).collect();
        match self.policy {
            Policy::Orphan => {
                outcome.kept.extend(self.sole.iter().map(|object| (object.clone(), Vec::new())));
            }
            Policy::Background | Policy::Foreground => outcome.gone.extend(self.sole.iter().cloned()),
        }
        outcome.check(cluster).await.with_context(|| format!("{:?}", self.policy))
    }
}

async fn play(kind: Kind, order: Order) -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let mut collector = None;
    if order == Order::CollectorFirst {
        collector = Some(stage.collector().await?);
    }
    let gadgets = cluster.crd("gadgets.example.com", Scope::Cluster, &["v1"]).await?;
    let other = cluster.node("other").create().await?;
    let mut namespaces = Vec::new();
    for _ in 0..NAMESPACES {
        namespaces.push(cluster.namespace().await?);
    }
    let mut families = Vec::new();
    for policy in POLICIES {
        families.push(Family::make(cluster, kind, policy, &gadgets, &namespaces, &other).await?);
    }
    if let Some(collector) = &collector {
        cluster.settled(collector).await?;
        for family in &families {
            cluster.assert_kept(family.sole.iter().chain(&family.shared)).await?;
        }
    }
    for family in &families {
        family.delete(cluster).await?;
    }
    let collector = match collector {
        Some(collector) => collector,
        None => stage.collector().await?,
    };
    cluster.settled(&collector).await?;
    for family in &families {
        family.check_waiting(cluster).await?;
        family.let_go(cluster).await?;
    }
    cluster.settled(&collector).await?;
    for family in &families {
        family.check(cluster, &other).await?;
    }
    collector.stop().await?;

    let collector = stage.collector().await?;
    cluster.settled(&collector).await?;
    for family in &families {
        family.check(cluster, &other).await.context("after a restart")?;
    }
    cluster.assert_kept(namespaces.iter().map(Ns::as_object).chain([&other])).await?;
    collector.stop().await?;
    stage.clear().await
}

async fn in_both_orders(kind: Kind) -> Result<()> {
    for order in [Order::ObjectsFirst, Order::CollectorFirst] {
        Box::pin(play(kind, order)).await.with_context(|| format!("{order:?}"))?;
    }
    Ok(())
}

/// A Namespace owns objects in ten others, under all policies (rule 1.3).
async fn a_namespace_owns_objects_in_other_namespaces() -> Result<()> {
    in_both_orders(Kind::Namespace).await
}

/// A Node owns objects in ten namespaces, under all policies (rule 1.3).
async fn a_node_owns_objects_in_namespaces() -> Result<()> {
    in_both_orders(Kind::Node).await
}

/// A cluster-scoped custom resource owns objects in ten namespaces, under all policies
/// (rules 1.3 and 3.23).
async fn a_custom_resource_of_the_cluster_owns_objects_in_namespaces() -> Result<()> {
    in_both_orders(Kind::Custom).await
}

/// A namespace does not own the objects in it (rule 1.3). Another controller empties a
/// namespace that is deleted.
async fn a_namespace_does_not_own_its_objects() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let collector = stage.collector().await?;
    let ns = cluster.namespace().await?;
    let inside = ns.configmap("inside").create().await?;
    let owned = ns.configmap("owned").owned_by(&inside).create().await?;
    cluster.delete(ns.as_object(), Policy::Background).await?;
    stage.settled(&collector, Rest::Empty).await?;
    cluster.assert_kept([ns.as_object(), &inside, &owned]).await?;
    collector.stop().await?;
    ns.finalize().await?;
    stage.clear().await
}

/// While one owner waits, no decision about its dependent is possible. The decision follows when
/// another client's finalizer keeps that owner, which makes it solid again (rule 3.16). Fails if
/// only the dependents that wait with the owner are queued: the reference to the absent owner would
/// stay.
async fn dependents_are_evaluated_again_when_an_owner_no_longer_waits() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let collector = stage.collector().await?;
    let ns = cluster.namespace().await?;
    let node = |name: &str| cluster.node(format!("{}-{name}", ns.name()));
    let owner = node("owner").finalizer(HOLD).create().await?;
    let holder = node("holder").owned_by(&owner).blocking().finalizer(HOLD).create().await?;
    let config = ns.configmap("config").create().await?;
    cluster.settled(&collector).await?;
    cluster.delete(&owner, Policy::Foreground).await?;
    // A namespaced object can never own a cluster-scoped one, so nothing is done and nothing is
    // retried.
    let never = reference("v1", "Node", "never", &unused_uid());
    let item = node("item").owned_by(&config).owned_by(&owner).owner_reference(never).create().await?;
    cluster.settled(&collector).await?;
    let before = cluster.fresh(&item).await?;
    ensure!(before.resource_version == item.resource_version, "it was written to: {}", before.raw);

    cluster.set_finalizers(&holder, &[]).await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&holder]).await?;
    ensure!(cluster.fresh(&owner).await?.finalizers() == [HOLD], "{owner} still waits for a dependent");
    lives_with(cluster, &item, &[&config, &owner]).await?;

    for object in [&owner, &item] {
        cluster.set_finalizers(object, &[]).await?;
    }
    cluster.settled(&collector).await?;
    cluster.delete(&item, Policy::Background).await?;
    collector.stop().await?;
    stage.clear().await
}
