//! Dependents that appear late during the orphaning of their owner (kubernetes/kubernetes#26120), which may
//! have many others, and the cost of orphaning many owners at once.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};

use crate::faults::stage::{Stage, requests};
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Fault, Matcher, Reply, Request, Verb};
use kube_gc_testkit::{Collector, Obj, Policy, Scope};

kube_gc_testkit::scenarios! {
    an_orphaned_owner_is_remembered_when_the_watch_repeats_events,
    an_owner_that_is_itself_being_orphaned_is_postponed_and_not_forgotten,
    a_late_dependent_is_released_before_its_owner_goes,
    a_dependent_among_many_that_names_an_unserved_version_is_released,
    orphaning_fifty_owners_at_once_costs_few_rounds,
    a_round_lists_one_namespace_consistently,
    a_type_discovered_during_a_round_is_listed,
}

const GIZMOS: &str = "gizmos.example.com";
const OWNERS: usize = 50;
/// One round that is in progress when the deletions arrive, and a few for those that arrive during
/// this round or the next one.
const ROUNDS: usize = 6;

/// The dependent is created after the round, is in no list, and is observed only when the owner is gone,
/// whose last events the watch repeats (rules 5.11 and 10.3). Fails if the owner is not remembered, or
/// forgotten because it was seen again: the dependent, whose release has failed so far, would be deleted.
async fn an_orphaned_owner_is_remembered_when_the_watch_repeats_events() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    // The events of the owner, and later ones.
    stage.proxy.echo(8);
    let owner = ns.secret("owner").create().await?;
    let mut patches = stage.proxy.hold(Matcher::object(Verb::Patch, &owner));
    let events = stage.proxy.hold_events(Matcher::resource("configmaps").within(ns.name()));
    stage.cluster.delete(&owner, Policy::Orphan).await?;
    let held = patches.next().await?;
    let late = ns.configmap("late").owned_by(&owner).create().await?;
    events.caught().await?;
    held.pass();
    drop(patches);
    stage.gone(&owner).await?;

    let failing = stage.proxy.always(Matcher::object(Verb::Patch, &late), Fault::Instead(Reply::broken()));
    events.release();
    failing.hit(1).await?;
    let other = ns.secret("other").create().await?;
    stage.seen(&collector, &other).await?;
    // The repeated events after it arrive before any later event.
    stage.proxy.echo(0);
    let last = ns.secret("last").create().await?;
    stage.seen(&collector, &last).await?;
    failing.remove();
    stage.cluster.settled(&collector).await?;
    stage.assert_owners(&late, &[]).await?;
    ensure!(stage.of(Verb::Delete, &late).is_empty());
    collector.stop().await
}

/// No queued key is lost (rule 8.2). A parent and its child are both deleted with Orphan.
/// The event of the patch that releases the child has not arrived when the child's own
/// dependents are released. Fails if the child is dropped for that reason: its finalizer
/// would stay forever, as nothing about the child changes any more.
async fn an_owner_that_is_itself_being_orphaned_is_postponed_and_not_forgotten() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = &stage.ns;
    let collector = stage.collector().await?;
    let parent = ns.secret("parent").create().await?;
    let child = ns.configmap("child").owned_by(&parent).create().await?;
    let dependent = ns.secret("dependent").owned_by(&child).create().await?;
    stage.cluster.settled(&collector).await?;

    let mut releases = stage.proxy.hold(Matcher::object(Verb::Patch, &dependent));
    stage.cluster.delete(&child, Policy::Orphan).await?;
    let release = releases.next().await?;
    let events = stage.proxy.hold_events(Matcher::resource("configmaps").within(ns.name()));
    stage.cluster.delete(&parent, Policy::Orphan).await?;
    events.caught().await?;
    stage.gone(&parent).await?;
    release.pass();
    drop(releases);
    poll("the child to be put off", async || {
        let queues = collector.get_debug("/debug/queues").await?;
        Ok(queues.body.contains("the watch does not show an earlier write of kube-gc yet"))
    })
    .await?;

    events.release();
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone([&child]).await?;
    stage.assert_owners(&dependent, &[]).await?;
    collector.stop().await
}

