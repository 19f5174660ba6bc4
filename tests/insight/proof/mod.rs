//! Plans come true: random graphs, each root and policy. A plan is made, the object is deleted, the
//! collector does its work, and the objects and references that are left are compared.
//!
//! `KUBE_GC_PLAN_SEED` sets the seed, which every failure names, and `KUBE_GC_PLAN_GRAPHS` how many graphs
//! are drawn.

mod compare;
mod graphs;
mod planner;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube_gc_insight::Effect;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Cluster, Collector, Ns, Obj, Options, Policy};

use self::compare::Counts;
pub use self::compare::{Case, Moment};
use self::graphs::{Graph, POLICIES};
use self::planner::Planner;
pub use self::planner::{Shown, holds};
use crate::conformance::stage::Stage;

kube_gc_testkit::scenarios! {
    plans_of_random_graphs_come_true,
}

/// Graphs on the embedded server, and on a real one, which is slower.
const GRAPHS: [u64; 2] = [400, 100];
/// Graphs at a time.
const BATCH: u64 = 50;
/// Requests at a time.
const PARALLEL: usize = 16;

/// The number in a variable of the environment, or else this one.
fn number(variable: &'static str, default: u64) -> Result<u64> {
    match std::env::var(variable) {
        Ok(text) => text.parse().with_context(|| format!("{variable} is no number")),
        Err(_) => Ok(default),
    }
}

/// The deletions of some graphs, and the server at three moments.
struct Batch {
    cases: Vec<Case>,
    idle: Shown,
    released: Shown,
}

impl Batch {
    /// Creates a copy of each graph for each root and policy, plans, deletes, and looks.
    async fn play(cluster: &Cluster, collector: &Collector, graphs: &[Graph]) -> Result<Self> {
        let places = [cluster.namespace().await?, cluster.namespace().await?];
        let copies: Vec<(&Graph, usize, Policy)> = graphs
            .iter()
            .flat_map(|graph| (0..graph.len()).map(move |root| (graph, root)))
            .flat_map(|(graph, root)| POLICIES.map(|policy| (graph, root, policy)))
            .collect();
        let created: Vec<Vec<Obj>> = stream::iter(copies.iter().enumerate())
            .map(|(number, (graph, ..))| {
                let name = format!("{}-{number}", places[0].name());
                let places = &places;
                async move { graph.create(cluster, places, &name).await }
            })
            .buffered(PARALLEL)
            .try_collect()
            .await?;
        cluster.settled_with_parked(collector).await?;
        let before = Shown::now(cluster, &places).await?;
        let mut planner = Planner::of(&before)?;
        let mut cases = Vec::new();
        let mut roots = Vec::new();
        for ((graph, root, policy), objects) in copies.into_iter().zip(created) {
            // Garbage has gone by now, and perhaps the root with it.
            let there: Vec<Obj> =
                objects.iter().filter_map(|object| before.objects.get(&object.uid)).cloned().collect();
            let Some(of) = before.objects.get(&objects[root].uid) else { continue };
            let title = format!("graph {}, root {root}, {policy:?}: {graph:?}", graph.number);
            let plan = planner.plan(of, policy).with_context(|| title.clone())?;
            let had_deleted = there.iter().any(Obj::is_terminating);
            cases.push(Case { title, objects: there, had_deleted, plan });
            roots.push((of.clone(), policy));
        }
        let deletes = roots.iter().map(|(root, policy)| cluster.delete(root, *policy));
        stream::iter(deletes).buffer_unordered(PARALLEL).try_collect::<()>().await?;
        cluster.settled_with_parked(collector).await?;
        let idle = Shown::now(cluster, &places).await?;
        let held = idle.objects.values().filter(|object| !holds(object).is_empty());
        let releases = held.map(|object| release(cluster, object));
        stream::iter(releases).buffer_unordered(PARALLEL).try_collect::<()>().await?;
        cluster.settled_with_parked(collector).await?;
        let released = Shown::now(cluster, &places).await?;
        let left: Vec<&Obj> = released.objects.values().filter(|object| is_ours(object, &places)).collect();
        let removals = left.into_iter().map(|object| async move {
            cluster.set_owner_references(object, &[]).await?;
            cluster.set_finalizers(object, &[]).await?;
            cluster.delete(object, Policy::Background).await
        });
        // What is in deletion already goes with its finalizers.
        stream::iter(removals).buffer_unordered(PARALLEL).for_each(async |_: Result<()>| {}).await;
        Ok(Self { cases, idle, released })
    }

