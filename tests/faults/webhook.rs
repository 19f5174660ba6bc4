//! Admission webhooks of one namespace that hang or fail.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::faults::stage::{Stage, never};
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::proxy::{Exchange, Matcher, Verb};
use kube_gc_testkit::webhook::{Webhook, WebhookBehavior};
use kube_gc_testkit::{Cluster, Collector, Ns, Policy};

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
/// The timeout of the API server for the webhook, and that of the collector for the API server.
const SECONDS: u32 = 30;
const LABEL: &str = "hostile";

/// A namespace whose requests are sent to the webhook.
async fn guarded(cluster: &Cluster) -> Result<Ns> {
    let ns = cluster.namespace().await?;
    cluster.set_label(ns.as_object(), LABEL, "here").await?;
    Ok(ns)
}

/// Waits until the API server applies the configuration of the webhook.
async fn is_asked(cluster: &Cluster, webhook: &Webhook, ns: &Ns) -> Result<()> {
    let mut tries = 0;
    poll("the webhook to be asked", async || {
        tries += 1;
        let object = ns.configmap(format!("try-{tries}")).create().await?;
        let object = cluster.set_label(&object, "try", "yes").await?;
        cluster.delete(&object, Policy::Background).await?;
        Ok(webhook.asked() > 0)
    })
    .await
}

fn unanswered(exchanges: &[Exchange]) -> usize {
    exchanges.iter().filter(|exchange| exchange.status.is_none()).count()
}

/// Creates garbage, and returns how long it exists.
async fn lifetime_of_garbage(stage: &Stage, ns: &Ns, name: String) -> Result<Duration> {
    let created = Instant::now();
    let garbage = ns.configmap(name).owner_reference(never()).create().await?;
    stage.gone(&garbage).await?;
    Ok(created.elapsed())
}

/// Deletes an owner that orphans its dependent, and returns how long it still exists.
async fn lifetime_of_owner(stage: &Stage, collector: &Collector, ns: &Ns, name: &str) -> Result<Duration> {
    let owner = ns.secret(format!("owner-{name}")).create().await?;
    let dependent = ns.configmap(format!("kept-{name}")).owned_by(&owner).create().await?;
    stage.seen(collector, &dependent).await?;
    let deleted = Instant::now();
    stage.cluster.delete(&owner, Policy::Orphan).await?;
    stage.gone(&owner).await?;
    let lifetime = deleted.elapsed();
    stage.assert_owners(&dependent, &[]).await?;
    Ok(lifetime)
}

/// The longest lifetimes on a quiet server: of garbage, and of an owner that orphans.
async fn quiet_lifetimes(stage: &Stage, collector: &Collector, ns: &Ns) -> Result<(Duration, Duration)> {
    let (mut garbage, mut owners) = (Duration::ZERO, Duration::ZERO);
    for number in 0..QUIET {
        garbage = garbage.max(lifetime_of_garbage(stage, ns, format!("quiet-{number}")).await?);
        owners = owners.max(lifetime_of_owner(stage, collector, ns, &format!("quiet-{number}")).await?);
    }
    Ok((garbage, owners))
}

/// Fails if an object of another namespace existed for much longer than on a quiet server.
fn is_not_delayed(what: &str, worst: Duration, quiet: Duration) -> Result<()> {
    eprintln!("{what}: {worst:?} at most, {quiet:?} on a quiet server");
    ensure!(worst <= quiet + DELAY, "{what} existed for {worst:?}, on a quiet server for {quiet:?}");
    Ok(())
}

/// Deletes garbage of another namespace, one object after another, before any of the hanging
/// requests is answered. Returns the longest time that an object existed.
async fn others_go(stage: &Stage, healthy: &Ns, hostile: &Ns, verb: Verb) -> Result<Duration> {
    let on = Matcher::verb(verb).within(hostile.name());
    poll("a request to hang", async || Ok(unanswered(&stage.proxy.all(&on)) > 0)).await?;
    let mut worst = Duration::ZERO;
    for number in 0..OTHERS {
        worst = worst.max(lifetime_of_garbage(stage, healthy, format!("other-{number}")).await?);
        let all = stage.proxy.all(&on);
        ensure!(
            unanswered(&all) == all.len(),
            "object {number} waited until a request that hung was answered: {} of {}",
            all.len() - unanswered(&all),
            all.len()
        );
    }
    Ok(worst)
}

/// Fails if all workers, or all slots for concurrent requests, wait for a webhook that is called
/// about the deletions of one namespace.
async fn a_webhook_that_hangs_for_deletions_in_one_namespace_delays_no_other() -> Result<()> {
    let stage = Stage::alone().await?;
    let (cluster, healthy) = (&stage.cluster, &stage.ns);
    let hostile = guarded(cluster).await?;
    let webhook = Webhook::start(stage.plane()?).await?;
    let guard = webhook.guard_configmaps(cluster, LABEL, &["DELETE"], SECONDS).await?;
    is_asked(cluster, &webhook, &hostile).await?;
    let collector = stage.collector().await?;
    let (quiet, _) = quiet_lifetimes(&stage, &collector, healthy).await?;
    webhook.set_behavior(WebhookBehavior::Hang);
    let garbage = (0..GARBAGE).map(|n| hostile.configmap(format!("g-{n}")).owner_reference(never()));
    let garbage = create_all(garbage).await?;

    let worst = others_go(&stage, healthy, &hostile, Verb::Delete).await?;
    is_not_delayed("garbage", worst, quiet)?;
    cluster.assert_kept(&garbage).await?;
    cluster.delete(&guard, Policy::Background).await?;
    webhook.set_behavior(WebhookBehavior::Accept);
    cluster.settled(&collector).await?;
    cluster.assert_gone(&garbage).await?;
    collector.stop().await
}

