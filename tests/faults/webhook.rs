//! Admission webhooks of one namespace that hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;

use crate::faults::stage::{Stage, never};
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Matcher, Verb};
use kube_gc_testkit::webhook::{Decision, Hook};
use kube_gc_testkit::{Collector, Ns, Obj, Policy, Webhook};

kube_gc_testkit::scenarios! {
    a_webhook_that_hangs_for_deletions_in_one_namespace_delays_no_other,
    a_webhook_that_hangs_for_patches_in_one_namespace_delays_no_orphaning_in_others,
}

/// The number of garbage objects in the namespace of the webhook.
const GARBAGE: usize = 500;
/// The number of objects in the other namespace, one after another.
const OTHERS: usize = 20;

/// A namespace whose requests are sent to a webhook, another one without, and a collector.
struct Scene {
    stage: Stage,
    hostile: Ns,
    /// The webhook does not answer before the API server gives up, after as long as the collector waits.
    hangs: Arc<AtomicBool>,
    guard: Obj,
    _webhook: Webhook,
    collector: Collector,
}

impl Scene {
    /// The webhook is asked about one kind of writes to ConfigMaps, and accepts them so far.
    async fn set(operation: &'static str) -> Result<Self> {
        let stage = Stage::alone().await?;
        let cluster = &stage.cluster;
        let hostile = cluster.namespace().await?;
        let webhook = Webhook::start(stage.plane()?).await?;
        let hangs = Arc::new(AtomicBool::new(false));
        let now = Arc::clone(&hangs);
        let judge = move |_| {
            let hangs = now.load(Ordering::SeqCst);
            async move { if hangs { std::future::pending().await } else { Decision::Allow } }
        };
        let resource = ApiResource::erase::<ConfigMap>(&());
        let hook = Hook { mutating: false, resource: &resource, operations: &[operation] };
        let guard = webhook.review(cluster, &hostile, hook, judge).await?;
        let collector = stage.collector().await?;
        Ok(Self { stage, hostile, hangs, guard, _webhook: webhook, collector })
    }

    /// The requests about the namespace of the webhook: all, and how many of them got no answer.
    fn sent(&self, verb: Verb) -> (usize, usize) {
        let all = self.stage.proxy.all(&Matcher::verb(verb).within(self.hostile.name()));
        (all.len(), all.iter().filter(|exchange| exchange.status.is_none()).count())
    }

    /// Creates garbage in the other namespace, one object after another. Fails if one of them went only after
    /// a request that hung was answered.
    async fn others_go(&self, verb: Verb) -> Result<()> {
        poll("a request to hang", async || Ok(self.sent(verb).1 > 0)).await?;
        for number in 0..OTHERS {
            let garbage = self.stage.ns.configmap(format!("other-{number}"));
            let garbage = garbage.owner_reference(never()).create().await?;
            self.stage.gone(&garbage).await?;
            self.all_hang(verb)?;
        }
        Ok(())
    }

    fn all_hang(&self, verb: Verb) -> Result<()> {
        let (all, unanswered) = self.sent(verb);
        ensure!(unanswered == all, "something waited: only {unanswered} of {all} hang");
        Ok(())
    }

    /// Waits until all work is done, which nothing delays any more.
    async fn recover(&self) -> Result<()> {
        self.stage.cluster.delete(&self.guard, Policy::Background).await?;
        self.hangs.store(false, Ordering::SeqCst);
        self.stage.cluster.settled(&self.collector).await
    }
}

/// Fails if all workers, or all slots for concurrent requests, wait for a webhook that is called
/// about the deletions of one namespace.
async fn a_webhook_that_hangs_for_deletions_in_one_namespace_delays_no_other() -> Result<()> {
    let scene = Scene::set("DELETE").await?;
    scene.hangs.store(true, Ordering::SeqCst);
    let garbage = (0..GARBAGE).map(|n| scene.hostile.configmap(format!("g-{n}")).owner_reference(never()));
    let garbage = create_all(garbage).await?;
    scene.others_go(Verb::Delete).await?;
    scene.stage.cluster.assert_kept(&garbage).await?;
    scene.recover().await?;
    scene.stage.cluster.assert_gone(&garbage).await?;
    scene.collector.stop().await
}

/// The same for the patches that release dependents: their owner waits, while other owners are
/// released and other garbage is collected.
async fn a_webhook_that_hangs_for_patches_in_one_namespace_delays_no_orphaning_in_others() -> Result<()> {
    let scene = Scene::set("UPDATE").await?;
    let (stage, hostile) = (&scene.stage, &scene.hostile);
    let owners = create_all((0..GARBAGE / 10).map(|n| hostile.secret(format!("owner-{n}")))).await?;
    let dependents = owners
        .iter()
        .flat_map(|owner| (0..10).map(|n| hostile.configmap(format!("{}-{n}", owner.name)).owned_by(owner)));
    let dependents = create_all(dependents).await?;
    scene.hangs.store(true, Ordering::SeqCst);
    stage.cluster.delete_all(&owners, Policy::Orphan).await?;

    scene.others_go(Verb::Patch).await?;
    for number in 0..OTHERS / 4 {
        let owner = stage.ns.secret(format!("owner-{number}")).create().await?;
        let dependent = stage.ns.configmap(format!("kept-{number}")).owned_by(&owner).create().await?;
        stage.seen(&scene.collector, &dependent).await?;
        stage.cluster.delete(&owner, Policy::Orphan).await?;
        stage.gone(&owner).await?;
        stage.assert_owners(&dependent, &[]).await?;
        scene.all_hang(Verb::Patch)?;
    }
    scene.recover().await?;
    for dependent in &dependents {
        stage.assert_owners(dependent, &[]).await?;
    }
    scene.collector.stop().await
}
