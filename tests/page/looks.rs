//! How it looks: from a phone to a wall, in both themes, for axe-core.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::browser::{Browser, LAPTOP, Look};
use crate::stage::Stage;
use crate::tools;
use kube_gc_testkit::Policy;

#[tokio::test(flavor = "multi_thread")]
async fn it_fits_each_screen() -> Result<()> {
    for (width, height) in [(360, 740), (768, 1024), (1440, 900), (3840, 2160)] {
        let look = Look { width, height, is_still: true };
        let browser = Browser::start(look).await?;
        let stage = Stage::start().await?;
        let shop = stage.shop(12).await?;
        for address in [stage.url(), stage.page_of(&shop.root), stage.page_of(&shop.root) + "&view=list"] {
            browser.goto(&address).await?;
            browser.has("#health b").await?;
            let fits = "[...document.querySelectorAll('main, header, .panel, .head, #search')].every((of) => of.hidden || of.getBoundingClientRect().right <= innerWidth + 0.5) && document.documentElement.scrollWidth <= innerWidth";
            browser.until(&format!("{address} to fit {width} pixels"), fits).await?;
            if address.contains("uid=") {
                browser
                    .until(
                        "the drawing or the list",
                        "document.querySelectorAll('#drawing .mark, #list [role=treeitem]').length >= 12",
                    )
                    .await?;
                // All of the drawing is in view.
                let inside = "(() => { const stage = document.querySelector('.stage').getBoundingClientRect(); const drawn = document.querySelector('#drawing .boxes').getBoundingClientRect(); return document.querySelector('#drawing').hidden || drawn.top >= stage.top && drawn.bottom <= stage.bottom; })()";
                browser.until("the drawing to be in view", inside).await?;
            }
        }
        browser.close().await?;
        stage.end().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn axe_finds_no_violation() -> Result<()> {
    let axe = std::fs::read_to_string(tools::directory()?.join("axe-core/axe.min.js"))?;
    let look = Look { is_still: true, ..LAPTOP };
    let browser = Browser::start(look).await?;
    let stage = Stage::start().await?;
    let shop = stage.shop(9).await?;
    let held = stage.cluster.set_finalizers(&shop.parts[0], &["example.com/held"]).await?;
    stage.cluster.delete(&held, Policy::Background).await?;
    let missing = json!({ "apiVersion": "example.com/v1", "kind": "Nothing", "name": "n", "uid": "u", "blockOwnerDeletion": true });
    stage.namespace.configmap("stuck").owner_reference(missing).create().await?;
    let root = stage.page_of(&shop.root);
    let shown =
        "document.querySelector('#explanation .verdict') && document.querySelector('#stuck-body .badge')";
    for theme in ["light", "dark"] {
        for (address, ready, act) in [
            (format!("{}?theme={theme}", stage.url()), "document.querySelector('#stuck-body .badge')", ""),
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
    stage.end().await
}