/// More than one page of dependents.
const KNOWN: usize = 200;

/// An owner before its orphaning, and one more dependent whose event is late.
struct Late {
    stage: Stage,
    collector: Collector,
    owner: Obj,
    known: Vec<Obj>,
}

impl Late {
    async fn set(scope: Scope, known: usize) -> Result<Self> {
        let stage = Stage::set().await?;
        let ns = &stage.ns;
        let collector = stage.collector().await?;
        let owner = match scope {
            Scope::Namespaced => ns.secret("owner").create().await?,
            Scope::Cluster => stage.cluster.node(format!("owner-{}", ns.name())).create().await?,
        };
        let known = (0..known).map(|n| ns.configmap(format!("known-{n}")).owned_by(&owner));
        let known = create_all(known).await?;
        stage.cluster.settled(&collector).await?;
        Ok(Self { stage, collector, owner, known })
    }

    /// The number of rounds.
    fn rounds(&self) -> usize {
        requests(self.stage.proxy.all(&self.stage.here(Verb::List).of("secrets"))).len()
    }

    async fn assert_released(&self, late: &Obj) -> Result<()> {
        for dependent in self.known.iter().chain([late]) {
            self.stage.assert_owners(dependent, &[]).await?;
        }
        ensure!(self.stage.of(Verb::Delete, late).is_empty());
        self.collector.log_line(r#""late_dependents":1"#).await?;
        Ok(())
    }
}

/// The dependent was created before the DELETE was sent, and its watch stands still (rules 5.5, 5.6, 5.10
/// and 10.3). Fails without the confirming lists: the dependent is deleted when its event arrives.
async fn a_late_dependent_is_released_before_its_owner_goes() -> Result<()> {
    for (scope, known) in [(Scope::Namespaced, 1), (Scope::Cluster, 1), (Scope::Namespaced, KNOWN)] {
        let scene = Late::set(scope, known).await?;
        let stage = &scene.stage;
        // Dependents of an owner in no namespace are in any.
        let other = stage.cluster.namespace().await?;
        let ns = if scope == Scope::Cluster { &other } else { &stage.ns };
        let events = stage.proxy.hold_events(Matcher::resource("configmaps").within(ns.name()).named("late"));
        let late = ns.configmap("late").owned_by(&scene.owner).create().await?;
        events.caught().await?;
        stage.cluster.delete(&scene.owner, Policy::Orphan).await?;
        stage.gone(&scene.owner).await?;

        stage.assert_owners(&late, &[]).await?;
        events.release();
        stage.cluster.settled(&scene.collector).await?;
        scene.assert_released(&late).await?;
        ensure!(known == 1 || scene.rounds() == 1, "{} rounds", scene.rounds());
        scene.collector.stop().await?;
    }
    Ok(())
}

/// The round sees a reference through a version that is not served, which the graph does
/// not resolve to the owner (rule 5.10). Fails if only dependents that the graph knows are released:
/// the owner would be removed before its last reference.
async fn a_dependent_among_many_that_names_an_unserved_version_is_released() -> Result<()> {
    let scene = Late::set(Scope::Namespaced, KNOWN).await?;
    let (stage, ns) = (&scene.stage, &scene.stage.ns);
    let mut reference = scene.owner.reference();
    reference["apiVersion"] = "v9".into();
    let late = ns.configmap("late").owner_reference(reference).create().await?;
    stage.seen(&scene.collector, &late).await?;
    stage.cluster.delete(&scene.owner, Policy::Orphan).await?;
    stage.gone(&scene.owner).await?;

    scene.assert_released(&late).await?;
    stage.cluster.settled(&scene.collector).await?;
    scene.collector.stop().await
}

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
