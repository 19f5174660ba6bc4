//! Discovery that fails in part.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::faults::stage::{Stage, never, requests};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::proxy::{Fault, Matcher, Reply, Request, Rule, Verb, WatchEnd};
use kube_gc_testkit::{Collector, Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    a_group_that_cannot_be_discovered_keeps_its_monitors,
    a_group_that_is_down_or_forbidden_does_not_stop_the_others,
    an_owner_waits_for_a_dependent_that_blocks_it_by_an_undiscovered_version,
    a_type_missing_from_discovery_blocks_and_owns_as_before,
}

const WIDGETS: &str = "widgets.example.com";
const ALL_WIDGETS: &str = "/apis/example.com/v1/widgets";
/// Discovery runs frequently.
const ALWAYS: &str = "[discovery]\ninterval = \"100ms\"\n[retry]\nmax = \"300ms\"\n";

fn unavailable() -> Reply {
    Reply::status(503, "ServiceUnavailable", "unavailable, says the test")
}

fn forbidden() -> Reply {
    Reply::status(403, "Forbidden", "forbidden, says the test")
}

/// Answers requests for this path instead of the API server.
fn answer(stage: &Stage, path: &'static str, reply: Reply) -> Rule {
    stage.proxy.always(Matcher::default().when(move |request| request.path == path), Fault::Instead(reply))
}

/// Deletes a family of widgets while discovery gets this answer.
async fn collected_all_the_same(path: &'static str, reply: Reply) -> Result<()> {
    let stage = Stage::set().await?;
    let (cluster, ns) = (&stage.cluster, &stage.ns);
    let widgets = cluster.crd(WIDGETS, Scope::Namespaced, &["v1"]).await?;
    let collector = stage.collector_with(Options::config(ALWAYS)).await?;
    let owner = ns.object(widgets.resource(), "owner").create().await?;
    let solid = ns.object(widgets.resource(), "solid").create().await?;
    let child = ns.object(widgets.resource(), "child").owned_by(&owner).create().await?;
    let below = ns.configmap("below").owned_by(&child).create().await?;
    let shared = ns.configmap("shared").owned_by(&owner).owned_by(&solid).create().await?;
    cluster.settled(&collector).await?;
    let mark = stage.proxy.mark();
    let rule = answer(&stage, path, reply);
    // The first of these answers has been applied when the third discovery begins.
    rule.hit(3).await?;
    collector.log_line("says the test").await?;

    let late = ns.object(widgets.resource(), "late").owned_by(&owner).create().await?;
    let garbage = ns.object(widgets.resource(), "garbage").owner_reference(never()).create().await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&garbage]).await?;
    cluster.delete(&owner, Policy::Foreground).await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&owner, &child, &below, &late]).await?;
    stage.assert_owners(&shared, &[&solid]).await?;
    // Discovery continues all the time.
    rule.hit(rule.hits() + 1).await?;
    rule.remove();
    cluster.settled(&collector).await?;
    let afresh = Matcher::verb(Verb::List).when(Request::is_full_list);
    let afresh = requests(stage.proxy.since(mark, &afresh));
    ensure!(afresh.is_empty(), "a monitor was not kept: {afresh:#?}");
    // Its dependents are removed, too: without the type, nothing shows whether they are garbage.
    widgets.remove().await?;
    cluster.settled(&collector).await?;
    collector.stop().await
}

/// A group whose discovery fails or is forbidden keeps its monitors (rule 2.5), and so do all groups if not
/// even their names can be discovered (rule 2.4). Fails if such a group is taken for one that is no longer
/// served.
async fn a_group_that_cannot_be_discovered_keeps_its_monitors() -> Result<()> {
    collected_all_the_same("/apis/example.com/v1", unavailable()).await?;
    collected_all_the_same("/apis/example.com/v1", forbidden()).await?;
    collected_all_the_same("/apis", unavailable()).await
}

