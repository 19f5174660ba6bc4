//! References and finalizers that are added while the object that they save is being evaluated.

use anyhow::{Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use crate::conformance::outcome::Rest;
use crate::conformance::stage::{Stage, slow};
use kube_gc_testkit::cluster::{create_all, is_status, poll};
use kube_gc_testkit::{Cluster, Collector, Ns, Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    an_owner_added_before_the_delete_saves_an_object,
    an_orphan_finalizer_added_before_the_delete_is_honoured,
    an_owner_added_after_the_unblocking_patch_saves_an_object,
}

/// The number of objects in a race.
const RACED: usize = 200;
/// The number of concurrent changes in a race.
const RACERS: usize = 16;
const JSON_PATCH: &str = "application/json-patch+json";

/// The result of a change that was sent while its object was about to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fared {
    /// In time: the answer shows an object that is not being deleted.
    InTime,
    /// Too late: the deletion had begun.
    Terminating,
    /// Too late: the object was gone.
    TooLate,
}

/// The parameters of a race.
struct Course {
    /// The number of the race: 0, 1 or 2.
    round: usize,
    /// How many changes are under way at a time.
    at_a_time: usize,
}

impl Course {
    /// The order in which the objects are changed.
    fn in_order<'a>(&self, objects: &'a [Obj]) -> Vec<&'a Obj> {
        match self.round {
            0 => objects.iter().collect(),
            1 => objects.iter().rev().collect(),
            _ => (0..objects.len()).map(|number| &objects[number * 77 % objects.len()]).collect(),
        }
    }

    /// Whether the changes pause after the deletion of the owner until the collector has started to
    /// act. Otherwise it might lose every time.
    fn gives_a_lead(&self) -> bool {
        self.round == 1
    }
}

/// Waits until one of the objects is being deleted, or gone.
async fn first_deletion(cluster: &Cluster, raced: &[&Obj]) -> Result<()> {
    let Some(any) = raced.first() else { bail!("nothing is raced for") };
    poll("the first deletion", async || {
        let there = cluster.list(&any.resource, any.namespace.as_deref()).await?;
        let is_there = |object: &&Obj| there.iter().any(|now| now.uid == object.uid && !now.is_terminating());
        Ok(!raced.iter().all(is_there))
    })
    .await
}

/// Sends a JSON patch for every object, and deletes the owner when a quarter of the patches are in
/// flight.
async fn race(
    cluster: &Cluster,
    owner: &Obj,
    policy: Policy,
    raced: &[&Obj],
    change: &Value,
    course: &Course,
) -> Result<Vec<Fared>> {
    let quarter = raced.len() / 4;
    let send = async |(number, object): (usize, &&Obj)| {
        if number == quarter {
            cluster.delete(owner, policy).await?;
            if course.gives_a_lead() {
                first_deletion(cluster, &raced[quarter..]).await?;
            }
        }
        match cluster.send("PATCH", &object.path(), Some(JSON_PATCH), Some(change)).await {
            Ok(answer) if answer["metadata"]["deletionTimestamp"].is_string() => Ok(Fared::Terminating),
            Ok(_) => Ok(Fared::InTime),
            Err(error) if is_status(&error, 404) => Ok(Fared::TooLate),
            Err(error) => bail!("{object}: {error:#}"),
        }
    };
    stream::iter(raced.iter().enumerate().map(send)).buffered(course.at_a_time).try_collect().await
}

/// A patch that adds to a list, which may exist.
fn add(list: &str, is_there: bool, value: &Value) -> Value {
    match is_there {
        true => json!([{ "op": "add", "path": format!("/metadata/{list}/-"), "value": value }]),
        false => json!([{ "op": "add", "path": format!("/metadata/{list}"), "value": [value] }]),
    }
}

/// Collectors to race with, and the number of concurrent changes. The second one waits between a
/// decision and its request, so that many changes happen then.
fn opponents() -> [(Options, usize); 2] {
    [(Options::default(), RACERS), (slow(200), 1)]
}

/// The results of the races of a scenario.
#[derive(Debug, Default)]
struct Score {
    in_time: usize,
    late: usize,
    /// Requests of the collector that were too late.
    conflicts: f64,
}

impl Score {
    /// Adds the races with one collector.
    async fn add(&mut self, collector: &Collector, fared: &[Fared]) -> Result<()> {
        let in_time = fared.iter().filter(|fared| **fared == Fared::InTime).count();
        self.in_time += in_time;
        self.late += fared.len() - in_time;
        let conflicts = collector.metrics().await?.into_iter().filter(|(series, _)| {
            series.starts_with("kube_gc_requests_total{") && series.contains("code=\"409\"")
        });
        self.conflicts += conflicts.map(|(_, count)| count).sum::<f64>();
        Ok(())
    }

