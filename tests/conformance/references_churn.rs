//! Objects that change while they are evaluated.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::conformance::stage::{Stage, slow};
use kube_gc_testkit::cluster::{create_all, is_status, poll};
use kube_gc_testkit::{Cluster, Obj, Policy};

kube_gc_testkit::scenarios! {
    churn_does_not_starve_collection(alone),
    churn_does_not_starve_a_slower_collector(alone),
}

/// A hundred updates a second.
const PERIOD: Duration = Duration::from_millis(10);
/// The number of concurrent updates of one object.
const UNDER_WAY: usize = 8;
/// The time limit for collection during constant changes. Without these it takes milliseconds; with
/// starvation it would never happen.
const NOT_STARVED: Duration = Duration::from_secs(40);
const MERGE_PATCH: &str = "application/merge-patch+json";

/// A client that updates one object repeatedly, until the object is gone or this is dropped.
struct Churn {
    task: JoinHandle<()>,
    updates: Arc<AtomicUsize>,
}

impl Churn {
    /// Starts to send patches to a path. Each sets a field to a new number.
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
                        // The server rejects a patch after five conflicts with others.
                        Ok(Err(_)) | Err(_) => {}
                    }
                }
            }
        });
        Self { task, updates }
    }

    /// Starts to change a label.
    fn of_label(cluster: &Cluster, object: &Obj) -> Self {
        Self::begin(
            cluster,
            object.path(),
            |number| json!({ "metadata": { "labels": { "churn": number.to_string() } } }),
        )
    }

    /// Starts to change a message in the status.
    fn of_status(cluster: &Cluster, object: &Obj) -> Self {
        Self::begin(
            cluster,
            object.path() + "/status",
            |number| json!({ "status": { "message": number.to_string() } }),
        )
    }

    /// Waits until many updates were made.
    async fn is_felt(&self) -> Result<()> {
        poll("the churn", async || Ok(self.updates.load(Ordering::Relaxed) >= 20)).await
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Labels or a status that change a hundred times a second keep neither an object from
/// being collected nor its owner from being removed (rule 4.27).
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

/// Each request of the collector takes so long that the dependent has changed several
/// times since it was read, so a version is never the current one (rule 4.27).
async fn churn_does_not_starve_a_slower_collector() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    // Before the DELETE is bound only to the uid, a confirmation that the owner waits has expired.
    let collector = stage.collector_with(slow(10)).await?;
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
