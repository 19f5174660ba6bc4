//! Objects that change while they are decided about.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::outcome::Rest;
use crate::stage::{Stage, slow};
use crate::support::cluster::{create_all, is_status, poll};
use crate::support::{Cluster, Collector, Ns, Obj, Options, Policy};

/// A hundred updates a second.
const PERIOD: Duration = Duration::from_millis(10);
/// How many updates of one object are under way at a time.
const UNDER_WAY: usize = 8;
/// How long collection may take under churn. Without, it takes milliseconds.
const NOT_STARVED: Duration = Duration::from_secs(10);
/// How many objects a race is about.
const RACED: usize = 200;
/// How many changes are under way at a time in a race.
const RACERS: usize = 16;
const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// A client that updates one object again and again, until it is gone or until
/// this is dropped.
struct Churn {
    task: JoinHandle<()>,
    updates: Arc<AtomicUsize>,
}

impl Churn {
    /// Begins to send patches to a path; each sets something to a new number.
    fn begin(cluster: &Cluster, path: String, patch: impl Fn(usize) -> Value + Send + 'static) -> Self {
        let updates = Arc::new(AtomicUsize::new(0));
        let (cluster, counted) = (cluster.clone(), Arc::clone(&updates));
        let task = tokio::spawn(async move {
            let mut ticks = interval(PERIOD);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            let mut under_way = JoinSet::new();
            for number in 0.. {
                ticks.tick().await;
                let (cluster, path, body) = (cluster.clone(), path.clone(), patch(number));
                under_way
                    .spawn(async move { cluster.send("PATCH", &path, Some(MERGE_PATCH), Some(&body)).await });
                while let Some(answer) = match under_way.len() {
                    UNDER_WAY.. => under_way.join_next().await,
                    _ => under_way.try_join_next(),
                } {
                    match answer {
                        Ok(Ok(_)) => drop(counted.fetch_add(1, Ordering::Relaxed)),
                        Ok(Err(error)) if is_status(&error, 404) => return,
                        // The server gives up on a patch after five conflicts with others.
                        Ok(Err(_)) | Err(_) => {}
                    }
                }
            }
        });
        Self { task, updates }
    }

    /// Begins to change a label.
    fn of_label(cluster: &Cluster, object: &Obj) -> Self {
        Self::begin(
            cluster,
            object.path(),
            |number| json!({ "metadata": { "labels": { "churn": number.to_string() } } }),
        )
    }

    /// Begins to change a message in the status.
    fn of_status(cluster: &Cluster, object: &Obj) -> Self {
        Self::begin(
            cluster,
            object.path() + "/status",
            |number| json!({ "status": { "message": number.to_string() } }),
        )
    }

