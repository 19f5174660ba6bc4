//! How it looks: from a phone to a wall, in both themes, for axe-core.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::browser::{Browser, Look};
use crate::stage::Stage;
use crate::tools;
use kube_gc_testkit::Policy;
use kube_gc_testkit::cluster::poll;

/// What is wrong with how the page looks now.
const MEASURE: &str = include_str!("measure.js");

#[tokio::test(flavor = "multi_thread")]
async fn it_fits_each_screen() -> Result<()> {
    let stage = Stage::start().await?;
    let shop = stage.shop(12).await?;
    // Four levels of long names, an owner, and something that is stuck.
    let mut last = shop.root.clone();
    for level in 1..=4 {
        let name = format!("level-{level}-of-a-service-with-a-long-name-5d8f9c7b6d-x8kzq");
        last = stage.namespace.configmap(name).owned_by(&last).blocking().create().await?;
    }
    let held = stage.cluster.set_finalizers(&last, &["example.com/held"]).await?;
    stage.cluster.delete(&held, Policy::Background).await?;
    let missing = json!({ "apiVersion": "example.com/v1", "kind": "Nothing", "name": "n", "uid": "u", "blockOwnerDeletion": true });
    stage.namespace.configmap("stuck").owner_reference(missing).create().await?;
    let root = stage.page_of(&shop.root);
    let drawn = "document.querySelectorAll('#drawing .mark').length === 12 && document.querySelector('#explanation .verdict')";
    for (width, height) in [(360, 740), (390, 844), (768, 1024), (800, 1280), (1440, 900), (3840, 2160)] {
        let look = Look { width, height, is_still: true };
        let browser = Browser::start(look).await?;
        for (address, ready, keys) in [
            (format!("{}?theme=light", stage.url()), "document.querySelector('#stuck-body .badge')", ""),
            (root.clone(), drawn, ""),
            (stage.page_of(&last) + "&theme=dark", "document.querySelector('#explanation .verdict')", ""),
            (
                format!("{root}&view=list"),
                "document.querySelectorAll('#list [role=treeitem]').length > 12",
                "",
            ),
            (stage.url(), "document.querySelector('#health b')", "/o"),
        ] {
            browser.goto(&address).await?;
            browser.until("the page", ready).await?;
            browser.press(keys).await?;
            if !keys.is_empty() {
                browser.has("#found-5").await?;
            }
            let what = format!("{address} to look well at {width} pixels");
            let mut problems = json!(null);
            let measured = poll(&what, async || {
                problems = browser.js(MEASURE).await?;
                Ok(problems == json!([]))
            });
            measured.await.with_context(|| format!("{problems:#}"))?;
        }
        browser.close().await?;
    }
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn axe_finds_no_violation() -> Result<()> {
    let axe = std::fs::read_to_string(tools::directory()?.join("axe-core/axe.min.js"))?;
    let stage = Stage::start().await?;
    let shop = stage.shop(9).await?;
    let held = stage.cluster.set_finalizers(&shop.parts[0], &["example.com/held"]).await?;
    stage.cluster.delete(&held, Policy::Background).await?;
    let missing = json!({ "apiVersion": "example.com/v1", "kind": "Nothing", "name": "n", "uid": "u", "blockOwnerDeletion": true });
    stage.namespace.configmap("stuck").owner_reference(missing).create().await?;
    let root = stage.page_of(&shop.root);
    let shown =
        "document.querySelector('#explanation .verdict') && document.querySelector('#stuck-body .badge')";
    for (width, height) in [(1440, 900), (390, 844)] {
        let look = Look { width, height, is_still: true };
        let browser = Browser::start(look).await?;
        for theme in ["light", "dark"] {
            for (address, ready, act) in [
                (
                    format!("{}?theme={theme}", stage.url()),
                    "document.querySelector('#stuck-body .badge')",
                    "",
                ),
                (format!("{root}&theme={theme}"), shown, ""),
                (format!("{root}&theme={theme}&view=list"), shown, ""),
                (format!("{}&theme={theme}", stage.page_of(&held)), shown, ""),
                (format!("{root}&theme={theme}"), shown, "/shop"),
                (format!("{root}&theme={theme}"), shown, "?"),
            ] {
                browser.goto(&address).await?;
                browser.until("the page", ready).await?;
                browser.press(act).await?;
                if act == "/shop" {
                    browser.has("#found-0").await?;
                }
                browser.js(&axe).await?;
                let found = browser.js_later("const done = arguments[arguments.length - 1]; axe.run(document, { resultTypes: ['violations'] }).then( \
                ({ violations }) => done(violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.target} ${node.failureSummary}`).join('; ')}`)), (error) => done([String(error)]))").await?;
                ensure!(found == json!([]), "{address} {act}: {found:#}");
            }
        }
        browser.close().await?;
    }
    stage.end().await
}
