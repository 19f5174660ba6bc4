//! Many types as owners and dependents, cluster-scoped owners, and ignored types.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use kube::api::ApiResource;

use crate::conformance::outcome::{Outcome, Rest, in_both_orders, reference, uids, unused_uid};
use crate::conformance::stage::{HOLD, Stage, lives_with};
use kube_gc_testkit::cluster::{create_all, key};
use kube_gc_testkit::{Cluster, Ns, Obj, Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    custom_and_built_in_types_own_each_other,
    objects_of_an_ignored_type_are_not_changed,
    a_namespace_does_not_own_its_objects,
    dependents_are_evaluated_again_when_an_owner_no_longer_waits,
}

/// The number of namespaces with dependents of cluster-scoped owners.
const NAMESPACES: usize = 3;

/// A type and its scope.
struct Type {
    name: &'static str,
    resource: ApiResource,
    namespaced: bool,
}

/// An owner that is deleted. Of a namespace, nobody else removes the finalizer.
struct Deleted {
    owner: Obj,
    as_namespace: Option<Ns>,
    policy: Policy,
}

/// Custom and built-in resources own each other under all policies, in namespaces and in the cluster scope,
/// and those of the cluster scope own objects in several namespaces (rules 1.3, 2.1 and 3.23).
async fn custom_and_built_in_types_own_each_other() -> Result<()> {
    in_both_orders(Rest::Empty, async |scene| {
        let cluster = scene.cluster();
        let widgets = cluster.crd("widgets.example.com", Scope::Namespaced, &["v1"]).await?;
        let gadgets = cluster.crd("gadgets.example.com", Scope::Cluster, &["v1"]).await?;
        let types = [
            Type { name: "core", resource: ApiResource::erase::<Secret>(&()), namespaced: true },
            Type { name: "custom", resource: widgets.resource().clone(), namespaced: true },
            Type { name: "cluster", resource: gadgets.resource().clone(), namespaced: false },
            Type { name: "node", resource: ApiResource::erase::<Node>(&()), namespaced: false },
            Type { name: "namespace", resource: ApiResource::erase::<Namespace>(&()), namespaced: false },
        ];
        let mut namespaces = Vec::new();
        for _ in 0..NAMESPACES {
            namespaces.push(cluster.namespace().await?);
        }
        let (mut outcome, mut deleted) = (Outcome::default(), Vec::new());
        for owner in &types {
            for dependent in &types[..4] {
                // A namespaced owner cannot have cluster-scoped dependents.
                if owner.namespaced && !dependent.namespaced {
                    continue;
                }
                let pair = pair(cluster, &namespaces, owner, dependent, &mut outcome).await;
                deleted.extend(pair.with_context(|| format!("{} -> {}", owner.name, dependent.name))?);
            }
        }
        scene.caught_up().await?;
        for Deleted { owner, as_namespace, policy } in deleted {
            cluster.delete(&owner, policy).await?;
            if let Some(namespace) = as_namespace {
                namespace.finalize().await?;
            }
            outcome.gone.push(owner);
        }
        Ok(outcome)
    })
    .await
}

/// Creates owners of one type with dependents of another, one for each policy.
async fn pair(
    cluster: &Cluster,
    namespaces: &[Ns],
    owner: &Type,
    dependent: &Type,
    outcome: &mut Outcome,
) -> Result<Vec<Deleted>> {
    // Dependents of an owner in no namespace may be in any.
    let namespaces = if owner.namespaced { &namespaces[..1] } else { namespaces };
    let object = |of: &Type, number: usize, name: String| match of.namespaced {
        true => namespaces[number % namespaces.len()].object(&of.resource, name),
        false => cluster.object(&of.resource, name),
    };
    let make = async |name: String| -> Result<(Obj, Option<Ns>)> {
        if owner.name == "namespace" {
            let namespace = cluster.namespace().await?;
            return Ok((namespace.as_object().clone(), Some(namespace)));
        }
        Ok((object(owner, 0, name).create().await?, None))
    };
    let prefix = format!("{}-{}", owner.name, dependent.name);
    let (live, _) = make(format!("{prefix}-live")).await?;
    let mut deleted = Vec::new();
    for policy in [Policy::Background, Policy::Foreground, Policy::Orphan] {
        let prefix = format!("{prefix}-{policy:?}").to_lowercase();
        let (dead, as_namespace) = make(format!("{prefix}-owner")).await?;
        let sole = create_all((0..NAMESPACES).map(|n| {
            let sole = object(dependent, n, format!("{prefix}-sole-{n}")).owned_by(&dead);
            if n == 0 { sole } else { sole.blocking() }
        }))
        .await?;
        let shared = object(dependent, 1, format!("{prefix}-shared"));
        let shared = shared.owned_by(&dead).blocking().owned_by(&live).create().await?;
        outcome.kept.push((shared, uids([&live])));
        match policy {
            Policy::Orphan => outcome.kept.extend(sole.into_iter().map(|object| (object, Vec::new()))),
            Policy::Background | Policy::Foreground => outcome.gone.extend(sole),
        }
        deleted.push(Deleted { owner: dead, as_namespace, policy });
    }
    outcome.untouched.push(live);
    Ok(deleted)
}

