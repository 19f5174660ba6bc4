//! Many objects of one root: what it costs to collect them.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::house::House;
use super::narrator::Narrator;
use super::recorder::Recorder;
use super::story::{Load, Memory};
use super::user::User;
use crate::http::IdleQuery;
use kube_gc_core::object::{GroupResource, PropagationPolicy, ResourceVersion};

const NAMESPACE: &str = "load";
const COLLECTION: &str = "/api/v1/namespaces/load/configmaps";
const ROOT: &str = "/api/v1/namespaces/load/configmaps/root";
/// Creations under way at a time.
const AT_ONCE: usize = 64;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// Without any progress for so long, it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Creates so many objects of one root, deletes the root, and reports.
pub async fn run(
    house: &House,
    recorder: &Recorder,
    narrator: &mut Narrator,
    objects: u32,
    policy: PropagationPolicy,
) -> Result<(), String> {
    let user = house.user();
    let start = resident();
    let begun = Instant::now();
    let newest = seed(user, narrator, objects).await?;
    let seed_seconds = begun.elapsed().as_secs_f64();
    synced(house, newest).await?;
    let full = resident();

    recorder.begin();
    let begun = Instant::now();
    user.delete(ROOT, policy).await?;
    // An orphan is patched, everything else is deleted.
    let method = if policy == PropagationPolicy::Orphan { Method::PATCH } else { Method::DELETE };
    let (mut last, mut moved) = (0, Instant::now());
    loop {
        let done = recorder.count(&method);
        narrator.progress("collected", done.min(objects.into()), objects.into());
        if done >= u64::from(objects) && user.get(ROOT).await?.is_none() && is_done(user, policy).await? {
            break;
        }
        if done > last {
            (last, moved) = (done, Instant::now());
        } else if moved.elapsed() > PATIENCE {
            return Err(format!("nothing has moved for {} s, after {done} of {objects}", PATIENCE.as_secs()));
        }
        sleep(LOOK).await;
    }
    narrator.done();
    let collect_seconds = begun.elapsed().as_secs_f64();
    let requests = recorder.total();
    narrator.load(&Load {
        objects,
        policy: policy.as_str(),
        seed_seconds,
        collect_seconds,
        objects_per_second: f64::from(objects) / collect_seconds,
        requests,
        requests_per_object: requests as f64 / f64::from(objects),
        memory: Memory { start, full, end: resident() },
    });
    Ok(())
}

/// Creates the root and what it owns; the newest version of all.
async fn seed(user: &User, narrator: &mut Narrator, objects: u32) -> Result<u64, String> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    user.must(Method::POST, "/api/v1/namespaces", Some(&namespace)).await?;
    let root = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "root"}});
    let root = user.must(Method::POST, COLLECTION, Some(&root)).await?.body;
    let uid = &root["metadata"]["uid"];
    let created = stream::iter(0..objects)
        .map(|number| async move {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("object-{number:07}"), "ownerReferences": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "root", "uid": uid, "blockOwnerDeletion": true},
                ]},
            });
            let created = user.must(Method::POST, COLLECTION, Some(&object)).await?.body;
            let version = created["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
            version.ok_or_else(|| format!("an object has no resource version: {created}"))
        })
        .buffer_unordered(AT_ONCE);
    let mut created = std::pin::pin!(created);
    let (mut newest, mut done) = (0_u64, 0_u64);
    while let Some(version) = created.try_next().await? {
        newest = newest.max(version);
        done += 1;
        if done.is_multiple_of(100) {
            narrator.progress("created", done, objects.into());
        }
    }
    narrator.done();
    Ok(newest)
}

/// Waits until the graph has seen this version.
async fn synced(house: &House, newest: u64) -> Result<(), String> {
    let seen = vec![(GroupResource::new("", "configmaps"), ResourceVersion::number(newest))];
    let query = IdleQuery { seen, parked_ok: true };
    let begun = Instant::now();
    loop {
        let report = house.collector().idle(query.clone()).await;
        if report.idle {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("the collector is busy: {}", report.reasons.join("; ")));
        }
        sleep(LOOK).await;
    }
}

/// Whether nothing is left to do, as far as the first of them tell.
async fn is_done(user: &User, policy: PropagationPolicy) -> Result<bool, String> {
    let list = user.must(Method::GET, &format!("{COLLECTION}?limit=500"), None).await?.body;
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(if policy == PropagationPolicy::Orphan {
        !items.is_empty() && items.iter().all(|item| item["metadata"]["ownerReferences"].is_null())
    } else {
        items.is_empty()
    })
}

/// The memory of this process that is in RAM, in bytes.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
