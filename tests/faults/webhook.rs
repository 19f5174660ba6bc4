//! Admission webhooks of one namespace that hang or fail.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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
    a_webhook_that_fails_for_one_namespace_delays_no_other,
}

/// The number of garbage objects in the namespace of the webhook.
const GARBAGE: usize = 500;
/// The number of objects in the other namespace, one after another.
const OTHERS: usize = 20;
/// The number of objects whose lifetime is measured on a quiet server.
const QUIET: usize = 5;
/// How much longer an object may exist while requests of another namespace hang or fail.
const DELAY: Duration = Duration::from_secs(2);

/// What the webhook does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behavior {
    Accept,
    Fail,
    /// It does not answer before the API server gives up, after as long as the collector waits for that.
    Hang,
}

/// A namespace whose requests are sent to a webhook, another one without, and a collector.
struct Scene {
    stage: Stage,
    hostile: Ns,
    behavior: Arc<Mutex<Behavior>>,
    guard: Obj,
    _webhook: Webhook,
    collector: Collector,
    /// The longest lifetimes on a quiet server: of garbage, and of an owner that orphans.
    quiet: (Duration, Duration),
}

impl Scene {
    /// The webhook is asked about one kind of writes to ConfigMaps, and accepts them so far.
    async fn set(operation: &'static str) -> Result<Self> {
        let stage = Stage::alone().await?;
        let cluster = &stage.cluster;
        let hostile = cluster.namespace().await?;
        let webhook = Webhook::start(stage.plane()?).await?;
        let behavior = Arc::new(Mutex::new(Behavior::Accept));
        let now = Arc::clone(&behavior);
        let judge = move |_| {
            let behavior = *now.lock().unwrap_or_else(PoisonError::into_inner);
            async move {
                match behavior {
                    Behavior::Accept => Decision::Allow,
                    Behavior::Fail => Decision::Fail,
                    Behavior::Hang => std::future::pending().await,
                }
            }
        };
        let resource = ApiResource::erase::<ConfigMap>(&());
        let hook = Hook { mutating: false, resource: &resource, operations: &[operation] };
        let guard = webhook.review(cluster, &hostile, hook, judge).await?;
        let collector = stage.collector().await?;
        let quiet = (Duration::ZERO, Duration::ZERO);
        let mut scene = Self { stage, hostile, behavior, guard, _webhook: webhook, collector, quiet };
        for number in 0..QUIET {
            let garbage = scene.lifetime_of_garbage(format!("quiet-{number}")).await?;
            let owner = scene.lifetime_of_owner(&format!("quiet-{number}")).await?;
            scene.quiet = (scene.quiet.0.max(garbage), scene.quiet.1.max(owner));
        }
        Ok(scene)
    }

    /// From now on the webhook does this.
    fn behave(&self, behavior: Behavior) {
        *self.behavior.lock().unwrap_or_else(PoisonError::into_inner) = behavior;
    }

    /// Creates garbage in the namespace of the webhook, which behaves like this from now on.
    async fn misbehave(&self, behavior: Behavior) -> Result<Vec<Obj>> {
        self.behave(behavior);
        create_all((0..GARBAGE).map(|n| self.hostile.configmap(format!("g-{n}")).owner_reference(never())))
            .await
    }

    /// The requests about the namespace of the webhook: all, and how many of them got no answer.
    fn sent(&self, verb: Verb) -> (usize, usize) {
        let all = self.stage.proxy.all(&Matcher::verb(verb).within(self.hostile.name()));
        (all.len(), all.iter().filter(|exchange| exchange.status.is_none()).count())
    }

    /// Creates garbage in the other namespace, and returns how long it exists.
    async fn lifetime_of_garbage(&self, name: String) -> Result<Duration> {
        let created = Instant::now();
        let garbage = self.stage.ns.configmap(name).owner_reference(never()).create().await?;
        self.stage.gone(&garbage).await?;
        Ok(created.elapsed())
    }

    /// Deletes an owner that orphans its dependent, and returns how long it still exists.
    async fn lifetime_of_owner(&self, name: &str) -> Result<Duration> {
        let (stage, ns) = (&self.stage, &self.stage.ns);
        let owner = ns.secret(format!("owner-{name}")).create().await?;
        let dependent = ns.configmap(format!("kept-{name}")).owned_by(&owner).create().await?;
        stage.seen(&self.collector, &dependent).await?;
        let deleted = Instant::now();
        stage.cluster.delete(&owner, Policy::Orphan).await?;
        stage.gone(&owner).await?;
        let lifetime = deleted.elapsed();
        stage.assert_owners(&dependent, &[]).await?;
        Ok(lifetime)
    }

