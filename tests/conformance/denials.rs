//! A collector that has not all the rights that it needs.

use anyhow::{Result, ensure};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::ApiResource;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::conformance::outcome::{Outcome, reported_as_failing, uids};
use crate::conformance::stage::{FOREGROUND, MERGE_PATCH, ORPHAN, Stage, terminating_with};
use crate::conformance::user::User;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Cluster, Collector, Ns, Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    a_write_that_the_role_forbids_is_repeated_until_it_is_allowed,
}

/// Failures are retried soon.
const SOON: &str = "[retry]\nmax = \"300ms\"\n";

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
        let owner = ns.configmap("owner").create().await?;
        let solid = ns.configmap("solid").create().await?;
        let foreground = ns.secret("foreground").create().await?;
        let orphaning = ns.secret("orphaning").create().await?;
        let blocking = ns.configmap("blocking").owned_by(&foreground).blocking().create().await?;
        let other = ns.configmap("other").owned_by(&owner).create().await?;
        let below = ns.configmap("below").owned_by(&other).create().await?;
        Ok(Self {
            sole: ns.secret("sole").owned_by(&owner).create().await?,
            shared: ns.secret("shared").owned_by(&owner).owned_by(&solid).create().await?,
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
