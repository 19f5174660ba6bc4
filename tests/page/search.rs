//! From the search to an object, and back.

use anyhow::{Result, ensure};

use crate::browser::{Browser, LAPTOP};
use crate::stage::{Stage, query_of};

/// Enter, as WebDriver names it.
pub const ENTER: &str = "\u{e007}";

#[tokio::test(flavor = "multi_thread")]
async fn a_search_leads_to_an_object_and_the_address_holds_the_state() -> Result<()> {
    let browser = Browser::start(LAPTOP).await?;
    let stage = Stage::start().await?;
    let shop = stage.shop(3).await?;
    browser.goto(&stage.url()).await?;
    browser.has("#health b").await?;
    ensure!(browser.js("return document.querySelector('#object').hidden").await? == true);

    browser.press("/configmap/shop").await?;
    browser.says("#found [id=found-0]", "shop").await?;
    ensure!(browser.query().await?.contains("q=configmap%2Fshop"), "{}", browser.query().await?);
    browser.press(ENTER).await?;
    browser.counts("#drawing .card", 5).await?;
    ensure!(browser.query().await? == query_of(&shop.root), "{}", browser.query().await?);
    ensure!(browser.text("#object-title").await?.contains("shop"));
    browser.says("#explanation .verdict", "stays").await?;

    // Owners are left of the object, dependents right; blocking references are solid, others dashed.
    let lines = "return [...document.querySelectorAll('#drawing .line')].map((line) => line.dataset.blocking).sort().join()";
    ensure!(browser.js(lines).await? == "false,true,true,true");
    let dash = "return getComputedStyle(document.querySelector('#drawing .line[data-blocking=true]')).strokeDasharray";
    ensure!(browser.js(dash).await? == "none");
    browser.click(&format!("#drawing [data-uid='{}']", shop.key.uid)).await?;
    let is_left = "(() => { const at = (name) => [...document.querySelectorAll('#drawing .card')].find((card) => card.querySelector('.title').textContent === name)?.getBoundingClientRect().x; return at('shop') < at('key'); })()";
    browser.until("the owner on the left", is_left).await?;
    ensure!(browser.query().await? == query_of(&shop.key));

    browser.back().await?;
    browser.says("#object-title", "shop").await?;
    browser.press("l").await?;
    browser
        .until(
            "the list",
            "!document.querySelector('#list').hidden && document.activeElement.role === 'treeitem'",
        )
        .await?;
    ensure!(browser.query().await?.ends_with("view=list"));
    browser.reload().await?;
    browser.counts("#list [role=treeitem]", 5).await?;
    browser.press("h").await?;
    browser.until("the overview", "document.querySelector('#object').hidden").await?;
    browser.close().await?;
    stage.end().await
}
