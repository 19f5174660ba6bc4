//! `tree` and `explain` from lists of a real API server, beside a bare client that lists whole
//! objects, as other tools do.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::{Discovery, Scope, verbs};
use serde_json::{Value, json};

use crate::command::{Ran, command, run};
use crate::report::Row;
use crate::{milliseconds, progress, quantile};
use kube_gc_testkit::cluster::create_all;
use kube_gc_testkit::{Cluster, ControlPlane, Ns, Obj, Policy};

/// Rounds, after one that warms up. In each, everybody has a turn.
const ROUNDS: usize = 5;
/// The pods of a ReplicaSet.
const PODS: u64 = 100;
/// The most that a command may take of the time of the bare client.
const THIRD: f64 = 1.0 / 3.0;

/// The times of `tree` and `explain`, and their parts of the time of a bare client.
pub async fn against_a_bare_client(program: &Path, objects: u64) -> Result<Vec<Row>> {
    progress(&format!("{objects} objects on a real API server"));
    let plane = ControlPlane::start_with(None, &[])?;
    let cluster = Cluster::new(plane.client().await?);
    let ns = cluster.namespace().await?;
    let root = populate(&ns, objects).await?;
    // Nobody collects here, so it goes on waiting for what blocks it.
    cluster.delete(&root, Policy::Foreground).await?;
    let names = ["a bare client that lists whole objects", "`tree`", "`explain`"];
    let (mut times, mut peaks) = ([const { Vec::new() }; 3], [0.0_f64; 3]);
    let mut parts = [const { Vec::new() }; 2];
    for round in 0..=ROUNDS {
        let bare = whole_objects(&plane, ns.name(), objects).await?;
        let asked = [
            asked(program, &plane, "tree", &root, &ns).await?,
            asked(program, &plane, "explain", &root, &ns).await?,
        ];
        if round == 0 {
            continue;
        }
        times[0].push(bare);
        for (place, Ran { took, peak }) in asked.into_iter().enumerate() {
            times[place + 1].push(took);
            peaks[place + 1] = peaks[place + 1].max(peak);
            parts[place].push(took.as_secs_f64() / bare.as_secs_f64());
        }
    }
    let of = format!("of {objects} objects from a real API server");
    let mut rows = Vec::new();
    for (place, name) in names.into_iter().enumerate() {
        rows.push(milliseconds(format!("{name} {of}, median"), quantile(&mut times[place], 0.5), None));
        if let Some(parts) = place.checked_sub(1).map(|place| &mut parts[place]) {
            parts.sort_by(f64::total_cmp);
            let what = format!("{name} {of}: part of the time of the bare client, median of {ROUNDS} rounds");
            rows.push(Row { what, measured: parts[parts.len() / 2], unit: "", target: Some(THIRD) });
            let what = format!("{name} {of}, peak memory");
            rows.push(Row { what, measured: peaks[place], unit: "MiB", target: None });
        }
    }
    plane.stop();
    Ok(rows)
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

/// Discovers all types, and lists those of the namespace, all at once.
async fn whole_objects(plane: &ControlPlane, namespace: &str, objects: u64) -> Result<Duration> {
    let began = Instant::now();
    let client = plane.client().await?;
    let discovery = Discovery::new(client.clone()).run().await?;
    let types = discovery.groups().flat_map(|group| group.recommended_resources());
    let listed = types.filter(|(_, capabilities)| {
        capabilities.scope == Scope::Namespaced && capabilities.supports_operation(verbs::LIST)
    });
    let lists = listed.map(|(resource, _)| {
        let all: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        async move { all.list(&ListParams::default()).await }
    });
    let all: Vec<DynamicObject> = try_join_all(lists).await?.into_iter().flatten().collect();
    let took = began.elapsed();
    ensure!(all.len() as u64 > objects, "{} objects", all.len());
    Ok(took)
}

async fn asked(program: &Path, plane: &ControlPlane, name: &str, root: &Obj, ns: &Ns) -> Result<Ran> {
    let mut command = command(program, name, plane.kubeconfig());
    command.arg(format!("deploy/{}", root.name)).args(["-n", ns.name(), "--from", "lists"]);
    run(command).await
}