    /// Waits until it is well under way.
    async fn is_felt(&self) -> Result<()> {
        poll("the churn", async || Ok(self.updates.load(Ordering::Relaxed) >= 20)).await
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// 19: neither labels nor a status that change a hundred times a second keep an
/// object from being collected, or its owner from going.
#[tokio::test]
async fn churn_does_not_starve_collection() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let collector = stage.collector().await?;
    for policy in [Policy::Background, Policy::Foreground, Policy::Orphan] {
        let ns = cluster.namespace().await?;
        let owner = ns.configmap("owner").create().await?;
        let labelled = ns.secret("labelled").owned_by(&owner).blocking().create().await?;
        let reporting = ns.pod("reporting").owned_by(&owner).blocking().create().await?;
        cluster.settled(&collector).await?;

        let churns = [
            Churn::of_label(cluster, &owner),
            Churn::of_label(cluster, &labelled),
            Churn::of_status(cluster, &reporting),
        ];
        for churn in &churns {
            churn.is_felt().await?;
        }
        let begun = Instant::now();
        cluster.delete(&owner, policy).await?;
        let before: Vec<usize> = churns.iter().map(|churn| churn.updates.load(Ordering::Relaxed)).collect();
        poll("the end of the cascade", async || {
            if cluster.exists_with_uid(&owner).await? {
                return Ok(false);
            }
            if policy == Policy::Orphan {
                let [labelled, reporting] =
                    [cluster.fresh(&labelled).await?, cluster.fresh(&reporting).await?];
                return Ok(labelled.owner_uids().is_empty() && reporting.owner_uids().is_empty());
            }
            Ok(cluster.assert_gone([&labelled, &reporting]).await.is_ok())
        })
        .await?;
        let took = begun.elapsed();
        let during: Vec<usize> = churns
            .iter()
            .zip(before)
            .map(|(churn, before)| churn.updates.load(Ordering::Relaxed) - before)
            .collect();
        drop(churns);
        eprintln!("{policy:?}: {took:?}, with {during:?} updates meanwhile");
        ensure!(took < NOT_STARVED, "{policy:?} took {took:?}, with {during:?} updates meanwhile");
        cluster.settled(&collector).await?;
        if policy == Policy::Orphan {
            cluster.assert_kept([&labelled, &reporting]).await?;
        }
    }
    collector.stop().await?;
    stage.clear().await
}

/// 19, where every request of the collector takes so long that the dependent has
/// changed several times since it was read: a version is never the right one.
#[tokio::test]
async fn churn_does_not_starve_a_collector_that_is_slower() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let collector = stage.collector_with(slow(20)).await?;
    for policy in [Policy::Background, Policy::Foreground, Policy::Orphan] {
        let ns = cluster.namespace().await?;
        let owner = ns.configmap("owner").create().await?;
        let other = ns.configmap("other").create().await?;
        let churned = create_all([
            ns.secret("sole").owned_by(&owner).blocking(),
            ns.pod("sole").owned_by(&owner).blocking(),
            ns.secret("shared").owned_by(&owner).owned_by(&other),
        ])
        .await?;
        cluster.settled(&collector).await?;
        let churns: Vec<Churn> = churned.iter().map(|object| Churn::of_label(cluster, object)).collect();
        for churn in &churns {
            churn.is_felt().await?;
        }
        let begun = Instant::now();
        cluster.delete(&owner, policy).await?;
        for (number, object) in churned.iter().enumerate() {
            let goes = number < 2 && policy != Policy::Orphan;
            let what = format!("{policy:?}: {object}");
            poll(&what, async || match cluster.get(object).await? {
                None => Ok(goes),
                Some(now) => Ok(!goes && !now.owner_uids().contains(&owner.uid.as_str())),
            })
            .await?;
            eprintln!("{what}: {:?}", begun.elapsed());
        }
        drop(churns);
        cluster.settled(&collector).await?;
        cluster.assert_gone([&owner]).await?;
    }
    collector.stop().await?;
    stage.clear().await
}

/// How a change fared that came while its object was to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fared {
    /// It was in time: the answer shows an object that is not being deleted.
    InTime,
    /// The deletion had begun.
    Terminating,
    /// The object was gone.
    TooLate,
}

/// Sends every object a JSON patch, and deletes the owner when a quarter of
/// them are under way.
async fn race(
    cluster: &Cluster,
    owner: &Obj,
    policy: Policy,
    raced: &[&Obj],
    change: &Value,
    at_a_time: usize,
) -> Result<Vec<Fared>> {
    let quarter = raced.len() / 4;
    let send = async |(number, object): (usize, &&Obj)| {
        if number == quarter {
            cluster.delete(owner, policy).await?;
        }
        match cluster.send("PATCH", &object.path(), Some(JSON_PATCH), Some(change)).await {
            Ok(answer) if answer["metadata"]["deletionTimestamp"].is_string() => Ok(Fared::Terminating),
            Ok(_) => Ok(Fared::InTime),
            Err(error) if is_status(&error, 404) => Ok(Fared::TooLate),
            Err(error) => bail!("{object}: {error:#}"),
        }
    };
    stream::iter(raced.iter().enumerate().map(send)).buffered(at_a_time).try_collect().await
}

/// The order in which a round of a race changes its objects.
fn in_order_of(round: usize, objects: &[Obj]) -> Vec<&Obj> {
    match round {
        0 => objects.iter().collect(),
        1 => objects.iter().rev().collect(),
        _ => (0..objects.len()).map(|number| &objects[number * 77 % objects.len()]).collect(),
    }
}

