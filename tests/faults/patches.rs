//! Answers to patches, and to DELETEs of objects that are gone or were replaced.

use anyhow::{Result, ensure};

use crate::faults::stage::Stage;
use kube_gc_testkit::proxy::{Matcher, Request, Verb};
use kube_gc_testkit::{Policy, Scope};

kube_gc_testkit::scenarios! {
    a_dependent_recreated_before_its_patch_is_another_object,
    a_delete_answered_with_404_is_followed_by_one_last_read,
    a_type_without_strategic_merge_patch_rejects_it_only_once,
}

/// A 422 with `metadata.uid` among its causes says that the object is another one, and a GET shows
/// it (rules 1.26, 5.2 and 6.4). The answer is the API server's own: the dependent is re-created while the patch is under
/// way. Fails if the owner is retried because of the 422, or if the new object is written to.
async fn a_dependent_recreated_before_its_patch_is_another_object() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.secret("owner").create().await?;
    let first = ns.configmap("dependent").owned_by(&owner).create().await?;
    stage.cluster.settled(&collector).await?;
    let mut patches = stage.proxy.hold(Matcher::object(Verb::Patch, &first));
    stage.cluster.delete(&owner, Policy::Orphan).await?;
    let held = patches.next().await?;
    stage.cluster.delete(&first, Policy::Background).await?;
    let second = ns.configmap("dependent").create().await?;
    held.pass();
    drop(patches);
    stage.cluster.settled(&collector).await?;

    stage.cluster.assert_gone([&owner]).await?;
    let now = stage.cluster.fresh(&second).await?;
    ensure!(now.resource_version == second.resource_version, "it was written to: {}", now.raw);
    let patches = stage.proxy.all(&Matcher::object(Verb::Patch, &first));
    ensure!(patches.len() == 1, "{patches:#?}");
    ensure!(matches!(patches[0].served, Some(409 | 422)), "{patches:#?}");
    collector.stop().await
}

/// After a DELETE that is answered with 404, one GET is the last request about the object, although
/// its watch has not shown the deletion yet (rules 1.26, 3.24 and 4.29). Fails if the DELETE is
/// retried, or if the object is re-evaluated again and again.
async fn a_delete_answered_with_404_is_followed_by_one_last_read() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.secret("owner").create().await?;
    let dependent = ns.configmap("dependent").owned_by(&owner).create().await?;
    let below = ns.pod("below").owned_by(&dependent).create().await?;
    stage.cluster.settled(&collector).await?;
    let mark = stage.proxy.mark();
    let mut deletes = stage.proxy.hold(Matcher::object(Verb::Delete, &dependent));
    let events = stage.proxy.hold_events(Matcher::resource("configmaps").within(ns.name()));
    stage.cluster.delete(&owner, Policy::Background).await?;
    let held = deletes.next().await?;
    stage.cluster.delete(&dependent, Policy::Background).await?;
    events.caught().await?;
    held.pass();
    drop(deletes);
    // The 404 of the GET proves that the object is absent, so its dependents are deleted before its
    // watch event arrives.
    stage.gone(&below).await?;
    stage.cluster.forget(&dependent.resource);
    stage.cluster.settled(&collector).await?;
    let about =
        stage.proxy.since(mark, &Matcher::resource("configmaps").within(ns.name()).named("dependent"));
    let verbs: Vec<_> = about.iter().map(|exchange| exchange.request.verb).collect();
    ensure!(verbs == [Verb::Delete, Verb::Get], "{about:#?}");
    ensure!(about.iter().all(|exchange| exchange.served == Some(404)), "{about:#?}");
    events.release();
    stage.cluster.assert_gone([&dependent]).await?;
    stage.cluster.settled(&collector).await?;
    let about =
        stage.proxy.since(mark, &Matcher::resource("configmaps").within(ns.name()).named("dependent"));
    ensure!(about.len() == 2, "{about:#?}");
    collector.stop().await
}

/// The collector remembers for each resource that it answers 415 (rule 6.2). Fails if each
/// dependent costs a strategic merge patch that cannot succeed.
async fn a_type_without_strategic_merge_patch_rejects_it_only_once() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let widgets = stage.cluster.crd("widgets.example.com", Scope::Namespaced, &["v1"]).await?;
    let collector = stage.collector().await?;
    let strategic = |request: &Request| request.is_strategic();
    for count in 0..3 {
        let owner = ns.secret(format!("owner-{count}")).create().await?;
        let custom = ns.object(widgets.resource(), format!("w-{count}")).owned_by(&owner).create().await?;
        let builtin = ns.configmap(format!("c-{count}")).owned_by(&owner).create().await?;
        stage.cluster.settled(&collector).await?;
        stage.cluster.delete(&owner, Policy::Orphan).await?;
        stage.cluster.settled(&collector).await?;
        stage.cluster.assert_gone([&owner]).await?;
        stage.assert_owners(&custom, &[]).await?;
        stage.assert_owners(&builtin, &[]).await?;
        ensure!(stage.of(Verb::Patch, &builtin).iter().all(strategic), "of another type, too");
    }
    let patches = stage.proxy.all(&stage.here(Verb::Patch).of("widgets.example.com").when(strategic));
    ensure!(patches.len() == 1 && patches[0].served == Some(415), "{patches:#?}");
    let merged = stage.here(Verb::Patch).of("widgets.example.com").when(|request| !request.is_strategic());
    let merged = stage.proxy.all(&merged);
    ensure!(merged.len() == 3, "{merged:#?}");
    // A JSON merge patch replaces the whole list, so it carries the version that was read.
    ensure!(merged.iter().all(|patch| patch.request.patched_version().is_some()), "{merged:#?}");
    widgets.remove().await?;
    collector.stop().await
}
