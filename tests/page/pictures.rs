//! The pictures of docs/page.md: `make page-pictures` writes them.

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;

use crate::browser::{Browser, LAPTOP, Look};
use crate::repository;
use crate::stage::Stage;
use kube_gc_testkit::{Obj, Policy};

/// The most bytes of a picture in the repository.
const MOST_BYTES: usize = 200_000;

/// A release with all that belongs to it, and some of it in trouble.
struct Scene {
    release: Obj,
    deployment: Obj,
}

impl Scene {
    async fn set(stage: &Stage) -> Result<Self> {
        let ns = &stage.namespace;
        let release = ns.configmap("release-2026-11").create().await?;
        let deployment = ns.of::<Deployment>("checkout").owned_by(&release).blocking().create().await?;
        for (set, pods) in [("checkout-5b4c9a77f", 3), ("checkout-7d9f6c8b5", 48)] {
            let set = ns.of::<ReplicaSet>(set).owned_by(&deployment).controlled().blocking().create().await?;
            for pod in 0..pods {
                let name = format!("{}-{:05x}", set.name, (pod + 11) * 7919 % 1_048_573);
                ns.pod(name).owned_by(&set).controlled().blocking().create().await?;
            }
        }
        ns.secret("checkout-tls").owned_by(&deployment).create().await?;
        ns.configmap("checkout-flags").owned_by(&deployment).create().await?;
        let ledger = ns.of::<StatefulSet>("ledger").owned_by(&release).blocking().create().await?;
        for number in 0..3 {
            ns.pod(format!("ledger-{number}")).owned_by(&ledger).controlled().blocking().create().await?;
            ns.of::<PersistentVolumeClaim>(format!("data-ledger-{number}"))
                .owned_by(&ledger)
                .create()
                .await?;
        }
        ns.of::<Job>("migrate-0042").owned_by(&release).blocking().create().await?;

        let preview = ns.configmap("preview").create().await?;
        for name in ["preview-cache", "preview-index", "preview-session"] {
            let object = ns.configmap(name).owned_by(&preview).blocking();
            let object =
                if name == "preview-index" { object.finalizer("example.com/backup") } else { object };
            object.create().await?;
        }
        stage.cluster.delete(&preview, Policy::Foreground).await?;
        let gone = json!({ "apiVersion": "shop.example.com/v1", "kind": "Cart", "name": "alice", "uid": "5d0c", "blockOwnerDeletion": true });
        ns.configmap("alice-receipt").owner_reference(gone).create().await?;
        Ok(Self { release, deployment })
    }
}

/// Checks a picture, and writes it if this was asked for.
async fn take(browser: &Browser, name: &str) -> Result<()> {
    // Nothing moves any more.
    browser
        .until(
            "the transitions to end",
            "document.getAnimations().every((of) => of.playState === 'finished')",
        )
        .await?;
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
    let Some(browser) = Browser::start(TEST, LAPTOP).await? else { return Ok(()) };
    let stage = Stage::start().await?;
    let scene = Scene::set(&stage).await?;
    let explained = "document.querySelector('#explanation .verdict') && document.querySelectorAll('#stuck-body .badge').length > 1";
    browser.goto(&format!("{}&theme=light", stage.page_of(&scene.deployment))).await?;
    browser.until("the page", explained).await?;
    browser.until("the drawing", "document.querySelectorAll('#drawing .mark').length === 48").await?;
    take(&browser, "page-object.png").await?;

    browser.goto(&format!("{}&theme=dark", stage.page_of(&scene.release))).await?;
    browser.until("the page", explained).await?;
    browser.until("the drawing", "document.querySelectorAll('#drawing .mark').length === 48").await?;
    stage.cluster.delete(&scene.deployment, Policy::Foreground).await?;
    browser
        .until("some to be gone", "document.querySelectorAll('#drawing .mark[data-state=gone]').length > 4")
        .await?;
    let picture = browser.screenshot().await?;
    ensure!(picture.len() <= MOST_BYTES, "{} bytes", picture.len());
    if std::env::var_os("KUBE_GC_PAGE_PICTURES").is_some() {
        std::fs::write(repository("docs/pictures/page-cascade.png"), picture)?;
    }

    browser.goto(&format!("{}?theme=light", stage.url())).await?;
    browser.until("the overview", "document.querySelectorAll('#stuck-body .badge').length > 1 && document.querySelectorAll('#decisions-body li').length > 20").await?;
    take(&browser, "page-overview.png").await?;
    browser.close().await?;

    let phone = Look { width: 390, height: 844, is_still: true };
    let Some(browser) = Browser::start(TEST, phone).await? else { return Ok(()) };
    browser.goto(&format!("{}&theme=dark&view=list", stage.page_of(&scene.release))).await?;
    browser.until("the list", "document.querySelectorAll('#list [role=treeitem]').length > 5").await?;
    take(&browser, "page-phone.png").await?;
    browser.close().await?;
    stage.end().await
}
