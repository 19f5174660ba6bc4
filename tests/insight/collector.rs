//! The debug pages of a collector answer as the commands do that read lists.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::kube_gc;
use super::stream::Events;
use crate::conformance::stage::{HOLD, Stage};
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Collector, Obj, Policy};

kube_gc_testkit::scenarios! {
    lists_and_a_collector_answer_alike,
    a_collector_names_what_is_left_in_a_namespace,
    pages_of_a_collector_show_everything_once,
    a_stream_follows_a_cascade_and_ends_with_the_collector,
}

/// More than are shown of one type.
const MANY: usize = 25;

async fn asked(collector: &Collector, page: &str, object: &Obj) -> Result<Value> {
    let answer = collector.get_debug(&format!("/debug/{page}?uid={}", object.uid)).await?;
    ensure!(answer.status == 200, "{page} of {object}: {answer:?}");
    answer.json()
}

/// A neighbourhood whose order and places do not count.
fn unordered(tree: &Value) -> Result<Value> {
    let nodes = tree["nodes"].as_array().context("no nodes")?;
    let named = |value: &Value, field: &str| -> Result<Value> {
        let mut value = value.clone();
        let place = value[field].as_u64().context("no place")?;
        value[field] = nodes[usize::try_from(place)?]["uid"].clone();
        Ok(value)
    };
    let list = |field: &str| tree[field].as_array().with_context(|| format!("no {field}"));
    let edges: Result<BTreeSet<String>> = list("edges")?
        .iter()
        .map(|edge| Ok(named(&named(edge, "dependent")?, "owner")?.to_string()))
        .collect();
    let more: Result<BTreeSet<String>> =
        list("more")?.iter().map(|more| Ok(named(more, "owner")?.to_string())).collect();
    let all: BTreeSet<String> = nodes.iter().map(Value::to_string).collect();
    Ok(json!({
        "root": nodes[0], "nodes": all, "edges": edges?, "more": more?, "truncated": tree["truncated"],
        "incomplete": tree["incomplete"],
    }))
}

/// An explanation without what depends on where the facts are from.
fn verdict(explanation: &Value) -> Result<Value> {
    let mut same = explanation.clone();
    let fields = same.as_object_mut().context("no object")?;
    for other in ["apiVersion", "kind", "leftOut", "decisions", "stuck"] {
        fields.remove(other);
    }
    for reference in fields["references"].as_array_mut().context("no references")? {
        // A watch or a live read: both show the owner.
        reference.as_object_mut().context("no reference")?.remove("evidence");
    }
    Ok(same)
}

/// Fails unless both answers about an object are alike.
async fn same(stage: &Stage, collector: &Collector, what: &str, object: &Obj) -> Result<()> {
    let of_lists = kube_gc(stage.plane.kubeconfig(), &format!("tree {what} -o json")).await?.json()?;
    let of_collector = asked(collector, "neighbourhood", object).await?;
    let (left, right) = (unordered(&of_lists)?, unordered(&of_collector)?);
    ensure!(left == right, "tree {what}: lists\n{left:#}\ncollector\n{right:#}");
    let of_lists = kube_gc(stage.plane.kubeconfig(), &format!("explain {what} -o json")).await?.json()?;
    let of_collector = asked(collector, "explain", object).await?;
    let (left, right) = (verdict(&of_lists)?, verdict(&of_collector)?);
    ensure!(left == right, "explain {what}: lists\n{left:#}\ncollector\n{right:#}");
    Ok(())
}

async fn lists_and_a_collector_answer_alike() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let top = ns.configmap("top").create().await?;
    let root = ns.configmap("root").owned_by(&top).create().await?;
    let middle = ns.configmap("middle").owned_by(&root).controlled().blocking().create().await?;
    let held = ns.secret("held").owned_by(&middle).blocking().finalizer(HOLD).create().await?;
    let many = (0..MANY).map(|number| ns.secret(format!("s{number}")).owned_by(&top));
    create_all(many).await?;
    let lost = ns.configmap("lost").create().await?;
    let unserved = json!({ "apiVersion": "gone.example.com/v1", "kind": "Gone", "name": "x", "uid": "x" });
    let lost = cluster.set_owner_references(&lost, &[unserved, top.reference()]).await?;
    let collector = stage.collector().await?;
    cluster.delete(&root, Policy::Foreground).await?;
    poll("the cascade to be held", async || Ok(cluster.fresh(&held).await?.is_terminating())).await?;
    // An object whose owner's kind is not served is parked.
    cluster.settled_with_parked(&collector).await?;
    for (kind, object) in [("cm", &top), ("cm", &root), ("cm", &middle), ("secret", &held), ("cm", &lost)] {
        same(&stage, &collector, &format!("{kind}/{} -n {}", object.name, ns.name()), object).await?;
    }
    let tree = asked(&collector, "neighbourhood", &top).await?;
    let left: Vec<u64> =
        tree["more"].as_array().into_iter().flatten().filter_map(|more| more["count"].as_u64()).collect();
    ensure!(left == [(MANY - 20) as u64], "{tree:#}");
    cluster.set_finalizers(&held, &[]).await?;
    cluster.settled_with_parked(&collector).await?;
    collector.stop().await?;
    stage.clear().await
}

