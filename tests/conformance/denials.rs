//! Writes that the API server denies for some time.

use anyhow::{Result, ensure};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::ApiResource;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::conformance::outcome::{Outcome, reported_as_failing, uids};
use crate::conformance::stage::{FOREGROUND, MERGE_PATCH, ORPHAN, Stage, lives_with, terminating_with};
use crate::conformance::user::User;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Cluster, Collector, Ns, Obj, Options, Policy, Webhook, WebhookBehavior};

kube_gc_testkit::scenarios! {
    a_write_denied_by_a_webhook_is_repeated_until_it_is_allowed,
    a_write_denied_by_a_webhook_without_a_code_is_repeated_until_it_is_allowed,
    a_write_that_the_role_forbids_is_repeated_until_it_is_allowed,
    a_dependent_that_no_watch_has_shown_is_kept,
}

/// Failures are retried soon.
const SOON: &str = "[retry]\nmax = \"300ms\"\n";
/// The label of objects whose writes are denied.
const LABEL: &str = "kube-gc-test/denied";

/// Secrets whose writes are denied, one for each kind of write, and ConfigMaps whose writes are
/// not.
struct Family {
    owner: Obj,
    solid: Obj,
    sole: Obj,
    shared: Obj,
    foreground: Obj,
    orphaning: Obj,
    released: Obj,
    others: Vec<Obj>,
}

impl Family {
    async fn make(ns: &Ns) -> Result<Self> {
        let denied = |name: &str| ns.secret(name).label(LABEL, "yes");
        let owner = ns.configmap("owner").create().await?;
        let solid = ns.configmap("solid").create().await?;
        let foreground = denied("foreground").create().await?;
        let orphaning = denied("orphaning").create().await?;
        let blocking = ns.configmap("blocking").owned_by(&foreground).blocking().create().await?;
        let other = ns.configmap("other").owned_by(&owner).create().await?;
        let below = ns.configmap("below").owned_by(&other).create().await?;
        Ok(Self {
            sole: denied("sole").owned_by(&owner).create().await?,
            shared: denied("shared").owned_by(&owner).owned_by(&solid).create().await?,
            released: ns.configmap("released").owned_by(&orphaning).create().await?,
            others: vec![blocking, other, below],
            owner,
            solid,
            foreground,
            orphaning,
        })
    }

    /// Deletes the objects; the last ones before writes are denied.
    async fn delete_what_is_denied(&self, cluster: &Cluster) -> Result<()> {
        cluster.delete(&self.foreground, Policy::Foreground).await?;
        cluster.delete(&self.orphaning, Policy::Orphan).await
    }

    /// Denied writes are reported in the words of the server and have no effect. All other work is
    /// done.
    async fn is_denied(&self, cluster: &Cluster, collector: &Collector, message: &str) -> Result<()> {
        poll("all others to go", async || Ok(cluster.assert_gone(&self.others).await.is_ok())).await?;
        poll("the release", async || Ok(cluster.fresh(&self.released).await?.owner_uids().is_empty()))
            .await?;
        let denied = [&self.sole, &self.shared, &self.foreground, &self.orphaning];
        poll("each denial to be on the debug page", async || {
            Ok(reported_as_failing(collector, &denied, message).await.is_ok())
        })
        .await?;
        collector.log_line(message).await?;
        let counted = async || -> Result<Vec<f64>> {
            let metrics = collector.metrics().await?;
            let of = |verb: &str| {
                let matches = |series: &&String| {
                    series.starts_with("kube_gc_decisions_total{")
                        && series.contains("outcome=\"denied\"")
                        && series.contains(&format!("action=\"{verb}"))
                        && series.contains("resource=\"secrets\"")
                };
                metrics.iter().filter(|(series, _)| matches(series)).map(|(_, count)| count).sum()
            };
            let denied: f64 = metrics
                .iter()
                .filter(|(series, _)| series.starts_with("kube_gc_denied_writes_total{"))
                .filter(|(series, _)| series.contains("resource=\"secrets\""))
                .map(|(_, count)| count)
                .sum();
            Ok(vec![of("delete"), of(""), denied])
        };
        // Several denials show that it is retried.
        poll("the denials to be counted", async || {
            let counts = counted().await?;
            Ok(counts[0] >= 2.0 && counts[1] >= 8.0 && counts[2] == counts[1])
        })
        .await?;
        cluster.assert_kept([&self.sole]).await?;
        ensure!(cluster.fresh(&self.shared).await?.resource_version == self.shared.resource_version);
        terminating_with(cluster, &self.foreground, &[FOREGROUND]).await?;
        terminating_with(cluster, &self.orphaning, &[ORPHAN]).await
    }

    /// Everything is done, and nothing is reported any more.
    async fn is_done(&self, cluster: &Cluster, collector: &Collector, message: &str) -> Result<()> {
        cluster.settled(collector).await?;
        let gone = [&self.owner, &self.sole, &self.foreground, &self.orphaning];
        Outcome {
            gone: gone.into_iter().chain(&self.others).cloned().collect(),
            kept: vec![(self.shared.clone(), uids([&self.solid])), (self.released.clone(), Vec::new())],
            untouched: vec![self.solid.clone()],
            ..Outcome::default()
        }
        .check(cluster)
        .await?;
        let queues = collector.get_debug("/debug/queues").await?.body;
        ensure!(!queues.contains(message), "still reported: {queues}");
        Ok(())
    }
}