/// A group that cannot be discovered from the start delays neither other groups nor the start (rule
/// 2.6). Dependents of its objects are kept until the group can be discovered. Fails if one failure
/// counts for all of discovery, or if an owner of an unknown kind counts as absent.
async fn others_go_on(reply: Reply) -> Result<()> {
    let stage = Stage::set().await?;
    let (cluster, ns) = (&stage.cluster, &stage.ns);
    let widgets = cluster.crd(WIDGETS, Scope::Namespaced, &["v1"]).await?;
    let live = ns.object(widgets.resource(), "live").create().await?;
    let dead = ns.object(widgets.resource(), "dead").create().await?;
    cluster.delete(&dead, Policy::Background).await?;
    let garbage = ns.object(widgets.resource(), "garbage").owner_reference(never()).create().await?;
    let of_live = ns.configmap("of-live").owned_by(&live).create().await?;
    let of_dead = ns.configmap("of-dead").owned_by(&dead).create().await?;
    let other = ns.configmap("other").owner_reference(never()).create().await?;
    cluster.forget(widgets.resource());
    let rule = answer(&stage, "/apis/example.com/v1", reply);

    let collector = Collector::start_with(stage.proxy.kubeconfig(), Options::config(ALWAYS)).await?;
    collector.ready().await?;
    cluster.settled_with_parked(&collector).await?;
    cluster.assert_gone([&other]).await?;
    cluster.assert_kept([&of_live, &of_dead]).await?;
    rule.hit(2).await?;
    // A type that is added while that group fails is discovered.
    let gadgets = cluster.crd("gadgets.other.example.com", Scope::Namespaced, &["v1"]).await?;
    let gadget = ns.object(gadgets.resource(), "garbage").owner_reference(never()).create().await?;
    cluster.settled_with_parked(&collector).await?;
    cluster.assert_gone([&gadget]).await?;
    cluster.assert_kept([&of_live, &of_dead]).await?;
    let failing = collector.get_debug("/debug/queues").await?.body;
    ensure!(failing.contains(&of_dead.uid), "what waits for the group is not named: {failing}");
    cluster.assert_kept([&live, &garbage]).await?;

    rule.remove();
    cluster.gone(&garbage).await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&of_dead]).await?;
    stage.assert_owners(&of_live, &[&live]).await?;
    let monitors = collector.monitors().await?;
    ensure!(monitors.iter().any(|monitor| monitor["resource"] == "widgets"), "{monitors:?}");
    // Its dependents are removed, too: without the type, nothing shows whether they are garbage.
    widgets.remove().await?;
    gadgets.remove().await?;
    cluster.settled(&collector).await?;
    collector.stop().await
}

/// See [`others_go_on`] (rule 2.6).
async fn a_group_that_is_down_or_forbidden_does_not_stop_the_others() -> Result<()> {
    others_go_on(unavailable()).await?;
    others_go_on(forbidden()).await
}

/// A type is watched through the only version of its group that could be discovered at the start. A
/// dependent names its owner in the other version. The collector cannot resolve this reference, but
/// the reference still blocks the owner (rule 2.7). Fails if the owner's finalizer is removed as if
/// nothing blocked it.
async fn waits_for_what_blocks_it(scope: Scope) -> Result<()> {
    let stage = Stage::set().await?;
    let (cluster, ns) = (&stage.cluster, &stage.ns);
    let widgets = cluster.crd(WIDGETS, scope, &["v1", "v2"]).await?;
    let owner = match scope {
        Scope::Namespaced => ns.object(widgets.resource(), "owner"),
        Scope::Cluster => cluster.object(widgets.resource(), "owner"),
    };
    let owner = owner.create().await?;
    let reference = |version: &str| {
        json!({
            "apiVersion": format!("example.com/{version}"), "kind": "Widget", "name": owner.name,
            "uid": owner.uid, "blockOwnerDeletion": true,
        })
    };
    let (first, second) = (ns.configmap("through-v1"), ns.configmap("through-v2"));
    let first = first.owner_reference(reference("v1")).finalizer("example.com/hold").create().await?;
    let second = second.owner_reference(reference("v2")).finalizer("example.com/hold").create().await?;
    let rule = answer(&stage, "/apis/example.com/v1", unavailable());
    let collector = Collector::start_with(stage.proxy.kubeconfig(), Options::config(ALWAYS)).await?;
    collector.ready().await?;
    cluster.delete(&owner, Policy::Foreground).await?;
    // The dependent that blocks through the known version is deleted, and only the other one is
    // left.
    poll("the known one to be deleted", async || Ok(cluster.fresh(&second).await?.is_terminating())).await?;
    cluster.set_finalizers(&second, &[]).await?;
    stage.gone(&second).await?;
    cluster.settled_with_parked(&collector).await?;
    cluster.assert_kept([&owner]).await?;
    ensure!(!cluster.fresh(&first).await?.is_terminating(), "{first} is being deleted on a guess");
    let parked = collector.get_debug("/debug/queues").await?.body;
    ensure!(
        parked.contains(&owner.uid) && parked.contains("cannot be discovered now"),
        "not named: {parked}"
    );

    rule.remove();
    poll("it to be deleted", async || Ok(cluster.fresh(&first).await?.is_terminating())).await?;
    cluster.settled(&collector).await?;
    cluster.assert_kept([&owner]).await?;
    cluster.set_finalizers(&first, &[]).await?;
    stage.gone(&owner).await?;
    cluster.settled(&collector).await?;
    widgets.remove().await?;
    cluster.settled(&collector).await?;
    collector.stop().await
}

