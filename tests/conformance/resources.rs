//! Many types as owners and dependents, and ignored types.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ApiResource;

use crate::conformance::outcome::{Outcome, Rest, Setting, in_both_orders, reference, uids, unused_uid};
use crate::conformance::stage::Stage;
use kube_gc_testkit::cluster::{create_all, key};
use kube_gc_testkit::{Cluster, Obj, Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    custom_and_built_in_types_own_each_other,
    patches_of_custom_resources_fall_back_on_415,
    objects_of_an_ignored_type_are_not_changed,
}

/// The number of dependents to orphan.
const MANY: usize = 60;

/// A type and its scope.
#[derive(Clone)]
struct Type {
    name: &'static str,
    resource: ApiResource,
    namespaced: bool,
}

/// Custom and built-in resources own each other, in namespaces and in the cluster scope,
/// under all policies (rule 2.1).
async fn custom_and_built_in_types_own_each_other() -> Result<()> {
    in_both_orders(Rest::Empty, async |scene| {
        let cluster = scene.cluster();
        let widgets = cluster.crd("widgets.example.com", Scope::Namespaced, &["v1"]).await?;
        let gadgets = cluster.crd("gadgets.example.com", Scope::Cluster, &["v1"]).await?;
        let types = [
            Type { name: "core", resource: ApiResource::erase::<Secret>(&()), namespaced: true },
            Type { name: "custom", resource: widgets.resource().clone(), namespaced: true },
            Type { name: "cluster", resource: gadgets.resource().clone(), namespaced: false },
        ];
        let mut outcome = Outcome::default();
        for owner in &types {
            for dependent in &types {
                // A namespaced owner cannot have cluster-scoped dependents.
                if owner.namespaced && !dependent.namespaced {
                    continue;
                }
                pair(scene, owner, dependent, &mut outcome)
                    .await
                    .with_context(|| format!("{} -> {}", owner.name, dependent.name))?;
            }
        }
        Ok(outcome)
    })
    .await
}

/// Deletes owners of one type with dependents of another, under all policies.
async fn pair(scene: &Setting<'_>, owner: &Type, dependent: &Type, outcome: &mut Outcome) -> Result<()> {
    let cluster = scene.cluster();
    let ns = cluster.namespace().await?;
    let builder = |of: &Type, name: String| match of.namespaced {
        true => ns.object(&of.resource, name),
        false => cluster.object(&of.resource, name),
    };
    let prefix = format!("{}-{}", owner.name, dependent.name);
    let live = builder(owner, format!("{prefix}-live")).create().await?;
    let mut owners = Vec::new();
    for policy in [Policy::Background, Policy::Foreground, Policy::Orphan] {
        let prefix = format!("{prefix}-{policy:?}").to_lowercase();
        let dead = builder(owner, format!("{prefix}-owner")).create().await?;
        let sole = create_all(
            (0..3).map(|n| builder(dependent, format!("{prefix}-sole-{n}")).owned_by(&dead).blocking()),
        );
        let sole = sole.await?;
        let shared =
            builder(dependent, format!("{prefix}-shared")).owned_by(&dead).blocking().owned_by(&live);
        outcome.kept.push((shared.create().await?, uids([&live])));
        match policy {
            Policy::Orphan => outcome.kept.extend(sole.into_iter().map(|object| (object, Vec::new()))),
            Policy::Background | Policy::Foreground => outcome.gone.extend(sole),
        }
        owners.push((dead, policy));
    }
    scene.caught_up().await?;
    for (dead, policy) in owners {
        cluster.delete(&dead, policy).await?;
        outcome.gone.push(dead);
    }
    outcome.untouched.push(live);
    Ok(())
}

/// The number of the collector's patches of a type that were answered with a status.
async fn patches(collector: &kube_gc_testkit::Collector, resource: &str, code: &str) -> Result<f64> {
    let metrics = collector.metrics().await?;
    let matches = |series: &str| {
        series.starts_with("kube_gc_requests_total{")
            && series.to_lowercase().contains("verb=\"patch\"")
            && series.contains(&format!("resource=\"{resource}\""))
            && series.contains(&format!("code=\"{code}\""))
    };
    Ok(metrics.iter().filter(|(series, _)| matches(series)).map(|(_, count)| count).sum())
}

/// Creates an owner with many dependents of a type, orphans them, and checks that they exist
/// without it.
async fn orphan_many(
    stage: &Stage,
    collector: &kube_gc_testkit::Collector,
    resource: &ApiResource,
) -> Result<()> {
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let owner = ns.configmap("owner").create().await?;
    let other = ns.configmap("other").create().await?;
    let dependents = create_all((0..MANY).map(|n| {
        let dependent = ns.object(resource, format!("d-{n}")).owned_by(&owner);
        if n % 2 == 0 { dependent.owned_by(&other).blocking() } else { dependent }
    }))
    .await?;
    cluster.settled(collector).await?;
    cluster.delete(&owner, Policy::Orphan).await?;
    cluster.settled(collector).await?;
    cluster.assert_gone([&owner]).await?;
    for (number, dependent) in dependents.iter().enumerate() {
        let now = cluster.fresh(dependent).await?;
        let mut expected = dependent.owner_references()?;
        expected.retain(|reference| reference.uid != owner.uid);
        ensure!(expected.len() == (number + 1) % 2);
        ensure!(now.owner_references()? == expected, "{now}: {}", now.raw["metadata"]);
    }
    Ok(())
}

/// Custom resources answer strategic merge patches with 415. The collector falls back to
/// a JSON merge patch, and remembers it (rule 6.2).
async fn patches_of_custom_resources_fall_back_on_415() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let widgets = cluster.crd("widgets.example.com", Scope::Namespaced, &["v1"]).await?;
    let resource = widgets.resource();
    let collector = stage.collector().await?;
    orphan_many(&stage, &collector, resource).await?;
    let refused = patches(&collector, "widgets.example.com", "415").await?;
    let done = patches(&collector, "widgets.example.com", "200").await?;
    ensure!(done >= 60.0, "{done} patches of custom resources");
    // Those that were sent before the first answer.
    ensure!((1.0..=60.0).contains(&refused), "{refused} patches were refused with 415");

    orphan_many(&stage, &collector, resource).await?;
    let again = patches(&collector, "widgets.example.com", "415").await?;
    ensure!(again == refused, "{} more patches were refused", again - refused);

    // Built-in types accept them.
    orphan_many(&stage, &collector, &ApiResource::erase::<Secret>(&())).await?;
    let secrets = patches(&collector, "secrets", "415").await?;
    ensure!(secrets == 0.0, "{secrets} patches of secrets were refused");
    collector.stop().await?;
    stage.clear().await
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

    let monitors = collector.get_debug("/debug/monitors").await?.json()?;
    let monitors = monitors.as_array().cloned().unwrap_or_default();
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
    collector.stop().await?;
    stage.clear().await
}
