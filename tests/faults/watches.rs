//! Watches that end.

use anyhow::{Context as _, Result, ensure};

use crate::faults::stage::{Stage, requests};
use crate::insight::stream::Events;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::proxy::{Fault, Hold, Matcher, Reply, Request, Verb, WatchEnd};
use kube_gc_testkit::{Collector, Obj, Policy};

kube_gc_testkit::scenarios! {
    a_watch_that_ends_is_resumed_without_a_list,
    a_watch_answered_with_410_costs_one_list,
    a_list_that_fails_proves_nothing,
    a_stream_tells_which_types_are_not_watched,
    a_version_seen_only_in_a_bookmark_counts_as_seen,
}

/// A collector whose watch of Secrets was ended, and the changes since then.
struct Gap {
    stage: Stage,
    collector: Collector,
    mark: usize,
    resumed: Hold,
    kept: Obj,
    dependents: Vec<Obj>,
    created: Obj,
    late: Obj,
}

impl Gap {
    /// Ends the watch. It can resume only after three changes: an owner is deleted, a dependent of
    /// another type is released as a consequence, and objects are created.
    async fn open(cut: WatchEnd) -> Result<Self> {
        let stage = Stage::set().await?;
        let ns = &stage.ns;
        let collector = stage.collector().await?;
        let owner = ns.secret("owner").create().await?;
        let other = ns.secret("other").create().await?;
        let kept = ns.secret("kept").create().await?;
        let dependents = vec![
            ns.configmap("of-owner").owned_by(&owner).create().await?,
            ns.secret("of-owner").owned_by(&owner).create().await?,
            ns.pod("of-other").owned_by(&other).create().await?,
        ];
        stage.cluster.settled(&collector).await?;
        stage.proxy.watching("secrets").await?;
        let mark = stage.proxy.mark();
        let resumed = stage.proxy.hold(Matcher::verb(Verb::Watch).of("secrets"));
        ensure!(stage.proxy.cut(Some("secrets"), cut) == 1, "there was no watch to cut");
        stage.cluster.delete(&owner, Policy::Background).await?;
        stage.cluster.delete(&other, Policy::Background).await?;
        // The namesake is a different object.
        let created = ns.secret("other").owned_by(&kept).create().await?;
        let late = ns.secret("late").owned_by(&owner).create().await?;
        Ok(Self { stage, collector, mark, resumed, kept, dependents, created, late })
    }

    /// Waits for the attempt to resume. Returns it, and the lists since the watch ended.
    async fn resume(mut self, fault: Option<Fault>) -> Result<(Request, Vec<Request>)> {
        let held = self.resumed.next().await?;
        let request = held.request.clone();
        match fault {
            None => held.pass(),
            Some(fault) => held.end(fault),
        }
        let Self { stage, collector, mark, resumed, kept, dependents, created, late } = self;
        drop(resumed);
        stage.cluster.settled(&collector).await?;
        stage.cluster.assert_gone(&dependents).await?;
        stage.cluster.assert_gone([&late]).await?;
        stage.assert_owners(&created, &[&kept]).await?;
        stage.cluster.delete(&kept, Policy::Background).await?;
        stage.cluster.settled(&collector).await?;
        stage.cluster.assert_gone([&created]).await?;
        let lists = requests(stage.proxy.since(mark, &Matcher::verb(Verb::List).when(Request::is_full_list)));
        collector.stop().await?;
        Ok((request, lists))
    }
}

/// A watch that has ended is resumed, at once or after an error. Nothing is lost, and nothing is listed
/// (rule 1.19). Fails if a watch starts anew after it has ended.
async fn a_watch_that_ends_is_resumed_without_a_list() -> Result<()> {
    let broken = Some(Fault::Instead(Reply::broken()));
    for (end, fault) in [(WatchEnd::Cleanly, None), (WatchEnd::Abruptly, None), (WatchEnd::Abruptly, broken)]
    {
        let (request, lists) = Gap::open(end).await?.resume(fault).await?;
        ensure!(request.query.contains("resourceVersion="), "{request}");
        ensure!(lists.is_empty(), "{lists:#?}");
    }
    Ok(())
}

