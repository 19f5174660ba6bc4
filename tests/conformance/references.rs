//! References to objects that do not exist, or are elsewhere.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::conformance::outcome::{
    Outcome, Rest, in_both_orders, reference, reference_but, reported_as_failing, uids, unused_uid,
    warned_about,
};
use crate::conformance::stage::Stage;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Obj, Policy, Scope};

kube_gc_testkit::scenarios! {
    dependents_of_an_owner_that_never_existed_are_deleted,
    a_reference_with_the_uid_of_an_owner_and_another_name_or_kind_is_invalid,
    a_recreated_owner_does_not_own_the_dependents_of_the_old_one,
    an_owner_in_another_namespace_does_not_count_and_is_not_changed,
    dependents_seen_before_their_owner_are_decided_correctly,
    a_cluster_scoped_object_with_an_owner_in_a_namespace_is_kept,
    an_absent_owner_beside_an_unknown_one_changes_nothing,
}

/// A reference to an object with another kind of the core group.
fn of_kind(owner: &Obj, kind: &str) -> Value {
    reference("v1", kind, &owner.name, &owner.uid)
}

/// An owner that never existed owns nothing. A dependent that has another owner lives on
/// with that one (rule 1.1).
async fn dependents_of_an_owner_that_never_existed_are_deleted() -> Result<()> {
    in_both_orders(Rest::Empty, async |scene| {
        let ns = scene.cluster().namespace().await?;
        let widgets = scene.cluster().crd("widgets.example.com", Scope::Namespaced, &["v1"]).await?;
        let owner = ns.configmap("owner").create().await?;
        let never = || reference("v1", "ConfigMap", "never", &unused_uid());
        let never_custom = reference("example.com/v1", "Widget", "never", &unused_uid());
        let never_in_cluster = reference("v1", "Node", "never", &unused_uid());
        let gone = create_all([
            ns.secret("sole").owner_reference(never()),
            ns.pod("sole").owner_reference(never()),
            ns.configmap("blocking").owner_reference(never()).blocking().controlled(),
            ns.object(widgets.resource(), "sole").owner_reference(never()),
            ns.secret("custom").owner_reference(never_custom.clone()),
            ns.secret("in-cluster").owner_reference(never_in_cluster),
            ns.secret("several").owner_reference(never()).owner_reference(never_custom),
        ])
        .await?;
        let kept = create_all([
            ns.secret("kept").owned_by(&owner).owner_reference(never()),
            ns.object(widgets.resource(), "kept").owner_reference(never()).owned_by(&owner),
        ])
        .await?;
        let with_owner = kept.into_iter().map(|object| (object, uids([&owner]))).collect();
        let ownerless = ns.secret("ownerless").create().await?;
        Ok(Outcome { gone, kept: with_owner, untouched: vec![owner, ownerless], ..Outcome::default() })
    })
    .await
}

/// A reference with the right uid but a wrong name, or another kind, names nobody
/// (rule 1.1).
async fn a_reference_with_the_uid_of_an_owner_and_another_name_or_kind_is_invalid() -> Result<()> {
    in_both_orders(Rest::Empty, async |scene| {
        let ns = scene.cluster().namespace().await?;
        let owner = ns.configmap("owner").create().await?;
        let valid = create_all([
            ns.secret("valid").owned_by(&owner).blocking(),
            ns.configmap("valid").owned_by(&owner),
        ])
        .await?;
        scene.caught_up().await?;
        let gone = create_all([
            ns.secret("other-name").owner_reference(reference_but(&owner, "name", "other")),
            ns.configmap("other-name").owner_reference(reference_but(&owner, "name", "other")),
            ns.secret("other-kind").owner_reference(reference_but(&owner, "kind", "Secret")),
            ns.configmap("cluster-kind").owner_reference(reference_but(&owner, "kind", "Node")),
        ])
        .await?;
        let untouched = valid.into_iter().chain([owner]).collect();
        Ok(Outcome { unmentioned: gone.clone(), gone, untouched, ..Outcome::default() })
    })
    .await
}

/// An owner that was re-created under its old name does not own the dependents of the old
/// one (rule 1.1).
async fn a_recreated_owner_does_not_own_the_dependents_of_the_old_one() -> Result<()> {
    in_both_orders(Rest::Empty, async |scene| {
        let ns = scene.cluster().namespace().await?;
        let old = ns.configmap("owner").create().await?;
        let before = ns.secret("before").owned_by(&old).create().await?;
        scene.caught_up().await?;
        scene.cluster().delete(&old, Policy::Background).await?;
        let new = ns.configmap("owner").create().await?;
        ensure!(new.uid != old.uid);
        let late = ns.secret("late").owned_by(&old).blocking().create().await?;
        let valid = ns.secret("valid").owned_by(&new).create().await?;
        let both = ns.secret("both").owned_by(&old).owned_by(&new).create().await?;
        Ok(Outcome {
            gone: vec![before, late],
            kept: vec![(both, uids([&new]))],
            untouched: vec![new, valid],
            unmentioned: vec![old],
            ..Outcome::default()
        })
    })
    .await
}