/// Waits until the API server calls the webhook about an object.
pub async fn is_asked(cluster: &Cluster, object: &Obj) -> Result<()> {
    let path = object.path() + "?dryRun=All";
    poll("the webhook to be asked", async || Ok(cluster.send("DELETE", &path, None, None).await.is_err()))
        .await
}

async fn a_webhook_denies(behavior: &WebhookBehavior, message: &str) -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let webhook = Webhook::start(stage.plane).await?;
    let collector = stage.collector_with(Options::config(SOON)).await?;
    let family = Family::make(&ns).await?;
    cluster.settled(&collector).await?;
    webhook.set_behavior(behavior.clone());
    let guard = webhook.guard_secrets(cluster, &ns, LABEL).await?;
    is_asked(cluster, &family.sole).await?;
    webhook.set_behavior(WebhookBehavior::Accept);
    // The collector is suspended meanwhile. Otherwise it would act before the denial takes effect.
    collector.freeze().await?;
    family.delete_what_is_denied(cluster).await?;
    webhook.set_behavior(behavior.clone());
    cluster.delete(&family.owner, Policy::Background).await?;
    collector.signal("CONT")?;

    family.is_denied(cluster, &collector, message).await?;
    webhook.set_behavior(WebhookBehavior::Accept);
    family.is_done(cluster, &collector, message).await?;
    cluster.delete(&guard, Policy::Background).await?;
    collector.stop().await?;
    stage.clear().await
}

/// A validating webhook denies writes with the code that most webhooks use (rule 9.5).
async fn a_write_denied_by_a_webhook_is_repeated_until_it_is_allowed() -> Result<()> {
    const MESSAGE: &str = "not before the audit";
    a_webhook_denies(&WebhookBehavior::Reject(MESSAGE, Some(403)), MESSAGE).await
}

/// A validating webhook denies writes without a code, and the API server answers 400
/// (rule 9.5).
async fn a_write_denied_by_a_webhook_without_a_code_is_repeated_until_it_is_allowed() -> Result<()> {
    const MESSAGE: &str = "not on a friday";
    a_webhook_denies(&WebhookBehavior::Reject(MESSAGE, None), MESSAGE).await
}

/// The rights of the collector: everything except writes to Secrets, unless these are allowed.
fn rules(secrets: &[&str]) -> Value {
    json!([
        { "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": [""], "resources": ["events"], "verbs": ["create"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch", "delete"] },
        { "apiGroups": [""], "resources": ["secrets"], "verbs": secrets },
    ])
}

/// Waits until the API server allows a user to list Secrets, because roles take effect after some time.
async fn known(user: &User) -> Result<()> {
    let kubeconfig = Kubeconfig::read_from(user.kubeconfig())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let theirs = Cluster::new(Client::try_from(config)?);
    poll("the role to be known", async || Ok(theirs.send("GET", "/api/v1/secrets", None, None).await.is_ok()))
        .await
}

/// RBAC denies writes (rule 9.5).
async fn a_write_that_the_role_forbids_is_repeated_until_it_is_allowed() -> Result<()> {
    const MESSAGE: &str = "is forbidden: User";
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let user = User::create(stage.plane, cluster, &ns, rules(&["list"])).await?;
    known(&user).await?;
    let family = Family::make(&ns).await?;
    let collector = Collector::start_with(user.kubeconfig(), Options::config(SOON)).await?;
    collector.ready().await?;
    family.delete_what_is_denied(cluster).await?;
    cluster.delete(&family.owner, Policy::Background).await?;
    family.is_denied(cluster, &collector, MESSAGE).await?;

    let role = ApiResource::erase::<ClusterRole>(&());
    let path = format!("/apis/{}/{}/{}-collector", role.api_version, role.plural, ns.name());
    let allowed = json!({ "rules": rules(&["patch", "delete"]) });
    cluster.send("PATCH", &path, MERGE_PATCH, Some(&allowed)).await?;
    family.is_done(cluster, &collector, MESSAGE).await?;
    collector.stop().await?;
    stage.clear().await
}

/// A dependent lives if it was created before its owner was orphaned, even though its
/// watch is certain to be late: the collector may list Secrets, but not watch them
/// (rule 5.5).
async fn a_dependent_that_no_watch_has_shown_is_kept() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let rules = json!([
        { "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "create", "update", "patch", "delete"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["watch"] },
    ]);
    let user = User::create(stage.plane, cluster, &ns, rules).await?;
    known(&user).await?;
    let owner = ns.configmap("owner").create().await?;
    // Backoff is so long that no retry happens before the end of the test.
    let patient = "[startup]\nsync_timeout = \"1s\"\n[watch]\nmin_backoff = \"1h\"\nmax_backoff = \"1h\"\n";
    let collector = Collector::start_with(user.kubeconfig(), Options::config(patient)).await?;
    collector.ready().await?;
    poll("the watch to be refused", async || {
        let monitors = collector.get_debug("/debug/monitors").await?.body;
        Ok(monitors.contains("cannot watch resource \\\"secrets\\\""))
    })
    .await?;

    let unwatched = ns.secret("unwatched").owned_by(&owner).create().await?;
    // `settled` would wait for a watch event that never arrives.
    cluster.forget(&unwatched.resource);
    cluster.delete(&owner, Policy::Orphan).await?;
    poll("the owner to go", async || Ok(!cluster.exists_with_uid(&owner).await?)).await?;
    lives_with(cluster, &unwatched, &[]).await?;
    collector.stop().await?;

    let collector = stage.collector().await?;
    cluster.settled(&collector).await?;
    lives_with(cluster, &unwatched, &[]).await?;
    collector.stop().await
}
