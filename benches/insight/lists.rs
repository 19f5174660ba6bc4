//! `tree` and `explain` from lists of a real API server, beside a bare client with client-go that lists
//! whole objects, as kubectl-tree does: every type of the namespace at the same time, and each in pages of
//! 250.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube_gc_testkit::cluster::create_all;
use kube_gc_testkit::{Cluster, ControlPlane, Ns, Obj, Policy};
use serde_json::{Value, json};

use crate::command::{Ran, command, run};
use crate::common::progress;
use crate::common::report::Row;
use crate::{median, quantile};

/// The bare client, and the commands.
const READERS: [&str; 3] = [BARE, "tree", "explain"];
const BARE: &str = "a bare client";
/// Rounds, after one that warms up.
const ROUNDS: usize = 8;
/// The pods of a ReplicaSet.
const PODS: u64 = 100;
/// The most that a command may take of the time of the bare client.
const THIRD: f64 = 1.0 / 3.0;

/// The times of `tree` and `explain`, and their parts of the time of the bare client. In each round
/// everybody has a turn, and each time another one begins: the API server frees the memory of one request
/// while it answers the next.
pub async fn against_bare_client(program: &Path, objects: u64) -> Result<Vec<Row>> {
    progress(&format!("{objects} objects on a real API server"));
    let bare_client = bare_client()?;
    let plane = ControlPlane::start_with(None, &[])?;
    let cluster = Cluster::new(plane.client().await?);
    let ns = cluster.namespace().await?;
    let root = populate(&ns, objects).await?;
    // Nobody collects here, so it goes on waiting for what blocks it.
    cluster.delete(&root, Policy::Foreground).await?;
    let mut all: [Vec<Ran>; 3] = Default::default();
    for round in 0..=ROUNDS {
        for turn in 0..READERS.len() {
            let reader = (round + turn) % READERS.len();
            let reads = match READERS[reader] {
                BARE => {
                    let mut bare = Command::new(&bare_client);
                    bare.arg(plane.kubeconfig()).arg(ns.name());
                    bare
                }
                name => {
                    let mut command = command(program, name, plane.kubeconfig());
                    let root = format!("deploy/{}", root.name);
                    command.arg(root).args(["-n", ns.name(), "--from", "lists"]);
                    command
                }
            };
            let ran = run(reads).await?;
            if round > 0 {
                all[reader].push(ran);
            }
        }
    }
    plane.stop();
    let mut rows = Vec::new();
    for (reader, runs) in READERS.iter().zip(&all) {
        let name = format!("{reader} of {objects} objects from a real API server");
        let mut times: Vec<Duration> = runs.iter().map(|ran| ran.took).collect();
        rows.push(Row::milliseconds(format!("{name}, median"), quantile(&mut times, 0.5), None));
        let peak = runs.iter().map(|ran| ran.peak).fold(0.0, f64::max);
        rows.push(Row::new(format!("{name}, peak memory"), peak, "MiB", None));
        if *reader != BARE {
            let pairs = runs.iter().zip(&all[0]);
            let mut parts: Vec<f64> =
                pairs.map(|(one, bare)| one.took.as_secs_f64() / bare.took.as_secs_f64()).collect();
            let what = format!("{name}: part of the time of {BARE}, median of {ROUNDS} rounds");
            rows.push(Row::new(what, median(&mut parts), "", Some(THIRD)));
        }
    }
    Ok(rows)
}

/// Builds the bare client if necessary, which takes minutes once, and returns its path.
fn bare_client() -> Result<PathBuf> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/insight/bare-client/ensure.sh");
    let output = Command::new(script).stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{script}: {}", output.status);
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()))
}

/// A Deployment with ReplicaSets and pods.
async fn populate(ns: &Ns, objects: u64) -> Result<Obj> {
    let labels = json!({ "app": "web" });
    let spec = json!({
        "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": pod() },
    });
    let root = ns.of::<Deployment>("web").field("spec", spec.clone()).create().await?;
    let sets = (0..objects / PODS).map(|set| {
        ns.of::<ReplicaSet>(format!("web-{set}"))
            .owned_by(&root)
            .controlled()
            .blocking()
            .field("spec", spec.clone())
    });
    for set in create_all(sets).await? {
        let pods = (0..PODS).map(|number| {
            let pod = ns.pod(format!("{}-{number}", set.name)).field("spec", pod());
            pod.owned_by(&set).controlled().blocking().label("app", "web")
        });
        create_all(pods).await?;
    }
    Ok(root)
}

/// What a usual pod says of itself: two containers with settings, probes and volumes.
fn pod() -> Value {
    let container = |name: &str| {
        let settings: Vec<Value> = (0..12)
            .map(|number| json!({ "name": format!("SETTING_{number}"), "value": format!("value-of-setting-{number}") }))
            .collect();
        json!({
            "name": name, "image": format!("registry.example.com/shop/{name}:2026.11.26-4f5c9b1"), "env": settings,
            "ports": [{ "name": "http", "containerPort": 8080 }],
            "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } },
            "livenessProbe": { "httpGet": { "path": "/livez", "port": "http" } },
            "readinessProbe": { "httpGet": { "path": "/readyz", "port": "http" } },
            "volumeMounts": [{ "name": "config", "mountPath": "/etc/web" }],
        })
    };
    json!({
        "containers": [container("web"), container("proxy")],
        "volumes": [{ "name": "config", "configMap": { "name": "web-config" } }],
        "tolerations": [{ "key": "example.com/batch", "operator": "Exists", "effect": "NoSchedule" }],
    })
}
