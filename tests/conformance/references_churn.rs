//! Objects that change while they are evaluated.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::conformance::stage::{Stage, slow};
use kube_gc_testkit::cluster::{create_all, is_status, poll};
use kube_gc_testkit::{Cluster, Obj, Policy};

kube_gc_testkit::scenarios! {
    churn_does_not_starve_a_slower_collector(alone),
}

/// A hundred updates a second.
const PERIOD: Duration = Duration::from_millis(10);
/// The number of concurrent updates of one object.
const UNDER_WAY: usize = 8;
const MERGE_PATCH: &str = "application/merge-patch+json";

/// A client that updates one object repeatedly, until the object is gone or this is dropped.
struct Churn {
    task: JoinHandle<()>,
    updates: Arc<AtomicUsize>,
}

impl Churn {
    /// Starts to send patches that change a label.
    fn begin(cluster: &Cluster, object: &Obj) -> Self {
        let updates = Arc::new(AtomicUsize::new(0));
        let (cluster, path, counted) = (cluster.clone(), object.path(), Arc::clone(&updates));
        let task = tokio::spawn(async move {
            let mut ticks = interval(PERIOD);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            let mut under_way = JoinSet::new();
            for number in 0.. {
                ticks.tick().await;
                let (cluster, path) = (cluster.clone(), path.clone());
                let body = json!({ "metadata": { "labels": { "churn": number.to_string() } } });
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
        let changing = churned.iter().chain([&owner]);
        let churns: Vec<Churn> = changing.map(|object| Churn::begin(cluster, object)).collect();
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
