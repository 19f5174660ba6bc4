//! A type whose objects do not fit into a page.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;
use serde_json::json;

use super::{delete, finishing, gone, turns};
use crate::conformance::stage::{HOLD, Stage};
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Fault, Matcher, Proxy, Reply, Verb};
use kube_gc_testkit::{Cluster, Collector, Ns, Obj};

kube_gc_testkit::scenarios! {
    objects_that_are_held_do_not_starve_those_behind_them,
    a_namespace_that_is_created_again_between_two_pages_keeps_its_objects,
}

/// As many objects as kube-gc lists or deletes with one request.
const PAGE: usize = 500;
/// The objects of the second page.
const BEHIND: usize = 20;

/// A namespace whose objects need two pages, and a collector behind a proxy that finishes namespaces.
struct TwoPages {
    stage: Stage,
    ns: Ns,
    /// The objects of the first page. Somebody else holds them.
    held: Vec<Obj>,
    /// Those of the second page.
    behind: Vec<Obj>,
    proxy: Proxy,
    collector: Collector,
}

impl TwoPages {
    async fn fill() -> Result<Self> {
        let stage = Stage::set().await?;
        let ns = stage.cluster.namespace().await?;
        let held = (0..PAGE).map(|number| ns.configmap(format!("a-{number}")).finalizer(HOLD));
        let held = create_all(held).await?;
        let behind = create_all((0..BEHIND).map(|number| ns.configmap(format!("b-{number}")))).await?;
        let proxy = Proxy::start(stage.plane).await?;
        let collector = Collector::start_with(proxy.kubeconfig(), finishing()).await?;
        collector.ready().await?;
        Ok(Self { stage, ns, held, behind, proxy, collector })
    }
}

/// Checks that the namespace has exactly these objects.
async fn same(cluster: &Cluster, ns: &Ns, expected: impl Iterator<Item = &Obj>) -> Result<()> {
    let expected: BTreeSet<_> = expected.map(|object| object.uid.clone()).collect();
    let found = cluster.list(&ApiResource::erase::<ConfigMap>(&()), Some(ns.name())).await?;
    let found: BTreeSet<_> = found.iter().map(|object| object.uid.clone()).collect();
    ensure!(found == expected, "{} objects instead of {}", found.len(), expected.len());
    Ok(())
}

fn pages(ns: &Ns) -> Matcher {
    Matcher::verb(Verb::Delete).of("configmaps").within(ns.name())
}

/// Rules 11.3 and 11.4, with a token that has expired.
async fn objects_that_are_held_do_not_starve_those_behind_them() -> Result<()> {
    let TwoPages { stage, ns, held, behind: _, proxy, collector } = TwoPages::fill().await?;
    let cluster = &stage.cluster;
    let is_second = |query: &str| query.contains("continue=");
    let expired = Fault::Instead(Reply::expired());
    let rule = proxy.times(1, pages(&ns).when(move |request| is_second(&request.query)), expired);
    let mark = proxy.mark();
    delete(cluster, &ns).await?;
    poll("the objects of the second page to be deleted", async || {
        Ok(same(cluster, &ns, held.iter()).await.is_ok())
    })
    .await?;
    ensure!(rule.hits() == 1, "the token did not expire");
    // It has looked at everything again, and waits.
    poll("a turn that waits", async || Ok(turns(&collector, "held").await? >= 1.0)).await?;
    let deletions = proxy.since(mark, &pages(&ns));
    let queries: Vec<_> = deletions.iter().map(|deletion| deletion.request.query.clone()).collect();
    ensure!(queries.iter().all(|query| query.starts_with(&format!("limit={PAGE}"))), "{queries:?}");
    let mut second: Vec<_> = queries.iter().map(|query| is_second(query)).collect();
    // A page that takes too long is sent again (rule 11.12).
    second.dedup();
    ensure!(second == [false, true, false, true], "{queries:?}");
    collector.stop().await
}

/// Rules 11.1 and 11.12: the token of the second page deletes by name.
async fn a_namespace_that_is_created_again_between_two_pages_keeps_its_objects() -> Result<()> {
    let TwoPages { stage, ns, held, behind, proxy, collector } = TwoPages::fill().await?;
    let cluster = &stage.cluster;
    let mut page = proxy.hold(pages(&ns));
    delete(cluster, &ns).await?;
    let first = page.next().await?;
    let mut look = proxy.hold(Matcher::object(Verb::Get, ns.as_object()));
    first.pass();
    let second = look.next().await?;

    let path = format!("/api/v1/namespaces/{}", ns.name());
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": ns.name() } });
    let mut finalized = object.clone();
    finalized["spec"] = json!({ "finalizers": [] });
    cluster.send("PUT", &format!("{path}/finalize"), None, Some(&finalized)).await?;
    gone(cluster, &ns).await?;
    cluster.send("POST", "/api/v1/namespaces", None, Some(&object)).await?;
    let mark = proxy.mark();
    second.pass();
    look.release();
    page.release();
    poll("a turn that finds another namespace", async || Ok(turns(&collector, "gone").await? >= 1.0)).await?;
    let deletions = proxy.since(mark, &pages(&ns));
    ensure!(deletions.is_empty(), "it has deleted in another namespace: {deletions:?}");
    same(cluster, &ns, held.iter().chain(&behind)).await?;
    collector.stop().await
}
