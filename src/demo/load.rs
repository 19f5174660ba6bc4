//! Collects many dependents of one owner, and measures the cost.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::cluster::{Cluster, User};
use super::output::{Load, Memory, Output};
use super::recorder::Recorder;
use super::scenarios::until;
use kube_gc_core::object::{GroupResource, PropagationPolicy, ResourceVersion};

const NAMESPACE: &str = "load";
const COLLECTION: &str = "/api/v1/namespaces/load/configmaps";
const OWNER: &str = "/api/v1/namespaces/load/configmaps/root";
const CONCURRENT_CREATES: usize = 64;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The load has failed after this time without progress.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Creates the objects, deletes their owner, and reports the cost.
pub async fn run(
    cluster: &Cluster,
    recorder: &Recorder,
    output: &Output,
    objects: u32,
    policy: PropagationPolicy,
) -> Result<(), String> {
    let user = &cluster.user;
    let start = resident();
    let started = Instant::now();
    let seen = create(user, output, objects).await?;
    let seed_seconds = started.elapsed().as_secs_f64();
    until(async || Ok(cluster.is_idle(&seen).await)).await?;
    let full = resident();

    recorder.restart(false);
    let started = Instant::now();
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
    user.send_ok(Method::DELETE, OWNER, Some(&options)).await?;
    // Orphaned objects are patched, all others are deleted.
    let method = if policy == PropagationPolicy::Orphan { Method::PATCH } else { Method::DELETE };
    let bar = output.bar("collected", objects);
    let (mut last, mut progressed) = (0, Instant::now());
    loop {
        let done = recorder.count(&method);
        bar.set_position(done.min(objects.into()));
        if done >= u64::from(objects) && user.get(OWNER).await?.is_none() && is_done(user, policy).await? {
            break;
        }
        if done > last {
            (last, progressed) = (done, Instant::now());
        } else if progressed.elapsed() > STALL_TIMEOUT {
            let seconds = STALL_TIMEOUT.as_secs();
            return Err(format!("no progress for {seconds} s, after {done} of {objects} objects"));
        }
        sleep(POLL_INTERVAL).await;
    }
    bar.finish_and_clear();
    let collect_seconds = started.elapsed().as_secs_f64();
    let requests = recorder.total();
    let load = Load {
        objects,
        policy: policy.as_str(),
        seed_seconds,
        collect_seconds,
        objects_per_second: f64::from(objects) / collect_seconds,
        requests,
        requests_per_object: requests as f64 / f64::from(objects),
        memory: Memory { start, full, end: resident() },
    };
    output.text(&load.text());
    output.event("load", &load);
    Ok(())
}

/// Creates the owner and its dependents. Returns the latest resource version.
async fn create(
    user: &User,
    output: &Output,
    objects: u32,
) -> Result<BTreeMap<GroupResource, ResourceVersion>, String> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    user.send_ok(Method::POST, "/api/v1/namespaces", Some(&namespace)).await?;
    let root = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "root"}});
    let root = user.send_ok(Method::POST, COLLECTION, Some(&root)).await?.body;
    let uid = &root["metadata"]["uid"];
    let created = stream::iter(0..objects)
        .map(|number| async move {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("object-{number:07}"), "ownerReferences": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "root", "uid": uid, "blockOwnerDeletion": true},
                ]},
            });
            let created = user.send_ok(Method::POST, COLLECTION, Some(&object)).await?.body;
            let version = created["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
            version.ok_or_else(|| format!("an object has no resource version: {created}"))
        })
        .buffer_unordered(CONCURRENT_CREATES);
    let mut created = std::pin::pin!(created);
    let bar = output.bar("created", objects);
    let mut newest = 0_u64;
    while let Some(version) = created.try_next().await? {
        newest = newest.max(version);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok([(GroupResource::new("", "configmaps"), ResourceVersion::number(newest))].into())
}

/// Whether the first page of the objects shows that the work is done.
async fn is_done(user: &User, policy: PropagationPolicy) -> Result<bool, String> {
    let list = user.send_ok(Method::GET, &format!("{COLLECTION}?limit=500"), None).await?.body;
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(if policy == PropagationPolicy::Orphan {
        !items.is_empty() && items.iter().all(|item| item["metadata"]["ownerReferences"].is_null())
    } else {
        items.is_empty()
    })
}

/// The resident memory of this process, in bytes.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