    /// Deletes garbage of the other namespace, one object after another. Fails if one existed for much
    /// longer than on a quiet server, or until a request that hung was answered.
    async fn others_go(&self, verb: Verb) -> Result<()> {
        poll("a request to hang", async || Ok(self.sent(verb).1 > 0)).await?;
        let mut worst = Duration::ZERO;
        for number in 0..OTHERS {
            worst = worst.max(self.lifetime_of_garbage(format!("other-{number}")).await?);
            let (all, unanswered) = self.sent(verb);
            ensure!(unanswered == all, "object {number} waited: only {unanswered} of {all} hang");
        }
        is_not_delayed("garbage", worst, self.quiet.0)
    }

    /// Waits until all work is done, which nothing delays any more.
    async fn recover(&self) -> Result<()> {
        self.stage.cluster.delete(&self.guard, Policy::Background).await?;
        self.behave(Behavior::Accept);
        self.stage.cluster.settled(&self.collector).await
    }
}

/// Fails if an object of another namespace existed for much longer than on a quiet server.
fn is_not_delayed(what: &str, worst: Duration, quiet: Duration) -> Result<()> {
    eprintln!("{what}: {worst:?} at most, {quiet:?} on a quiet server");
    ensure!(worst <= quiet + DELAY, "{what} existed for {worst:?}, on a quiet server for {quiet:?}");
    Ok(())
}

/// Fails if all workers, or all slots for concurrent requests, wait for a webhook that is called
/// about the deletions of one namespace.
async fn a_webhook_that_hangs_for_deletions_in_one_namespace_delays_no_other() -> Result<()> {
    let scene = Scene::set("DELETE").await?;
    let garbage = scene.misbehave(Behavior::Hang).await?;
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
    scene.behave(Behavior::Hang);
    stage.cluster.delete_all(&owners, Policy::Orphan).await?;

    scene.others_go(Verb::Patch).await?;
    let mut worst = Duration::ZERO;
    for number in 0..OTHERS / 4 {
        worst = worst.max(scene.lifetime_of_owner(&number.to_string()).await?);
        let (all, unanswered) = scene.sent(Verb::Patch);
        ensure!(unanswered == all, "owner {number} waited for a patch that hung");
    }
    is_not_delayed("an owner that orphans", worst, scene.quiet.1)?;
    scene.recover().await?;
    for dependent in &dependents {
        stage.assert_owners(dependent, &[]).await?;
    }
    scene.collector.stop().await
}

/// A webhook that fails at once for one namespace: only the objects there back off, with the API
/// server's message, and their retries do not fill the log.
async fn a_webhook_that_fails_for_one_namespace_delays_no_other() -> Result<()> {
    let scene = Scene::set("DELETE").await?;
    let (stage, collector) = (&scene.stage, &scene.collector);
    let garbage = scene.misbehave(Behavior::Fail).await?;
    let failing = Matcher::verb(Verb::Delete).within(scene.hostile.name());
    stage.proxy.answered(GARBAGE, &failing).await?;
    let mut worst = Duration::ZERO;
    for number in 0..OTHERS {
        let before = stage.proxy.mark();
        worst = worst.max(scene.lifetime_of_garbage(format!("other-{number}")).await?);
        let first = stage.proxy.since(before, &failing).len();
        ensure!(first < GARBAGE, "{first} requests of the other namespace came before one of this");
    }
    is_not_delayed("garbage", worst, scene.quiet.0)?;
    stage.cluster.assert_kept(&garbage).await?;
    let path = format!("/debug/stuck?namespace={}", scene.hostile.name());
    let stuck = collector.get_debug(&path).await?.body;
    ensure!(stuck.contains("failed calling webhook"), "{stuck}");
    let (tried, _) = scene.sent(Verb::Delete);
    let lines = collector.logged(r#""outcome":"failed""#).len();
    eprintln!("{lines} lines about {tried} deletions that failed");
    ensure!(tried > 2 * GARBAGE, "only {tried} tries");
    ensure!(lines <= GARBAGE, "{lines} lines about {GARBAGE} objects");
    scene.recover().await?;
    stage.cluster.assert_gone(&garbage).await?;
    scene.collector.stop().await
}