    fn differences(&self) -> Vec<String> {
        let each = self.cases.iter().flat_map(|case| {
            let idle = case.differences(&self.idle, Moment::Idle);
            let released = case.differences(&self.released, Moment::Released);
            idle.into_iter().chain(released)
        });
        each.collect()
    }
}

/// Removes the finalizers of others. The collector removes its own at the same time.
pub async fn release(cluster: &Cluster, object: &Obj) -> Result<()> {
    poll(&format!("{object} to lose its finalizers"), async || {
        if !cluster.exists_with_uid(object).await? {
            return Ok(true);
        }
        let Ok(fresh) = cluster.fresh(object).await else { return Ok(false) };
        let rest: Vec<&str> =
            fresh.finalizers().into_iter().filter(|name| !holds(&fresh).contains(name)).collect();
        Ok(cluster.set_finalizers(&fresh, &rest).await.is_ok())
    })
    .await
}

/// Whether an object is one of a graph: others of these types exist, too.
fn is_ours(object: &Obj, places: &[Ns; 2]) -> bool {
    object.name.starts_with(places[0].name())
}

/// A client without a network, if the server is in this process.
async fn client(stage: &Stage) -> Result<Cluster> {
    let client = match stage.plane.embedded() {
        Some(embedded) => kube::Client::new(embedded.server().clone(), "default"),
        None => stage.plane.client().await?,
    };
    Ok(Cluster::new(client))
}

/// A collector that writes no line for each of its many decisions, and has no doubt about the absence of
/// an owner for long.
async fn collector(stage: &Stage) -> Result<Collector> {
    let options = Options::config("[graph]\nbirth_grace = \"100ms\"\n");
    stage.collector_with(options.arg("--log-decisions").arg("none")).await
}

async fn plans_of_random_graphs_come_true() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = client(&stage).await?;
    let collector = collector(&stage).await?;
    let seed = number("KUBE_GC_PLAN_SEED", 20_261_125)?;
    let of = number("KUBE_GC_PLAN_GRAPHS", GRAPHS[usize::from(stage.plane.embedded().is_none())])?;
    let mut counts = Counts::new();
    let mut unsure = [0; 2];
    let mut next = 0;
    while next < of {
        let graphs: Vec<Graph> =
            (next..of.min(next + BATCH)).map(|number| Graph::draw(seed, number)).collect();
        next += BATCH;
        let batch = Batch::play(&cluster, &collector, &graphs).await;
        let batch = batch.with_context(|| format!("seed {seed}, before graph {next}"))?;
        let differences = batch.differences();
        ensure!(
            differences.is_empty(),
            "seed {seed}: {} differences, such as\n{}",
            differences.len(),
            differences[..differences.len().min(5)].join("\n")
        );
        for case in &batch.cases {
            case.count(&mut counts);
            case.count_unsure(&batch.released, &mut unsure);
        }
    }
    // The proof means something only if everything happens, and little is left open.
    for effect in [Effect::Deleted, Effect::Held, Effect::Blocks, Effect::Orphaned, Effect::Kept] {
        ensure!(counts.get(effect.into_str()).is_some_and(|count| *count > 0), "seed {seed}: {counts:?}");
    }
    let all: usize = counts.values().sum();
    let unknown = counts.get(Effect::Unknown.into_str()).copied().unwrap_or_default();
    ensure!(unknown * 20 < all, "seed {seed}: too much is unknown: {counts:?}");
    // If one of both never happened, the plan could be sure.
    let is_open = unsure.iter().all(|count| *count > 0) || of < GRAPHS[0];
    ensure!(is_open, "seed {seed}: of what is unknown, {unsure:?} went and stayed");
    eprintln!("seed {seed}: {of} graphs, {counts:?}; of what is unknown, {unsure:?} went and stayed");
    collector.stop().await?;
    stage.clear().await
}
