//! What screen readers are told.

use anyhow::{Result, ensure};

use crate::browser::{Browser, LAPTOP};
use crate::stage::Stage;
use kube_gc_testkit::Policy;

#[tokio::test(flavor = "multi_thread")]
async fn a_cascade_is_one_announcement_per_5_seconds() -> Result<()> {
    let browser = Browser::start(LAPTOP).await?;
    let stage = Stage::start().await?;
    let shop = stage.shop(30).await?;
    browser.goto(&stage.page_of(&shop.root)).await?;
    browser.counts("#drawing .mark", 30).await?;
    browser.js("window.said = []; new MutationObserver(() => window.said.push([performance.now(), document.querySelector('#announcer').textContent])) \
        .observe(document.querySelector('#announcer'), { childList: true, characterData: true, subtree: true })").await?;
    for parts in shop.parts.chunks(10) {
        let before = browser.js("return window.said.length").await?;
        stage.cluster.delete_all(parts, Policy::Background).await?;
        browser.until("an announcement", &format!("window.said.length > {before}")).await?;
    }
    let said = browser.js("return window.said").await?;
    let said = said.as_array().map(Vec::as_slice).unwrap_or_default();
    ensure!(said.iter().all(|said| said[1].as_str().is_some_and(|text| text.contains("gone"))), "{said:?}");
    for pair in said.windows(2) {
        let apart = pair[1][0].as_f64().unwrap_or_default() - pair[0][0].as_f64().unwrap_or_default();
        ensure!(apart >= 4_900.0, "{apart} ms apart: {said:?}");
    }
    ensure!(
        browser.js("return document.querySelector('#announcer').getAttribute('aria-live')").await?
            == "polite"
    );
    browser.close().await?;
    stage.end().await
}
