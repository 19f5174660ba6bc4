//! The manifests of `deploy/` on a real API server, and the collector as they run it: with a file
//! system that has only the content of its image and volumes, as their user, and with their service
//! account.

mod scenes;

mod components;
mod manifests;
mod node;
mod node_run;
mod rights;
mod small;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use kube_gc_testkit::deployment::Installation;
use kube_gc_testkit::harness::Module;

/// All scenarios.
pub const ALL: &[Module] = &[
    components::SCENARIOS,
    manifests::SCENARIOS,
    node::SCENARIOS,
    node_run::SCENARIOS,
    rights::SCENARIOS,
    small::SCENARIOS,
];

/// The pod of a workload as the API server admits it: critical, and with no privileges on its node. No
/// controller creates the pods here, so the test sends the request of one.
async fn admitted_pod(installation: &Installation<'_>) -> Result<Value> {
    let mut pod = installation.workload().await?["spec"]["template"].take();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(installation.name);
    let path = format!("/api/v1/namespaces/{}/pods?dryRun=All", installation.name);
    let pod = installation.cluster.send("POST", &path, None, Some(&pod)).await?;
    ensure!(pod["spec"]["priority"].as_i64().unwrap_or_default() >= 2_000_000_000, "not critical: {pod}");
    ensure!(pod["spec"]["containers"].as_array().is_some_and(|all| all.len() == 1), "{pod}");
    let container = &pod["spec"]["containers"][0];
    let locked_up = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    });
    ensure!(container["securityContext"] == locked_up, "{container}");
    ensure!(!container["resources"]["requests"].is_null(), "{container}");
    Ok(pod)
}