async fn a_collector_names_what_is_left_in_a_namespace() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let builders = ["a", "b"].map(|name| ns.configmap(name).finalizer("example.com/backup"));
    let held = create_all(builders).await?;
    let collector = stage.collector().await?;
    cluster.delete_all(&held, Policy::Background).await?;
    cluster.delete(ns.as_object(), Policy::Background).await?;
    poll("the namespace to be deleted", async || Ok(cluster.fresh(ns.as_object()).await?.is_terminating()))
        .await?;
    cluster.settled(&collector).await?;
    let explanation = asked(&collector, "explain", ns.as_object()).await?;
    let left = &explanation["namespace"];
    ensure!(left["held"][0]["count"] == 2 && left["beingDeleted"] == 2, "{explanation:#}");
    let what = format!("ns/{}", ns.name());
    let of_lists = kube_gc(stage.plane.kubeconfig(), &format!("explain {what} -o json")).await?.json()?;
    let (left, right) = (verdict(&of_lists)?, verdict(&explanation)?);
    ensure!(left == right, "lists\n{left:#}\ncollector\n{right:#}");
    for object in &held {
        cluster.set_finalizers(object, &[]).await?;
    }
    ns.finalize().await?;
    collector.stop().await?;
    stage.clear().await
}

async fn pages_of_a_collector_show_everything_once() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = stage.cluster.namespace().await?;
    let top = ns.configmap("top").create().await?;
    let many = create_all((0..MANY).map(|number| ns.secret(format!("s{number}")).owned_by(&top))).await?;
    let collector = stage.collector().await?;
    let (mut seen, mut after, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let path = format!("/debug/neighbourhood?uid={}&max=100&limit=10{after}", top.uid);
        let page = collector.get_debug(&path).await?.json()?;
        let nodes = page["nodes"].as_array().context("no nodes")?;
        ensure!(nodes.len() <= 10 && nodes[0]["uid"] == top.uid.as_str(), "{page:#}");
        let uids = nodes[1..].iter().filter_map(|node| node["uid"].as_str().map(str::to_owned));
        seen.extend(uids);
        pages += 1;
        let left = page["more"].as_array().into_iter().flatten().filter_map(|more| more["count"].as_u64());
        ensure!(left.sum::<u64>() == (MANY - seen.len()) as u64, "{page:#}");
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    let all: BTreeSet<String> = many.into_iter().map(|object| object.uid).collect();
    ensure!(pages == 3 && seen.len() == MANY && seen.into_iter().collect::<BTreeSet<_>>() == all);
    collector.stop().await?;
    stage.clear().await
}

async fn a_stream_follows_a_cascade_and_ends_with_the_collector() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let root = ns.configmap("root").create().await?;
    let item = ns.secret("item").owned_by(&root).blocking().finalizer(HOLD).create().await?;
    let collector = stage.collector().await?;
    cluster.settled(&collector).await?;
    let mut events = Events::of(&collector, &format!("/debug/stream?uid={}", root.uid)).await?;
    let states = |page: &Value| -> Vec<String> {
        let nodes = page["nodes"].as_array().into_iter().flatten();
        nodes.filter_map(|node| node["state"].as_str().map(str::to_owned)).collect()
    };
    events.until("neighbourhood", |page| states(page) == ["live", "live"]).await?;
    events.until("summary", |page| page["synced"] == true).await?;
    cluster.delete(&root, Policy::Foreground).await?;
    events.until("neighbourhood", |page| states(page) == ["deletingDependents", "terminating"]).await?;
    cluster.set_finalizers(&item, &[]).await?;
    events.until("neighbourhood", |page| states(page).is_empty()).await?;
    collector.stop().await?;
    events.end().await?;
    stage.clear().await
}