/// A patch that adds to a list, which is there already or not.
fn add(list: &str, is_there: bool, value: &Value) -> Value {
    match is_there {
        true => json!([{ "op": "add", "path": format!("/metadata/{list}/-"), "value": value }]),
        false => json!([{ "op": "add", "path": format!("/metadata/{list}"), "value": [value] }]),
    }
}

/// Collectors to race with, and how many changes are under way at a time. The
/// second one waits between a decision and the request that follows from it, so
/// that many changes come just then.
fn opponents() -> [(Options, usize); 2] {
    [(Options::default(), RACERS), (slow(200), 1)]
}

/// Fails unless both sides have won at times, and a change has come between a
/// decision and its request: else nothing was raced.
async fn was_close(collector: &Collector, fared: &[Fared]) -> Result<()> {
    let in_time = fared.iter().filter(|fared| **fared == Fared::InTime).count();
    let conflicts = collector.metrics().await?.into_iter().filter(|(series, _)| {
        series.starts_with("kube_gc_requests_total{") && series.contains("code=\"409\"")
    });
    let conflicts: f64 = conflicts.map(|(_, count)| count).sum();
    eprintln!("{in_time} of {} changes were in time, {conflicts} requests came too late", fared.len());
    ensure!(in_time > 0 && in_time < fared.len(), "{in_time} of {} changes were in time", fared.len());
    Ok(())
}

/// 19: a solid owner that is added before the DELETE takes effect saves the
/// object, however late.
#[tokio::test]
async fn an_owner_added_in_time_saves_an_object() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    for (options, at_a_time) in opponents() {
        let collector = stage.collector_with(options).await?;
        let mut all = Vec::new();
        for round in 0..3 {
            let ns = cluster.namespace().await?;
            let solid = ns.configmap("solid").create().await?;
            let owner = ns.configmap("owner").create().await?;
            let dependents =
                create_all((0..RACED).map(|n| ns.secret(format!("d-{n}")).owned_by(&owner))).await?;
            cluster.settled(&collector).await?;

            let raced = in_order_of(round, &dependents);
            let change = add("ownerReferences", true, &solid.reference());
            let fared = race(cluster, &owner, Policy::Background, &raced, &change, at_a_time).await?;
            cluster.settled(&collector).await?;
            for (object, fared) in raced.into_iter().zip(&fared) {
                match (cluster.get(object).await?, fared) {
                    (Some(now), Fared::InTime) => {
                        ensure!(now.uid == object.uid && !now.is_terminating(), "{now}: {}", now.raw);
                        ensure!(now.owner_uids() == [solid.uid.as_str()], "{now}: {:?}", now.owner_uids());
                    }
                    (None, Fared::InTime) => bail!("{object} was deleted after a solid owner had been added"),
                    (Some(now), _) => bail!("{now} is still there: {}", now.raw),
                    (None, _) => {}
                }
            }
            all.extend(fared);
        }
        was_close(&collector, &all).await?;
        collector.stop().await?;
    }
    stage.clear().await
}

/// 19: the finalizer `orphan` that is added before the DELETE takes effect
/// decides what becomes of the dependents.
#[tokio::test]
async fn an_orphan_finalizer_added_in_time_is_honoured() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    for (options, at_a_time) in opponents() {
        let collector = stage.collector_with(options).await?;
        let mut all = Vec::new();
        for round in 0..3 {
            let ns = cluster.namespace().await?;
            let owner = ns.configmap("owner").create().await?;
            let raced =
                create_all((0..RACED / 2).map(|n| ns.secret(format!("d-{n}")).owned_by(&owner))).await?;
            let leaves = create_all(
                raced.iter().map(|middle| ns.configmap(format!("of-{}", middle.name)).owned_by(middle)),
            )
            .await?;
            cluster.settled(&collector).await?;

            let ordered = in_order_of(round, &raced);
            let change = add("finalizers", false, &json!("orphan"));
            let fared = race(cluster, &owner, Policy::Background, &ordered, &change, at_a_time).await?;
            cluster.settled(&collector).await?;
            cluster.assert_gone(&raced).await?;
            for (middle, fared) in ordered.into_iter().zip(&fared) {
                let name = format!("of-{}", middle.name);
                let Some(leaf) = leaves.iter().find(|leaf| leaf.name == name) else { bail!("no {name}") };
                match (cluster.get(leaf).await?, fared) {
                    (Some(now), Fared::InTime) => {
                        ensure!(now.uid == leaf.uid && !now.is_terminating(), "{now}: {}", now.raw);
                        ensure!(now.owner_uids().is_empty(), "{now}: {:?}", now.owner_uids());
                    }
                    (None, Fared::InTime) => bail!("{leaf} was not orphaned"),
                    (Some(now), _) => bail!("{now} is still there: {}", now.raw),
                    (None, _) => {}
                }
            }
            all.extend(fared);
        }
        was_close(&collector, &all).await?;
        collector.stop().await?;
    }
    stage.clear().await
}

