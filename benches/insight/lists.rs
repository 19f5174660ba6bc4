//! `tree` and `explain` from lists of a real API server, beside bare clients that list whole objects, as
//! kubectl-tree does: every type of the namespace at the same time, and each in pages of 250.
//!
//! One of them uses client-go, like kubectl-tree. The other one does the same in Rust, in this process,
//! and shows what the language and the library do not explain.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::{Discovery, Scope, verbs};
use serde_json::{Value, json};

use crate::command::{Ran, command, run};
use crate::report::Row;
use crate::{median, milliseconds, progress, quantile};
use kube_gc_testkit::cluster::create_all;
use kube_gc_testkit::{Cluster, ControlPlane, Ns, Obj, Policy};

/// The length of the pages of the client in Rust.
const BARE_PAGE: u32 = 250;
/// Rounds, after one that warms up.
const ROUNDS: usize = 8;
/// The pods of a ReplicaSet.
const PODS: u64 = 100;
/// The most that a command may take of the time of the client with client-go.
const THIRD: f64 = 1.0 / 3.0;

/// Who reads the namespace. In each round everybody has a turn, and each time another one begins: the API
/// server frees the memory of one request while it answers the next.
#[derive(Clone, Copy)]
enum Reader {
    ClientGo,
    Rust,
    Tree,
    Explain,
}

impl Reader {
    const ALL: [Self; 4] = [Self::ClientGo, Self::Rust, Self::Tree, Self::Explain];

    const fn name(self) -> &'static str {
        match self {
            Self::ClientGo => "a bare client with client-go",
            Self::Rust => "a bare client in Rust",
            Self::Tree => "`tree`",
            Self::Explain => "`explain`",
        }
    }
}

/// What they read.
struct Namespace<'a> {
    plane: &'a ControlPlane,
    ns: &'a Ns,
    root: Obj,
    objects: u64,
    kube_gc: &'a Path,
    bare_client: PathBuf,
}

impl Namespace<'_> {
    async fn read(&self, reader: Reader) -> Result<Ran> {
        let kubeconfig = self.plane.kubeconfig();
        match reader {
            Reader::ClientGo => {
                let mut bare = Command::new(&self.bare_client);
                bare.arg(kubeconfig).arg(self.ns.name());
                run(bare).await
            }
            Reader::Rust => {
                let took = whole_objects(self.plane, self.ns.name(), self.objects).await?;
                Ok(Ran { took, peak: 0.0 })
            }
            Reader::Tree => self.ask("tree").await,
            Reader::Explain => self.ask("explain").await,
        }
    }

    async fn ask(&self, name: &str) -> Result<Ran> {
        let mut command = command(self.kube_gc, name, self.plane.kubeconfig());
        command.arg(format!("deploy/{}", self.root.name)).args(["-n", self.ns.name(), "--from", "lists"]);
        run(command).await
    }
}

/// The times of `tree` and `explain`, and their parts of the times of the bare clients.
pub async fn against_bare_clients(program: &Path, objects: u64) -> Result<Vec<Row>> {
    progress(&format!("{objects} objects on a real API server"));
    let bare_client = bare_client()?;
    let plane = ControlPlane::start_with(None, &[])?;
    let cluster = Cluster::new(plane.client().await?);
    let ns = cluster.namespace().await?;
    let root = populate(&ns, objects).await?;
    // Nobody collects here, so it goes on waiting for what blocks it.
    cluster.delete(&root, Policy::Foreground).await?;
    let namespace = Namespace { plane: &plane, ns: &ns, root, objects, kube_gc: program, bare_client };
    let mut all: [Vec<Ran>; 4] = Default::default();
    for round in 0..=ROUNDS {
        for turn in 0..Reader::ALL.len() {
            let reader = Reader::ALL[(round + turn) % Reader::ALL.len()];
            let ran = namespace.read(reader).await?;
            if round > 0 {
                all[reader as usize].push(ran);
            }
        }
    }
    plane.stop();
    Ok(Reader::ALL.into_iter().flat_map(|reader| rows(reader, &all, objects)).collect())
}

fn rows(reader: Reader, all: &[Vec<Ran>; 4], objects: u64) -> Vec<Row> {
    let name = format!("{} of {objects} objects from a real API server", reader.name());
    let runs = &all[reader as usize];
    let mut times: Vec<Duration> = runs.iter().map(|ran| ran.took).collect();
    let mut rows = vec![milliseconds(format!("{name}, median"), quantile(&mut times, 0.5), None)];
    let mut part_of = |other: Reader, target| {
        let pairs = runs.iter().zip(&all[other as usize]);
        let mut parts: Vec<f64> =
            pairs.map(|(one, bare)| one.took.as_secs_f64() / bare.took.as_secs_f64()).collect();
        let what = format!("{name}: part of the time of {}, median of {ROUNDS} rounds", other.name());
        rows.push(Row { what, measured: median(&mut parts), unit: "", target });
    };
    match reader {
        Reader::ClientGo => {}
        // It has no process of its own, whose memory could be measured.
        Reader::Rust => return rows,
        Reader::Tree | Reader::Explain => {
            part_of(Reader::ClientGo, Some(THIRD));
            part_of(Reader::Rust, None);
        }
    }
    let peak = runs.iter().map(|ran| ran.peak).fold(0.0, f64::max);
    rows.push(Row { what: format!("{name}, peak memory"), measured: peak, unit: "MiB", target: None });
    rows
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

/// Discovers all types, and lists those of the namespace: the bare client in Rust.
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
        async move {
            let mut page = ListParams::default().limit(BARE_PAGE);
            let mut objects = Vec::new();
            loop {
                let read = all.list(&page).await?;
                objects.extend(read.items);
                match read.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => page = page.continue_token(&token),
                    None => return Ok::<_, kube::Error>(objects),
                }
            }
        }
    });
    let all: Vec<DynamicObject> = try_join_all(lists).await?.into_iter().flatten().collect();
    let took = began.elapsed();
    ensure!(all.len() as u64 > objects, "{} objects", all.len());
    Ok(took)
}
