//! A namespace with many objects.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{delete, finishing, gone};
use crate::conformance::stage::Stage;
use kube_gc_testkit::cluster::{Builder, create_all};
use kube_gc_testkit::proxy::{Matcher, Proxy, Verb};
use kube_gc_testkit::{Collector, Scope};

kube_gc_testkit::scenarios! {
    many_objects_take_few_requests_and_little_memory,
}

/// How many types there are.
const TYPES: usize = 3;
/// The objects of each of them on the embedded server: more than three pages.
const MANY: usize = 1_700;
/// The same on a real server, which deletes one object of a collection after another: more than a
/// page.
const FEWER: usize = 600;
/// What each of them contains, in bytes.
const CONTENT: usize = 8_192;

/// The most memory that a process has had so far, in bytes.
fn peak(collector: &Collector) -> Result<usize> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", collector.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kib: usize = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

/// Rules 11.2 and 11.3. A look that read whole objects, or one without pages, would need more memory
/// than all of them. One request for each object would be many times as many.
async fn many_objects_take_few_requests_and_little_memory() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let widgets = cluster.crd("widgets.many.example.com", Scope::Namespaced, &["v1"]).await?;
    let (ns, other) = (cluster.namespace().await?, cluster.namespace().await?);
    let kept = other.configmap("kept").create().await?;
    let proxy = Proxy::start(stage.plane).await?;
    let collector = Collector::start_with(proxy.kubeconfig(), finishing()).await?;
    collector.ready().await?;
    let each = if stage.plane.embedded().is_some() { MANY } else { FEWER };
    let data = json!({ "content": "AAAA".repeat(CONTENT / 4) });
    let objects = (0..each).flat_map(|number| -> [Builder; TYPES] {
        let name = format!("a-{number}");
        [
            ns.configmap(&name).field("data", data.clone()),
            ns.secret(&name).field("data", data.clone()),
            ns.object(widgets.resource(), &name).field("spec", data.clone()),
        ]
    });
    let objects = create_all(objects).await?;
    cluster.settled(&collector).await?;

    let (before, mark) = (peak(&collector)?, proxy.mark());
    delete(cluster, &ns).await?;
    gone(cluster, &ns).await?;
    // Content without a namespace would still be listed.
    for one in &objects[..TYPES] {
        let left = cluster.list(&one.resource, Some(ns.name())).await?;
        ensure!(left.is_empty(), "{} objects are left behind", left.len());
    }
    cluster.assert_kept([&kept, other.as_object()]).await?;
    let more = peak(&collector)?.saturating_sub(before);
    let requests = proxy.since(mark, &Matcher::default().within(ns.name()));
    let named = proxy
        .since(mark, &Matcher::verb(Verb::Delete).within(ns.name()).when(|request| request.name.is_some()));
    eprintln!("{} objects: {} requests, {more} bytes more memory", objects.len(), requests.len());
    ensure!(named.is_empty(), "{} objects were deleted one at a time", named.len());
    ensure!(requests.len() * 10 < objects.len(), "{} requests", requests.len());
    ensure!(more * 2 < objects.len() * CONTENT, "it needed {more} bytes more");
    collector.stop().await
}