/// A uid of another namespace is not an owner (rule 1.2). The dependent is deleted and a
/// warning is recorded (rule 9.1), whatever kind its reference names. The object in the
/// other namespace and its real dependents stay as they are.
async fn an_owner_in_another_namespace_does_not_count_and_is_not_changed() -> Result<()> {
    in_both_orders(Rest::Empty, async |scene| {
        let here = scene.cluster().namespace().await?;
        let there = scene.cluster().namespace().await?;
        let widgets = scene.cluster().crd("widgets.example.com", Scope::Namespaced, &["v1"]).await?;
        let owners = create_all([
            here.configmap("owner"),
            here.secret("owner"),
            here.object(widgets.resource(), "owner"),
        ])
        .await?;
        let mut untouched = owners.clone();
        for owner in &owners {
            let kind = owner.resource.kind.to_lowercase();
            let valid = create_all([
                here.secret(format!("valid-of-{kind}")).owned_by(owner).blocking(),
                here.configmap(format!("valid-of-{kind}")).owned_by(owner),
            ]);
            untouched.extend(valid.await?);
        }
        scene.caught_up().await?;
        let mut gone = Vec::new();
        for owner in &owners {
            let kind = owner.resource.kind.to_lowercase();
            let bad = create_all([
                there.secret(format!("right-{kind}")).owned_by(owner),
                there.configmap(format!("right-{kind}")).owned_by(owner).blocking(),
                there.object(widgets.resource(), format!("right-{kind}")).owned_by(owner),
                there.pod(format!("wrong-{kind}")).owner_reference(of_kind(owner, "Pod")),
                there.secret(format!("cluster-{kind}")).owner_reference(of_kind(owner, "Node")),
            ]);
            gone.extend(bad.await?);
        }
        Ok(Outcome { warned: gone.clone(), gone, untouched, ..Outcome::default() })
    })
    .await
}

/// The dependents are observed first, because the type of the owner is served later. What
/// the wrong dependent makes the collector assume about the owner must not cost a right
/// one its life (rule 1.2).
async fn dependents_seen_before_their_owner_are_decided_correctly() -> Result<()> {
    in_both_orders(Rest::Empty, async |scene| {
        let here = scene.cluster().namespace().await?;
        let there = scene.cluster().namespace().await?;
        let widgets = scene.cluster().crd("widgets.example.com", Scope::Namespaced, &["v1"]).await?;
        let mut gone = Vec::new();
        let mut untouched = Vec::new();
        for number in 0..20 {
            let owner = here.object(widgets.resource(), format!("owner-{number}")).create().await?;
            let wrong = there.configmap(format!("wrong-{number}")).owned_by(&owner);
            let right = here.configmap(format!("right-{number}")).owned_by(&owner).blocking();
            // The first of them decides where the owner is looked up.
            if number % 2 == 0 {
                gone.push(wrong.create().await?);
                untouched.push(right.create().await?);
            } else {
                untouched.push(right.create().await?);
                gone.push(wrong.create().await?);
            }
            untouched.push(owner);
        }
        Ok(Outcome { gone, untouched, ..Outcome::default() })
    })
    .await
}

/// A cluster-scoped object cannot have a namespaced owner. It is kept, reported, and not
/// retried (rule 1.4).
async fn a_cluster_scoped_object_with_an_owner_in_a_namespace_is_kept() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let gadgets = cluster.crd("gadgets.example.com", Scope::Cluster, &["v1"]).await?;
    let owner = ns.configmap("owner").create().await?;
    let never = reference("v1", "ConfigMap", "never", &unused_uid());
    let of_live = create_all([
        cluster.node("of-live").owned_by(&owner),
        cluster.object(gadgets.resource(), "of-live").owned_by(&owner).blocking(),
    ])
    .await?;
    let of_nobody = create_all([
        cluster.node("of-nobody").owner_reference(never.clone()),
        cluster.object(gadgets.resource(), "of-nobody").owner_reference(never),
    ])
    .await?;
    let untouched: Vec<_> = of_live.iter().chain(&of_nobody).chain([&owner]).cloned().collect();
    let outcome = Outcome { untouched, ..Outcome::default() };

    let mut late = Vec::new();
    for round in 0..2 {
        let collector = stage.collector().await?;
        if round == 0 {
            late.push(cluster.node("late").owned_by(&owner).create().await?);
        }
        // Not parked, because there is nothing to wait for.
        cluster.settled(&collector).await?;
        outcome.check(cluster).await?;
        cluster.assert_kept(&late).await?;
        // The event is written asynchronously.
        for object in of_live.iter().chain(&of_nobody).chain(&late) {
            poll(&format!("{object} to be in the log"), async || {
                let lines = collector.logged("a cluster-scoped object names an owner of a namespaced kind");
                Ok(lines.iter().any(|line| line.contains(&object.name)))
            })
            .await?;
        }
        poll("five invalid references to be counted", async || {
            Ok(collector.metric("kube_gc_invalid_references_total").await? >= 5.0)
        })
        .await?;

        // The owner is observed, so its namespace is known.
        for object in of_live.iter().chain(&late) {
            warned_about(cluster, object).await?;
        }

        collector.stop().await?;
    }

    // The same when the owner is deleted.
    let collector = stage.collector().await?;
    cluster.delete(&owner, Policy::Background).await?;
    cluster.settled(&collector).await?;
    cluster.assert_kept(of_live.iter().chain(&of_nobody).chain(&late)).await?;
    collector.stop().await
}

/// An object with one absent and one unresolved reference keeps both (rule 4.17).
async fn an_absent_owner_beside_an_unknown_one_changes_nothing() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let collector = stage.collector().await?;
    let never = reference("v1", "ConfigMap", "never", &unused_uid());
    let unknown = reference("no.such.group/v1", "Unknown", "x", &unused_uid());
    let kept = ns.secret("kept").owner_reference(never.clone()).owner_reference(unknown).create().await?;
    let gone = ns.secret("gone").owner_reference(never).create().await?;
    cluster.gone(&gone).await?;
    cluster.settled_with_parked(&collector).await?;
    Outcome { untouched: vec![kept.clone()], ..Outcome::default() }.check(cluster).await?;
    reported_as_failing(&collector, &[&kept], "no.such.group").await?;
    collector.stop().await
}