/// See [`waits_for_what_blocks_it`] (rule 2.7).
async fn an_owner_waits_for_a_dependent_that_blocks_it_by_an_undiscovered_version() -> Result<()> {
    waits_for_what_blocks_it(Scope::Namespaced).await?;
    waits_for_what_blocks_it(Scope::Cluster).await
}

/// The absence of a type in a discovery answer proves nothing (rule 2.8). Fails if the monitor of
/// the type ends, or if its objects leave the graph: the owner's finalizer would be removed
/// although a widget blocks it, orphaning would miss a dependent, and the dependent of a living
/// widget could count as garbage.
async fn a_type_missing_from_discovery_blocks_and_owns_as_before() -> Result<()> {
    let stage = Stage::set().await?;
    let (cluster, ns) = (&stage.cluster, &stage.ns);
    cluster.remove_leftover_crds().await?;
    let widgets = cluster.crd(WIDGETS, Scope::Namespaced, &["v1"]).await?;
    let collector = stage.collector_with(Options::config(ALWAYS)).await?;
    let owner = ns.configmap("owner").create().await?;
    let orphaning = ns.configmap("orphaning").create().await?;
    let solid = ns.object(widgets.resource(), "solid").create().await?;
    let child = ns.secret("child").owned_by(&solid).create().await?;
    let blocking = ns.object(widgets.resource(), "blocking").owned_by(&owner).blocking();
    let blocking = blocking.finalizer("example.com/hold").create().await?;
    let orphan = ns.object(widgets.resource(), "orphan").owned_by(&orphaning).create().await?;
    cluster.settled(&collector).await?;

    // A valid answer without the type.
    let without = json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "example.com/v1", "resources": [],
    });
    let path = |request: &Request| request.path == "/apis/example.com/v1";
    let rule = stage.proxy.always(Matcher::default().when(path), Fault::Instead(Reply::json(200, &without)));
    let mark = stage.proxy.mark();
    // The effects of an answer are complete when the discovery after the next begins.
    rule.hit(3).await?;
    // A server that does not know the type does not serve its watch either.
    let unknown = Matcher::default()
        .when(|request| matches!(request.verb, Verb::List | Verb::Watch) && request.path == ALL_WIDGETS);
    let unknown = stage.proxy.always(unknown, Fault::Instead(Reply::json(404, &json!({}))));
    stage.proxy.cut(Some(WIDGETS), WatchEnd::Cleanly);
    unknown.hit(1).await?;
    cluster.delete(&owner, Policy::Foreground).await?;
    cluster.delete(&orphaning, Policy::Orphan).await?;
    stage.gone(&orphaning).await?;
    poll("the blocking one to be deleted", async || Ok(cluster.fresh(&blocking).await?.is_terminating()))
        .await?;
    let late = ns.secret("late").owned_by(&solid).create().await?;
    stage.seen(&collector, &late).await?;
    rule.hit(rule.hits() + 3).await?;
    let drained = collector.logged("kube-gc stops watching it");
    ensure!(drained.is_empty(), "{drained:?}");
    cluster.assert_kept([&owner, &blocking, &solid, &child, &late]).await?;
    stage.assert_owners(&orphan, &[]).await?;
    let said = collector.get("/readyz?verbose").await?.body;
    ensure!(said.contains("does not list") && said.contains("widgets"), "not named: {said}");

    rule.remove();
    unknown.remove();
    let all = |request: &Request| request.is_full_list() && request.path == ALL_WIDGETS;
    cluster.set_finalizers(&blocking, &[]).await?;
    stage.gone(&owner).await?;
    cluster.settled(&collector).await?;
    let lists = stage.proxy.since(mark, &Matcher::verb(Verb::List).when(all));
    ensure!(lists.is_empty(), "listed again: {lists:#?}");
    cluster.assert_kept([&solid, &child, &late, &orphan]).await?;
    cluster.delete(&solid, Policy::Background).await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&child, &late]).await?;
    widgets.remove().await?;
    cluster.settled(&collector).await?;
    collector.stop().await
}