/// The same for the patches that release dependents: their owner waits, while other owners are
/// released and other garbage is collected.
async fn a_webhook_that_hangs_for_patches_in_one_namespace_delays_no_orphaning_in_others() -> Result<()> {
    let stage = Stage::alone().await?;
    let (cluster, healthy) = (&stage.cluster, &stage.ns);
    let hostile = guarded(cluster).await?;
    let webhook = Webhook::start(stage.plane()?).await?;
    let guard = webhook.guard_configmaps(cluster, LABEL, &["UPDATE"], SECONDS).await?;
    is_asked(cluster, &webhook, &hostile).await?;
    let collector = stage.collector().await?;
    let (quiet_garbage, quiet_owners) = quiet_lifetimes(&stage, &collector, healthy).await?;
    let owners = create_all((0..GARBAGE / 10).map(|n| hostile.secret(format!("owner-{n}")))).await?;
    let dependents = owners
        .iter()
        .flat_map(|owner| (0..10).map(|n| hostile.configmap(format!("{}-{n}", owner.name)).owned_by(owner)));
    let dependents = create_all(dependents).await?;
    webhook.set_behavior(WebhookBehavior::Hang);
    cluster.delete_all(&owners, Policy::Orphan).await?;

    let worst = others_go(&stage, healthy, &hostile, Verb::Patch).await?;
    is_not_delayed("garbage", worst, quiet_garbage)?;
    let on = Matcher::verb(Verb::Patch).within(hostile.name());
    let mut worst = Duration::ZERO;
    for number in 0..OTHERS / 4 {
        worst = worst.max(lifetime_of_owner(&stage, &collector, healthy, &number.to_string()).await?);
        let all = stage.proxy.all(&on);
        ensure!(unanswered(&all) == all.len(), "owner {number} waited for a patch that hung");
    }
    is_not_delayed("an owner that orphans", worst, quiet_owners)?;
    cluster.delete(&guard, Policy::Background).await?;
    webhook.set_behavior(WebhookBehavior::Accept);
    cluster.settled(&collector).await?;
    for dependent in &dependents {
        stage.assert_owners(dependent, &[]).await?;
    }
    collector.stop().await
}

/// A webhook that fails at once for one namespace: only the objects there back off, with the API
/// server's message, and their retries do not fill the log.
async fn a_webhook_that_fails_for_one_namespace_delays_no_other() -> Result<()> {
    let stage = Stage::alone().await?;
    let (cluster, healthy) = (&stage.cluster, &stage.ns);
    let hostile = guarded(cluster).await?;
    let webhook = Webhook::start(stage.plane()?).await?;
    let guard = webhook.guard_configmaps(cluster, LABEL, &["DELETE"], SECONDS).await?;
    is_asked(cluster, &webhook, &hostile).await?;
    let collector = stage.collector().await?;
    let (quiet, _) = quiet_lifetimes(&stage, &collector, healthy).await?;
    webhook.set_behavior(WebhookBehavior::Fail);
    let garbage = (0..GARBAGE).map(|n| hostile.configmap(format!("g-{n}")).owner_reference(never()));
    let garbage = create_all(garbage).await?;
    let failing = Matcher::verb(Verb::Delete).within(hostile.name());
    stage.proxy.answered(GARBAGE, &failing).await?;
    let mut worst = Duration::ZERO;
    for number in 0..OTHERS {
        let before = stage.proxy.mark();
        worst = worst.max(lifetime_of_garbage(&stage, healthy, format!("other-{number}")).await?);
        let first = stage.proxy.since(before, &failing).len();
        ensure!(first < GARBAGE, "{first} requests of the other namespace came before one of this");
    }
    is_not_delayed("garbage", worst, quiet)?;
    cluster.assert_kept(&garbage).await?;
    let stuck = collector.get_debug(&format!("/debug/stuck?namespace={}", hostile.name())).await?.body;
    ensure!(stuck.contains("failed calling webhook"), "{stuck}");
    let tried = stage.proxy.all(&failing).len();
    let lines = collector.logged(r#""outcome":"failed""#).len();
    eprintln!("{lines} lines about {tried} deletions that failed");
    ensure!(tried > 2 * GARBAGE, "only {tried} tries");
    ensure!(lines <= GARBAGE, "{lines} lines about {GARBAGE} objects");
    cluster.delete(&guard, Policy::Background).await?;
    webhook.set_behavior(WebhookBehavior::Accept);
    cluster.settled(&collector).await?;
    cluster.assert_gone(&garbage).await?;
    collector.stop().await
}
