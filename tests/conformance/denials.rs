//! Writes that the API server denies until it is told otherwise.

use anyhow::{Result, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::ApiResource;
use serde_json::{Value, json};

use crate::outcome::{Outcome, reported_as_failing, uids};
use crate::stage::{FOREGROUND, MERGE_PATCH, ORPHAN, Stage, lives_with, terminating_with};
use crate::support::cluster::poll;
use crate::support::{Cluster, Collector, Ns, Obj, Options, Policy, Verdict, Webhook};
use crate::user::User;

/// Failures are tried again soon.
const SOON: &str = "[retry]\nmax = \"300ms\"\n";
/// Marks what is to be denied.
const LABEL: &str = "kube-gc-test/denied";

/// Secrets of which every write is denied, one for each kind of write, and
/// ConfigMaps of which none is.
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

    /// Deletes what is to be deleted; the last ones before they are denied.
    async fn delete_what_is_denied(&self, cluster: &Cluster) -> Result<()> {
        cluster.delete(&self.foreground, Policy::Foreground).await?;
        cluster.delete(&self.orphaning, Policy::Orphan).await
    }

    /// What is denied is reported in the server's words and left as it is; all
    /// else is done.
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
            Ok(vec![of("delete"), of("")])
        };
        // Several times: it is tried again.
        poll("the denials to be counted", async || {
            let counts = counted().await?;
            Ok(counts[0] >= 2.0 && counts[1] >= 8.0)
        })
        .await?;
        cluster.assert_kept([&self.sole]).await?;
        ensure!(cluster.fresh(&self.shared).await?.resource_version == self.shared.resource_version);
        terminating_with(cluster, &self.foreground, &[FOREGROUND]).await?;
        terminating_with(cluster, &self.orphaning, &[ORPHAN]).await
    }

    /// All is done, and nothing is reported any more.
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

/// A webhook that is asked about every write to what is marked.
async fn guard(cluster: &Cluster, ns: &Ns, webhook: &Webhook) -> Result<Obj> {
    cluster.set_label(ns.as_object(), LABEL, "here").await?;
    let rule = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"],
        "operations": ["UPDATE", "DELETE"], "scope": "*",
    });
    let webhooks = json!([{
        "name": "guard.example.com",
        "clientConfig": webhook.client_config(),
        "rules": [rule],
        "namespaceSelector": { "matchLabels": { LABEL: "here" } },
        "objectSelector": { "matchLabels": { LABEL: "yes" } },
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
    }]);
    let name = format!("{}-guard", ns.name());
    cluster.of::<ValidatingWebhookConfiguration>(name).field("webhooks", webhooks).create().await
}

/// Waits until the API server asks the webhook about an object.
async fn is_asked(cluster: &Cluster, object: &Obj) -> Result<()> {
    let path = object.path() + "?dryRun=All";
    poll("the webhook to be asked", async || Ok(cluster.send("DELETE", &path, None, None).await.is_err()))
        .await
}

async fn a_webhook_denies(verdict: &Verdict, message: &str) -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let webhook = Webhook::start(stage.plane).await?;
    let collector = stage.collector_with(Options::config(SOON)).await?;
    let family = Family::make(&ns).await?;
    cluster.settled(&collector).await?;
    webhook.say(verdict.clone());
    let guard = guard(cluster, &ns, &webhook).await?;
    is_asked(cluster, &family.sole).await?;
    webhook.say(Verdict::Fine);
    // The collector is stopped over that: it would be quicker than the denial.
    collector.signal("STOP")?;
    family.delete_what_is_denied(cluster).await?;
    webhook.say(verdict.clone());
    cluster.delete(&family.owner, Policy::Background).await?;
    collector.signal("CONT")?;

    family.is_denied(cluster, &collector, message).await?;
    webhook.say(Verdict::Fine);
    family.is_done(cluster, &collector, message).await?;
    cluster.delete(&guard, Policy::Background).await?;
    collector.stop().await?;
    stage.clear().await
}

/// 30: a validating webhook says no, with the code that most give.
#[tokio::test]
async fn what_a_webhook_denies_is_done_once_it_is_allowed() -> Result<()> {
    const MESSAGE: &str = "not before the audit";
    a_webhook_denies(&Verdict::No(MESSAGE, Some(403)), MESSAGE).await
}

/// 30: a validating webhook says no, without a code: the API server answers 400.
#[tokio::test]
async fn what_a_webhook_denies_without_a_code_is_done_once_it_is_allowed() -> Result<()> {
    const MESSAGE: &str = "not on a friday";
    a_webhook_denies(&Verdict::No(MESSAGE, None), MESSAGE).await
}

/// What the collector may do: everything but writing to Secrets, unless that is
/// allowed.
fn rules(secrets: &[&str]) -> Value {
    json!([
        { "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": [""], "resources": ["events"], "verbs": ["create"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch", "delete"] },
        { "apiGroups": [""], "resources": ["secrets"], "verbs": secrets },
    ])
}

/// 30: a role does not allow it.
#[tokio::test]
async fn what_a_role_does_not_allow_is_done_once_it_does() -> Result<()> {
    const MESSAGE: &str = "is forbidden: User";
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let user = User::create(stage.plane, cluster, &ns, rules(&["list"])).await?;
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

/// 8: a dependent whose creation was answered before its owner was orphaned lives,
/// where the watch is late for certain: the collector may
/// list Secrets, and may not watch them.
#[tokio::test]
async fn a_dependent_that_no_watch_has_shown_lives() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let rules = json!([
        { "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "create", "update", "patch", "delete"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["watch"] },
    ]);
    let user = User::create(stage.plane, cluster, &ns, rules).await?;
    let owner = ns.configmap("owner").create().await?;
    // The pauses after a failure are so long that none ends before the test does.
    let patient = "[startup]\nsync_timeout = \"1s\"\n[watch]\nmin_backoff = \"1h\"\nmax_backoff = \"1h\"\n";
    let collector = Collector::start_with(user.kubeconfig(), Options::config(patient)).await?;
    collector.ready().await?;

    let unwatched = ns.secret("unwatched").owned_by(&owner).create().await?;
    // Nobody can wait until a watch has shown what it never will.
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
