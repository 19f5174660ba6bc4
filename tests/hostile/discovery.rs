//! Discovery that omits a type for some time.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::faults::stage::Stage;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::proxy::{Fault, Matcher, Reply, Request, Verb, WatchEnd};
use kube_gc_testkit::{Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    a_type_missing_from_discovery_blocks_and_owns_as_before,
}

const WIDGETS: &str = "widgets.example.com";
const ALL_WIDGETS: &str = "/apis/example.com/v1/widgets";
/// Discovery runs frequently.
const ALWAYS: &str = "[discovery]\ninterval = \"100ms\"\n[retry]\nmax = \"300ms\"\n";

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