/// The objects of a scenario with an ignored type.
struct Ignored {
    /// Objects of the ignored type: garbage, or being deleted.
    left_alone: Vec<Obj>,
    outcome: Outcome,
}

impl Ignored {
    async fn make(cluster: &Cluster) -> Result<Self> {
        let ns = cluster.namespace().await?;
        let never = reference("v1", "ConfigMap", "never", &unused_uid());
        let garbage = ns.secret("garbage").owner_reference(never.clone()).create().await?;
        let misnamed = ns.secret("misnamed").owner_reference(reference("v1", "Secret", "x", &unused_uid()));
        let misnamed = misnamed.create().await?;
        let foreground = ns.secret("foreground").create().await?;
        let orphan = ns.secret("orphan").create().await?;
        let live = ns.secret("live").create().await?;
        let collected = ns.configmap("collected").owner_reference(never).create().await?;
        let of_live = ns.configmap("of-live").owned_by(&live).create().await?;
        cluster.delete(&foreground, Policy::Foreground).await?;
        cluster.delete(&orphan, Policy::Orphan).await?;
        let deleting = [cluster.fresh(&foreground).await?, cluster.fresh(&orphan).await?];
        Ok(Self {
            left_alone: deleting.into_iter().chain([garbage, misnamed, live]).collect(),
            outcome: Outcome { gone: vec![collected], untouched: vec![of_live], ..Outcome::default() },
        })
    }
}

/// An ignored type is not listed and not watched, and its objects are not written to. A
/// warning says that their deletions never end (rule 2.2).
async fn objects_of_an_ignored_type_are_not_changed() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let before = Ignored::make(cluster).await?;
    let secrets = ApiResource::erase::<Secret>(&());
    let counts = cluster.request_counts().await?;
    let options =
        || Options::config("[discovery]\nignored = [\"events\", \"events.events.k8s.io\", \"secrets\"]\n");
    let collector = stage.collector_with(options()).await?;
    let since = cluster.request_counts().await?.since(&counts);
    // A watch counts only when it ends. Below, the collector's own counts show that it opened none.
    ensure!(since.get("LIST", "secrets") == 0, "{since:?}");

    let after = Ignored::make(cluster).await?;
    // No watch shows a marker of the ignored type.
    cluster.forget(&secrets);
    stage.settled(&collector, Rest::Parked).await?;
    for Ignored { left_alone, outcome } in [&before, &after] {
        outcome.check(cluster).await?;
        for object in left_alone {
            let now = cluster.fresh(object).await?;
            ensure!(now.resource_version == object.resource_version, "{now} was written to: {}", now.raw);
        }
    }

    let monitors = collector.monitors().await?;
    let is_watched = |plural: &str| monitors.iter().any(|monitor| monitor["resource"] == plural);
    ensure!(is_watched("configmaps") && !is_watched("secrets") && !is_watched("events"), "{monitors:?}");
    for (series, count) in collector.metrics().await? {
        let ours = series.starts_with("kube_gc_requests_total{")
            && series.contains(&format!("resource=\"{}\"", key(&secrets)));
        let reads_one = series.to_lowercase().contains("verb=\"get\"");
        // The warning does not concern Secrets.
        ensure!(!ours || reads_one, "{series} {count}");
    }
    collector.log_line("secrets is ignored").await?;
    let ready = collector.get("/readyz?verbose").await?;
    ensure!(ready.status == 200 && ready.body.contains("secrets is ignored"), "{}", ready.body);
    collector.stop().await
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
    collector.stop().await
}