/// What could be a circle of foreground deletions.
struct Circles {
    /// Is deleted in the foreground at last.
    owner: Obj,
    /// Are owned by it, block it, and have dependents of their own.
    middles: Vec<Obj>,
    /// Those dependents; they are being deleted in the foreground already.
    leaves: Vec<Obj>,
    /// What the leaves wait for.
    held: Vec<Obj>,
}

impl Circles {
    async fn make(stage: &Stage, collector: &Collector, ns: &Ns, count: usize) -> Result<Self> {
        let owner = ns.configmap("owner").create().await?;
        let middle = |n| ns.secret(format!("m-{n}")).owned_by(&owner).blocking();
        let middles = create_all((0..count).map(middle)).await?;
        let leaf = |middle: &Obj| ns.configmap(format!("leaf-{}", middle.name)).owned_by(middle);
        let leaves = create_all(middles.iter().map(leaf)).await?;
        let hold = |leaf: &Obj| {
            ns.configmap(format!("held-{}", leaf.name))
                .owned_by(leaf)
                .blocking()
                .finalizer("example.com/hold")
        };
        let held = create_all(leaves.iter().map(hold)).await?;
        stage.cluster.delete_all(&leaves, Policy::Foreground).await?;
        stage.cluster.settled(collector).await?;
        stage.cluster.assert_kept(middles.iter().chain(&leaves).chain(&held)).await?;
        Ok(Self { owner, middles, leaves, held })
    }
}

/// 19: before an object that might be part of a circle is deleted, it stops
/// blocking its owners. An owner that is added between that patch and the
/// DELETE saves it.
#[tokio::test]
async fn an_owner_added_after_the_unblocking_patch_saves_an_object() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    for (options, at_a_time) in opponents() {
        let collector = stage.collector_with(options).await?;
        let mut all = Vec::new();
        for round in 0..3 {
            let ns = cluster.namespace().await?;
            let solid = ns.configmap("solid").create().await?;
            let Circles { owner, middles, leaves, held } =
                Circles::make(&stage, &collector, &ns, RACED / 4).await?;

            let raced = in_order_of(round, &middles);
            let change = add("ownerReferences", true, &solid.reference());
            let fared = race(cluster, &owner, Policy::Foreground, &raced, &change, at_a_time).await?;
            cluster.settled(&collector).await?;
            stream::iter(held.iter().map(async |held| cluster.set_finalizers(held, &[]).await.map(drop)))
                .buffer_unordered(RACERS)
                .try_collect::<()>()
                .await?;
            stage.settled(&collector, Rest::Empty).await?;
            cluster.assert_gone(leaves.iter().chain(&held).chain([&owner])).await?;
            for (object, fared) in raced.into_iter().zip(&fared) {
                match (cluster.get(object).await?, fared) {
                    (Some(now), Fared::InTime) => {
                        ensure!(now.uid == object.uid && !now.is_terminating(), "{now}: {}", now.raw);
                        ensure!(now.owner_uids() == [solid.uid.as_str()], "{now}: {:?}", now.owner_uids());
                    }
                    (None, Fared::InTime) => bail!("{object} was deleted after a solid owner had been added"),
                    (Some(now), _) => bail!("{now} is still there: {}", now.raw),
                    (None, _) => {}
                }
            }
            all.extend(fared);
        }
        was_close(&collector, &all).await?;
        collector.stop().await?;
    }
    stage.clear().await
}
