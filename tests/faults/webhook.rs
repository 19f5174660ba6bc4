//! An admission webhook of one namespace that hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;

use crate::faults::stage::{Stage, never};
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Matcher, Verb};
use kube_gc_testkit::webhook::{Decision, Hook};
use kube_gc_testkit::{Policy, Webhook};

kube_gc_testkit::scenarios! {
    a_webhook_that_hangs_for_deletions_in_one_namespace_delays_no_other,
}

/// The number of garbage objects in the namespace of the webhook.
const GARBAGE: usize = 500;
/// The number of objects in the other namespace, one after another.
const OTHERS: usize = 20;

/// The webhook is called about the deletions of one namespace, and does not answer before the API server
/// gives up, after as long as the collector waits. Fails if all workers, or all slots for concurrent requests,
/// wait for it: an object of another namespace would go only after a request that hung was answered.
async fn a_webhook_that_hangs_for_deletions_in_one_namespace_delays_no_other() -> Result<()> {
    let stage = Stage::alone().await?;
    let cluster = &stage.cluster;
    let hostile = cluster.namespace().await?;
    let webhook = Webhook::start(stage.plane()?).await?;
    let hangs = Arc::new(AtomicBool::new(true));
    let now = Arc::clone(&hangs);
    let judge = move |_| {
        let hangs = now.load(Ordering::SeqCst);
        async move { if hangs { std::future::pending().await } else { Decision::Allow } }
    };
    let resource = ApiResource::erase::<ConfigMap>(&());
    let hook = Hook { mutating: false, resource: &resource, operations: &["DELETE"] };
    let guard = webhook.review(cluster, &hostile, hook, judge).await?;
    let collector = stage.collector().await?;
    let garbage = (0..GARBAGE).map(|n| hostile.configmap(format!("g-{n}")).owner_reference(never()));
    let garbage = create_all(garbage).await?;

    // All, and how many of them got no answer.
    let sent = || {
        let all = stage.proxy.all(&Matcher::verb(Verb::Delete).within(hostile.name()));
        (all.len(), all.iter().filter(|exchange| exchange.status.is_none()).count())
    };
    poll("a request to hang", async || Ok(sent().1 > 0)).await?;
    for number in 0..OTHERS {
        let other = stage.ns.configmap(format!("other-{number}")).owner_reference(never()).create().await?;
        stage.gone(&other).await?;
        let (all, unanswered) = sent();
        ensure!(unanswered == all, "{other} waited: only {unanswered} of {all} hang");
    }
    cluster.assert_kept(&garbage).await?;
    cluster.delete(&guard, Policy::Background).await?;
    hangs.store(false, Ordering::SeqCst);
    cluster.settled(&collector).await?;
    cluster.assert_gone(&garbage).await?;
    collector.stop().await
}
