//! The pictures of docs/page.md: `make page-pictures` writes them.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::browser::{Browser, Look};
use crate::repository;
use crate::stage::Stage;
use kube_gc_testkit::Cluster;

/// The most bytes of a picture in the repository.
const MOST_BYTES: usize = 200_000;
const WINDOW: Look = Look { width: 1280, height: 800, is_still: false };
const OVERVIEW: Look = Look { width: 1200, height: 640, is_still: false };
const PHONE: Look = Look { width: 390, height: 844, is_still: true };
/// The namespace of the pictures.
const NAMESPACE: &str = "shop";

/// A type: the prefix of its path, its plural, its kind.
type Type = (&'static str, &'static str, &'static str);
const CONFIG_MAP: Type = ("/api/v1", "configmaps", "ConfigMap");
const SECRET: Type = ("/api/v1", "secrets", "Secret");
const POD: Type = ("/api/v1", "pods", "Pod");
const CLAIM: Type = ("/api/v1", "persistentvolumeclaims", "PersistentVolumeClaim");
const DEPLOYMENT: Type = ("/apis/apps/v1", "deployments", "Deployment");
const REPLICA_SET: Type = ("/apis/apps/v1", "replicasets", "ReplicaSet");
const STATEFUL_SET: Type = ("/apis/apps/v1", "statefulsets", "StatefulSet");
const JOB: Type = ("/apis/batch/v1", "jobs", "Job");

fn path((prefix, plural, _): Type) -> String {
    format!("{prefix}/namespaces/{NAMESPACE}/{plural}")
}

/// Creates an object with an owner, whose deletion waits for it if it `blocks`.
async fn create(
    cluster: &Cluster,
    of: Type,
    name: &str,
    owner: Option<&Value>,
    blocks: bool,
    finalizers: &[&str],
) -> Result<Value> {
    let version = of.0.trim_start_matches("/apis/").trim_start_matches("/api/");
    let owners = owner.map(|owner| {
        json!({
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks, "controller": blocks,
        })
    });
    let owners: Vec<Value> = owners.into_iter().collect();
    let metadata = json!({ "name": name, "ownerReferences": owners, "finalizers": finalizers });
    let mut object = json!({ "apiVersion": version, "kind": of.2, "metadata": metadata });
    if of == POD {
        object["spec"] = json!({ "containers": [{ "name": "main", "image": "none" }] });
    }
    cluster.send("POST", &path(of), None, Some(&object)).await
}

async fn delete(cluster: &Cluster, of: Type, name: &str) -> Result<()> {
    let options = json!({ "propagationPolicy": "Foreground" });
    cluster.send("DELETE", &format!("{}/{name}", path(of)), None, Some(&options)).await.map(drop)
}

/// A release with all that belongs to it, and some of it in trouble.
struct Scene {
    release: Value,
    deployment: Value,
}

impl Scene {
    async fn set(cluster: &Cluster) -> Result<Self> {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
        cluster.send("POST", "/api/v1/namespaces", None, Some(&namespace)).await?;
        let cart = json!({
            "apiVersion": "shop.example.com/v1", "kind": "Cart",
            "metadata": { "name": "alice", "uid": "5d0c9a52-7c0e-4a53-9d4b-1f0c6a1f7a11" },
        });
        create(cluster, CONFIG_MAP, "alice-receipt", Some(&cart), true, &[]).await?;
        let preview = create(cluster, CONFIG_MAP, "preview", None, false, &[]).await?;
        create(cluster, CONFIG_MAP, "preview-index", Some(&preview), true, &["example.com/backup"]).await?;
        delete(cluster, CONFIG_MAP, "preview").await?;

        let release = create(cluster, CONFIG_MAP, "release-2026-11", None, false, &[]).await?;
        let deployment = create(cluster, DEPLOYMENT, "checkout", Some(&release), true, &[]).await?;
        for (set, pods) in [("checkout-5b4c9a77f", 3), ("checkout-7d9f6c8b5", 48)] {
            let owner = create(cluster, REPLICA_SET, set, Some(&deployment), true, &[]).await?;
            for pod in 0..pods {
                let name = format!("{set}-{:05x}", (pod + 11) * 79_193 % 1_048_573);
                let finalizers: &[&str] = if pods == 3 && pod == 1 { &["example.com/drain"] } else { &[] };
                create(cluster, POD, &name, Some(&owner), true, finalizers).await?;
            }
        }
        create(cluster, SECRET, "checkout-tls", Some(&deployment), false, &[]).await?;
        create(cluster, CONFIG_MAP, "checkout-flags", Some(&deployment), false, &[]).await?;
        let ledger = create(cluster, STATEFUL_SET, "ledger", Some(&release), true, &[]).await?;
        for number in 0..3 {
            create(cluster, POD, &format!("ledger-{number}"), Some(&ledger), true, &[]).await?;
            create(cluster, CLAIM, &format!("data-ledger-{number}"), Some(&ledger), false, &[]).await?;
        }
        create(cluster, JOB, "migrate-0042", Some(&release), true, &[]).await?;
        Ok(Self { release, deployment })
    }
}

/// The address of an object's page.
fn page_of(stage: &Stage, object: &Value, resource: &str) -> Result<String> {
    let uid = object["metadata"]["uid"].as_str().context("no uid")?;
    Ok(format!("{}?uid={uid}&resource={resource}", stage.url()))
}

/// Waits until nothing moves any more.
async fn still(browser: &Browser) -> Result<()> {
    browser.until("the transitions to end", "document.getAnimations().length === 0").await
}

/// Checks a picture, and writes it if this was asked for.
async fn take(browser: &Browser, name: &str) -> Result<()> {
    let picture = browser.screenshot().await?;
    ensure!(
        picture.starts_with(b"\x89PNG") && picture.len() <= MOST_BYTES,
        "{name}: {} bytes",
        picture.len()
    );
    if std::env::var_os("KUBE_GC_PAGE_PICTURES").is_some() {
        std::fs::write(repository("docs/pictures").join(name), picture)?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pictures_can_be_taken() -> Result<()> {
    const TEST: &str = "the pictures can be taken";
    let Some(browser) = Browser::start(TEST, WINDOW).await? else { return Ok(()) };
    let stage = Stage::start().await?;
    let scene = Scene::set(&stage.cluster).await?;
    let explained = "document.querySelector('#explanation .verdict') && document.querySelectorAll('#stuck-body .badge').length > 1";
    let deployment = page_of(&stage, &scene.deployment, "deployments.apps")?;
    browser.goto(&format!("{deployment}&theme=light")).await?;
    browser.until("the page", explained).await?;
    browser.until("the drawing", "document.querySelectorAll('#drawing .mark').length === 48").await?;
    still(&browser).await?;
    take(&browser, "page-object.png").await?;

    browser.goto(&format!("{deployment}&theme=dark")).await?;
    browser.until("the page", explained).await?;
    browser.until("the drawing", "document.querySelectorAll('#drawing .mark').length === 48").await?;
    still(&browser).await?;
    delete(&stage.cluster, DEPLOYMENT, "checkout").await?;
    browser
        .until("the first to go", "document.querySelectorAll('#drawing .mark[data-state=gone]').length > 4")
        .await?;
    browser
        .until(
            "what holds the rest",
            "document.querySelector('#explanation').textContent.includes('example.com/drain')",
        )
        .await?;
    take(&browser, "page-cascade.png").await?;

    browser.close().await?;

    let Some(browser) = Browser::start(TEST, OVERVIEW).await? else { return Ok(()) };
    browser.goto(&format!("{}?theme=light", stage.url())).await?;
    let full = "document.querySelectorAll('#stuck-body .badge').length > 1 && document.querySelectorAll('#decisions-body li').length > 20";
    browser.until("the overview", full).await?;
    // A cascade, so that there is something to draw.
    let batch = create(&stage.cluster, CONFIG_MAP, "batch", None, false, &[]).await?;
    for number in 0..40 {
        create(&stage.cluster, CONFIG_MAP, &format!("batch-{number}"), Some(&batch), true, &[]).await?;
    }
    delete(&stage.cluster, CONFIG_MAP, "batch").await?;
    let drawn = "[...document.querySelectorAll('#pulse .latency')].every((of) => of.querySelector('[d^=M]'))";
    browser.until("its latencies", drawn).await?;
    browser
        .until("the next seconds", "document.querySelector('#pulse .measure .value').textContent === '0/s'")
        .await?;
    take(&browser, "page-overview.png").await?;
    browser.close().await?;

    let Some(browser) = Browser::start(TEST, PHONE).await? else { return Ok(()) };
    let release = page_of(&stage, &scene.release, "configmaps")?;
    browser.goto(&format!("{release}&theme=dark&view=list")).await?;
    browser.until("the list", "document.querySelectorAll('#list [role=treeitem]').length > 5").await?;
    browser.until("the explanation", "document.querySelector('#explanation .verdict')").await?;
    take(&browser, "page-phone.png").await?;
    browser.close().await?;
    stage.end().await
}