/// The version has expired, so this type is listed, once, and not from a cache that is older. Objects that
/// the list lacks are gone (rules 1.16 and 1.19). Fails if the graph keeps them, or if every type is listed.
async fn a_watch_answered_with_410_costs_one_list() -> Result<()> {
    let expired = Some(Fault::Instead(Reply::expired()));
    let (_, lists) = Gap::open(WatchEnd::Cleanly).await?.resume(expired).await?;
    ensure!(lists.len() == 1 && lists[0].resource == "secrets", "{lists:#?}");
    let query = &lists[0].query;
    let not_older =
        query.contains("resourceVersionMatch=NotOlderThan") && !query.contains("resourceVersion=0");
    ensure!(not_older || !query.contains("resourceVersion"), "{query}");
    Ok(())
}

/// A list that breaks off says nothing about the objects that it did not reach (rule 1.18). Fails
/// if these objects count as gone.
async fn a_list_that_fails_proves_nothing() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.secret("owner").create().await?;
    let dependent = ns.configmap("dependent").owned_by(&owner).create().await?;
    stage.cluster.settled(&collector).await?;
    let empty = serde_json::json!({ "kind": "SecretList", "apiVersion": "v1", "items": [] });
    let broken_off = empty.to_string();
    let mut lists = stage.proxy.hold(Matcher::verb(Verb::List).of("secrets"));
    ensure!(stage.proxy.cut(Some("secrets"), WatchEnd::Expired) == 1);
    let ends = [
        Fault::Instead(Reply::broken()),
        Fault::Instead(Reply::status(403, "Forbidden", "made by the test")),
        Fault::Instead(Reply::status(404, "NotFound", "made by the test")),
        Fault::Instead(Reply::text(200, &broken_off[..broken_off.len() - 2])),
        Fault::AnswerLost,
    ];
    for end in ends {
        lists.next().await?.end(end);
    }
    drop(lists);
    stage.cluster.settled(&collector).await?;
    stage.assert_owners(&dependent, &[&owner]).await?;
    ensure!(stage.of(Verb::Delete, &dependent).is_empty(), "the collector tried to delete {dependent}");
    collector.stop().await
}

/// A list fails and is tried again, which changes nothing in the graph. Fails if a stream looks only
/// when the graph changes.
async fn a_stream_tells_which_types_are_not_watched() -> Result<()> {
    let stage = Stage::set().await?;
    let collector = stage.collector().await?;
    let root = stage.ns.configmap("root").create().await?;
    let item = stage.ns.secret("item").owned_by(&root).create().await?;
    stage.cluster.settled(&collector).await?;
    let mut events = Events::of(&collector, &format!("/debug/stream?uid={}", root.uid)).await?;
    let shows = |page: &serde_json::Value, unseen: usize| {
        let count = |field: &str| page[field].as_array().map(Vec::len);
        count("nodes") == Some(2) && count("incomplete") == Some(unseen)
    };
    events.until("neighbourhood", |page| shows(page, 0)).await?;
    let rule = stage.proxy.always(Matcher::verb(Verb::List).of("secrets"), Fault::Instead(Reply::broken()));
    ensure!(stage.proxy.cut(Some("secrets"), WatchEnd::Expired) == 1);
    events.until("neighbourhood", |page| shows(page, 1)).await?;
    rule.remove();
    events.until("neighbourhood", |page| shows(page, 0)).await?;
    stage.cluster.delete(&root, Policy::Background).await?;
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone([&item]).await?;
    collector.stop().await
}

/// `/debug/idle?seen=` names the version of a list, which no event of the type ever has. Fails if
/// only events count: the client would wait until the type changes next.
async fn a_version_seen_only_in_a_bookmark_counts_as_seen() -> Result<()> {
    let stage = Stage::set().await?;
    let (cluster, ns) = (&stage.cluster, &stage.ns);
    let collector = stage.collector().await?;
    ns.secret("last").create().await?;
    cluster.settled(&collector).await?;
    // All types share the versions.
    ns.configmap("other").create().await?;
    let path = format!("/api/v1/namespaces/{}/secrets?limit=1", ns.name());
    let list = cluster.send("GET", &path, None, None).await?;
    let now = list["metadata"]["resourceVersion"].as_str().context("no version")?;

    let seen = async || {
        let report = collector.get_debug(&format!("/debug/idle?seen=secrets%3D{now}")).await?.json()?;
        Ok(report["not_seen"].as_array().is_some_and(Vec::is_empty))
    };
    ensure!(stage.proxy.bookmark("v1", "Secret", "secrets", now) == 1, "no watch");
    poll("the version to be seen", seen).await?;
    collector.stop().await
}