    /// Fails unless both sides won at times, and a change was made between a decision and its
    /// request. Otherwise, nothing was tested.
    fn was_close(&self) -> Result<()> {
        ensure!(self.in_time > 0 && self.late > 0 && self.conflicts > 0.0, "{self:?}");
        Ok(())
    }
}

/// A solid owner that is added at any moment before the DELETE takes effect saves the
/// object (rule 4.25).
async fn an_owner_added_before_the_delete_saves_an_object() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let mut score = Score::default();
    for (options, at_a_time) in opponents() {
        let collector = stage.collector_with(options).await?;
        let mut all = Vec::new();
        for round in 0..3 {
            let course = Course { round, at_a_time };
            let ns = cluster.namespace().await?;
            let solid = ns.configmap("solid").create().await?;
            let owner = ns.configmap("owner").create().await?;
            let dependents =
                create_all((0..RACED).map(|n| ns.secret(format!("d-{n}")).owned_by(&owner))).await?;
            cluster.settled(&collector).await?;

            let raced = course.in_order(&dependents);
            let change = add("ownerReferences", true, &solid.reference());
            let fared = race(cluster, &owner, Policy::Background, &raced, &change, &course).await?;
            cluster.settled(&collector).await?;
            assert_saved(cluster, &raced, &fared, &solid).await?;
            all.extend(fared);
        }
        score.add(&collector, &all).await?;
        collector.stop().await?;
    }
    score.was_close()?;
    stage.clear().await
}

/// Objects to which a solid owner was added in time are there and have no other owner. The others
/// are gone.
async fn assert_saved(cluster: &Cluster, raced: &[&Obj], fared: &[Fared], solid: &Obj) -> Result<()> {
    for (object, fared) in raced.iter().zip(fared) {
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
    Ok(())
}

/// A finalizer `orphan` that is added before the DELETE takes effect decides the fate of
/// the dependents (rule 4.25).
async fn an_orphan_finalizer_added_before_the_delete_is_honoured() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let mut score = Score::default();
    for (options, at_a_time) in opponents() {
        let collector = stage.collector_with(options).await?;
        let mut all = Vec::new();
        for round in 0..3 {
            let course = Course { round, at_a_time };
            let ns = cluster.namespace().await?;
            let owner = ns.configmap("owner").create().await?;
            let raced =
                create_all((0..RACED / 2).map(|n| ns.secret(format!("d-{n}")).owned_by(&owner))).await?;
            let leaves = create_all(
                raced.iter().map(|middle| ns.configmap(format!("of-{}", middle.name)).owned_by(middle)),
            )
            .await?;
            cluster.settled(&collector).await?;

            let ordered = course.in_order(&raced);
            let change = add("finalizers", false, &json!("orphan"));
            let fared = race(cluster, &owner, Policy::Background, &ordered, &change, &course).await?;
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
        score.add(&collector, &all).await?;
        collector.stop().await?;
    }
    score.was_close()?;
    stage.clear().await
}

/// A possible cycle of foreground deletions.
struct Circles {
    /// Deleted in the foreground last.
    owner: Obj,
    /// Owned by it and blocking it, with dependents of their own.
    middles: Vec<Obj>,
    /// Those dependents, which are already being deleted in the foreground.
    leaves: Vec<Obj>,
    /// The objects that the leaves wait for.
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

/// Before an object that may be part of a cycle is deleted, it stops blocking its owners.
/// An owner that is added between that patch and the DELETE saves the object (rule 4.23).
async fn an_owner_added_after_the_unblocking_patch_saves_an_object() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let mut score = Score::default();
    for (options, at_a_time) in opponents() {
        let collector = stage.collector_with(options).await?;
        let mut all = Vec::new();
        for round in 0..3 {
            let course = Course { round, at_a_time: at_a_time.min(4) };
            let ns = cluster.namespace().await?;
            let solid = ns.configmap("solid").create().await?;
            let Circles { owner, middles, leaves, held } =
                Circles::make(&stage, &collector, &ns, RACED / 4).await?;

            let raced = course.in_order(&middles);
            let change = add("ownerReferences", true, &solid.reference());
            let fared = race(cluster, &owner, Policy::Foreground, &raced, &change, &course).await?;
            cluster.settled(&collector).await?;
            stream::iter(held.iter().map(async |held| cluster.set_finalizers(held, &[]).await.map(drop)))
                .buffer_unordered(RACERS)
                .try_collect::<()>()
                .await?;
            stage.settled(&collector, Rest::Empty).await?;
            cluster.assert_gone(leaves.iter().chain(&held).chain([&owner])).await?;
            assert_saved(cluster, &raced, &fared, &solid).await?;
            all.extend(fared);
        }
        score.add(&collector, &all).await?;
        collector.stop().await?;
    }
    score.was_close()?;
    stage.clear().await
}
