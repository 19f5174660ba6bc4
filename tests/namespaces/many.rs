//! A namespace with many objects.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{delete, finishing, gone};
use crate::conformance::stage::{Stage, status};
use kube_gc_testkit::cluster::{Builder, create_all};
use kube_gc_testkit::proxy::{Matcher, Proxy, Verb};
use kube_gc_testkit::{Collector, Scope};

kube_gc_testkit::scenarios! {
    many_objects_take_few_requests_and_little_memory,
}

/// How many types there are.
const TYPES: usize = 3;
/// The objects of each of them: three pages of one type.
const COUNTS: [usize; TYPES] = [1_001, 20, 20];
/// What each of them contains, in bytes: a page of whole objects would be larger than the bound.
const CONTENT: usize = 16_384;

/// The most memory that a process has had so far, in bytes.
fn peak(collector: &Collector) -> Result<usize> {
    Ok(usize::try_from(status(collector, "VmHWM")?)? * 1024)
}

/// Rules 11.2 and 11.3. A look that read whole objects would need as much memory as their content,
/// and deleting them one at a time would need as many requests.
async fn many_objects_take_few_requests_and_little_memory() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let widgets = cluster.crd("widgets.many.example.com", Scope::Namespaced, &["v1"]).await?;
    let (ns, other) = (cluster.namespace().await?, cluster.namespace().await?);
    let kept = other.configmap("kept").create().await?;
    let proxy = Proxy::start(stage.plane).await?;
    let collector = Collector::start_with(proxy.kubeconfig(), finishing()).await?;
    collector.ready().await?;
    let data = json!({ "content": "AAAA".repeat(CONTENT / 4) });
    let of_a_type = |of_type: usize, number: usize| -> Builder {
        let name = format!("a-{number}");
        match of_type {
            0 => ns.configmap(name).field("data", data.clone()),
            1 => ns.secret(name).field("data", data.clone()),
            _ => ns.object(widgets.resource(), name).field("spec", data.clone()),
        }
    };
    let objects = COUNTS
        .iter()
        .enumerate()
        .flat_map(|(of_type, count)| (0..*count).map(move |number| (of_type, number)))
        .map(|(of_type, number)| of_a_type(of_type, number));
    let objects = create_all(objects).await?;
    cluster.settled(&collector).await?;

    let (before, mark) = (peak(&collector)?, proxy.mark());
    delete(cluster, &ns).await?;
    gone(cluster, &ns).await?;
    // Content without a namespace would still be listed.
    for of_type in 0..TYPES {
        let first: usize = COUNTS[..of_type].iter().sum();
        let left = cluster.list(&objects[first].resource, Some(ns.name())).await?;
        ensure!(left.is_empty(), "{} objects are left behind", left.len());
    }
    cluster.assert_kept([&kept, other.as_object()]).await?;
    let more = peak(&collector)?.saturating_sub(before);
    let requests = proxy.since(mark, &Matcher::default().within(ns.name()));
    let named = proxy
        .since(mark, &Matcher::verb(Verb::Delete).within(ns.name()).when(|request| request.name.is_some()));
    eprintln!("{} objects: {} requests, {more} bytes more memory", objects.len(), requests.len());
    ensure!(named.is_empty(), "{} objects were deleted one at a time", named.len());
    ensure!(requests.len() * 3 < objects.len(), "{} requests", requests.len());
    ensure!(more * 2 < objects.len() * CONTENT, "it needed {more} bytes more");
    collector.stop().await
}
