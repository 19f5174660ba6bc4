//! A real Prometheus scrapes a real collector and a real node collector, while cascades run. Each
//! query of the dashboard has data, but for those about faults.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use kube_gc_apiserver::Release;
use serde_json::json;

use crate::dashboard::source;
use crate::nodes::Node;
use crate::prometheus::Prometheus;
use crate::rules::plain;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Cluster, Collector, ControlPlane, Ns, Options, Policy};

/// Panels about faults that do not occur here, and about the success of a node whose passes fail.
const FAULTS: [&str; 9] = [
    "Alerts",
    "Denied writes",
    "Dry run: do both collectors agree?",
    "Not synced",
    "Not discovered",
    "Sync errors, by type",
    "Errors and throttling",
    "Throttled",
    "Since the last success, by node",
];

const CONFIG: &str =
    "[leader]\nenabled = true\nnamespace = \"default\"\n[brake]\ndeletions_per_minute = 1000\n";

/// An owner for each policy, with dependents.
async fn cascades(cluster: &Cluster, ns: &Ns) -> Result<()> {
    for policy in [Policy::Background, Policy::Foreground, Policy::Orphan] {
        let owner = ns.configmap(format!("{policy:?}").to_lowercase()).create().await?;
        let of_owner = |number| ns.configmap(format!("{}-{number}", owner.name)).owned_by(&owner).blocking();
        create_all((0..10).map(of_owner)).await?;
        cluster.delete(&owner, policy).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_panel_without_a_fault_has_data() -> Result<()> {
    let plane = ControlPlane::start_embedded(Release::V1_36)?;
    let cluster = Cluster::new(plane.client().await?);
    let ns = cluster.namespace().await?;
    let unserved =
        json!({ "apiVersion": "nowhere.example.com/v1", "kind": "Unknown", "name": "n", "uid": "u" });
    ns.configmap("of-unknown").owner_reference(unserved).create().await?;

    let prometheus = Prometheus::start(&plain()?).await?;
    let begun = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
    let collector = Collector::start_with(plane.kubeconfig(), Options::config(CONFIG)).await?;
    let node = Node::full().await?;
    let target = |job: &str, pod: &str, address: &str| {
        // The labels that the operator's ServiceMonitor and PodMonitor set.
        let labels = json!({ "job": job, "namespace": "kube-gc", "pod": pod, "instance": pod, "node": pod });
        json!({ "targets": [address], "labels": labels })
    };
    prometheus.scrape(&json!([
        target("kube-gc", "one", collector.health_address()),
        target("kube-gc-node", "node", node.health_address()),
    ]))?;
    collector.ready().await?;
    let leads = || async { prometheus.has_data("kube_gc_leader == 1", begun).await };
    poll("Prometheus to see the leader", leads).await?;
    cascades(&cluster, &ns).await?;

    let panels = source()?;
    let mut empty = Vec::new();
    let waited = poll("data of all panels", async || {
        empty.clear();
        for panel in panels.panels() {
            for (_, query) in panel.queries() {
                let query = query.replace("$__rate_interval", "5s").replace("$namespace", ".*");
                let query = query.replace("$job", "kube-gc").replace("$pod", ".*");
                if !prometheus.has_data(&query, begun).await? && !FAULTS.contains(&panel.title.as_str()) {
                    empty.push(format!("{}: {query}", panel.title));
                }
            }
        }
        Ok(empty.is_empty())
    })
    .await;
    ensure!(waited.is_ok(), "no data:\n{}\nPrometheus says: {}", empty.join("\n"), prometheus.log());
    node.end().await?;
    collector.stop().await
}
