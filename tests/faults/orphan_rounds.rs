//! The cost of orphaning many owners at once.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};

use crate::faults::stage::{Stage, requests};
use kube_gc_testkit::cluster::create_all;
use kube_gc_testkit::proxy::{Fault, Matcher, Reply, Request, Verb};
use kube_gc_testkit::{Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    orphaning_fifty_owners_at_once_costs_few_rounds,
    a_round_lists_one_namespace_consistently,
    a_round_that_cannot_list_a_synced_type_is_repeated,
    a_type_discovered_during_a_round_is_listed,
}

const GIZMOS: &str = "gizmos.example.com";
const OWNERS: usize = 50;
/// One round that is in progress when the deletions arrive, and a few for those that arrive during
/// this round or the next one.
const ROUNDS: usize = 6;

/// One round serves all owners of a namespace whose deletion was seen before the round began (rule
/// 5.7). Fails if every owner costs a round of its own (50 rounds), or if only the owners that the
/// workers hold at the same time share one (10 rounds or more, with 5 workers).
async fn orphaning_fifty_owners_at_once_costs_few_rounds() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owners = create_all((0..OWNERS).map(|n| ns.secret(format!("owner-{n}")))).await?;
    let dependents =
        create_all(owners.iter().map(|owner| ns.configmap(owner.name.clone()).owned_by(owner))).await?;
    stage.cluster.settled(&collector).await?;
    // No round ends before all deletions have been seen and all workers are about to request one.
    let mut lists = stage.proxy.hold(stage.here(Verb::List));
    stage.cluster.delete_all(&owners, Policy::Orphan).await?;
    let first = lists.next().await?;
    for owner in &owners {
        let owner = stage.cluster.fresh(owner).await?;
        stage.seen(&collector, &owner).await?;
    }
    stage.proxy.answered(OWNERS, &stage.here(Verb::Patch).of("configmaps")).await?;
    first.pass();
    drop(lists);
    stage.cluster.settled(&collector).await?;

    stage.cluster.assert_gone(&owners).await?;
    for dependent in &dependents {
        stage.assert_owners(dependent, &[]).await?;
    }
    let mut by_type: BTreeMap<String, usize> = BTreeMap::new();
    for list in requests(stage.proxy.all(&stage.here(Verb::List))) {
        *by_type.entry(list.resource).or_default() += 1;
    }
    let rounds = by_type.values().max().copied().context("no round at all")?;
    ensure!(rounds <= ROUNDS, "{rounds} rounds: {by_type:#?}");
    collector.stop().await
}

/// For a namespaced owner, a round lists only its namespace and only namespaced types, and the
/// lists are consistent (rules 5.6 and 5.15). Fails if a round reads from the API server's cache
/// (`resourceVersion`), which may be as late as the watch.
async fn a_round_lists_one_namespace_consistently() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.secret("owner").create().await?;
    stage.cluster.settled(&collector).await?;
    let mark = stage.proxy.mark();
    stage.cluster.delete(&owner, Policy::Orphan).await?;
    stage.cluster.settled(&collector).await?;

    stage.cluster.assert_gone([&owner]).await?;
    let lists = requests(stage.proxy.since(mark, &Matcher::verb(Verb::List)));
    let lists: Vec<_> = lists.into_iter().filter(|list| list.is_full_list()).collect();
    ensure!(!lists.is_empty(), "no round");
    for list in &lists {
        ensure!(list.namespace.as_deref() == Some(ns.name()), "{list}");
        ensure!(!list.query.contains("resourceVersion"), "{list}");
    }
    ensure!(lists.iter().any(|list| list.resource == "configmaps"));
    ensure!(lists.iter().all(|list| list.resource != "nodes"), "a cluster-scoped type in a namespace");
    collector.stop().await
}

/// A list that fails keeps the finalizer if the monitor of the type is synced, because
/// the type can hold late dependents (rule 5.8). Fails if the failed type is passed over:
/// `late` would lose its owner and then be deleted.
async fn a_round_that_cannot_list_a_synced_type_is_repeated() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector_with(Options::config("[retry]\nmax = \"1s\"\n")).await?;
    let owner = ns.secret("owner").create().await?;
    stage.cluster.settled(&collector).await?;
    let events = stage.proxy.hold_events(Matcher::resource("configmaps").within(ns.name()));
    let late = ns.configmap("late").owned_by(&owner).create().await?;
    events.caught().await?;
    let broken = stage.proxy.always(stage.here(Verb::List).of("configmaps"), Fault::Instead(Reply::broken()));
    stage.cluster.delete(&owner, Policy::Orphan).await?;
    broken.hit(3).await?;
    ensure!(stage.of(Verb::Patch, &owner).is_empty(), "the finalizer went before the round was done");
    stage.cluster.assert_kept([&owner]).await?;
    broken.remove();
    stage.gone(&owner).await?;
    stage.assert_owners(&late, &[]).await?;
    events.release();
    stage.cluster.settled(&collector).await?;
    stage.assert_owners(&late, &[]).await?;
    collector.stop().await
}

/// A round includes a type that is discovered while the round is under way (rule 5.9). The monitor
/// of the type has shown nothing yet, so nothing else knows the dependent. Fails if a round lists
/// only the types that were known when it began.
async fn a_type_discovered_during_a_round_is_listed() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let owner = ns.secret("owner").create().await?;
    stage.cluster.settled(&collector).await?;
    let mut lists = stage.proxy.hold(stage.here(Verb::List));
    stage.cluster.delete(&owner, Policy::Orphan).await?;
    let first = lists.next().await?;

    let everywhere = |request: &Request| request.namespace.is_none();
    let mut monitor = stage.proxy.hold(Matcher::verb(Verb::List).of(GIZMOS).when(everywhere));
    let gizmos = stage.cluster.crd(GIZMOS, Scope::Namespaced, &["v1"]).await?;
    let late = ns.object(gizmos.resource(), "late").owned_by(&owner).create().await?;
    // The rounds hear of a type before its monitor starts.
    let unread = monitor.next().await?;
    first.pass();
    drop(lists);
    stage.gone(&owner).await?;

    stage.assert_owners(&late, &[]).await?;
    unread.pass();
    drop(monitor);
    stage.cluster.settled(&collector).await?;
    stage.assert_owners(&late, &[]).await?;
    collector.stop().await?;
    gizmos.remove().await
}
