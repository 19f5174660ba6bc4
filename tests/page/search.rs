//! From the search to an object, and back.

use anyhow::{Result, ensure};

use crate::browser::{Browser, LAPTOP};
use crate::stage::{Stage, query_of};
use kube_gc_testkit::Policy;

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
    browser.says("#health", "writes").await?;
    let title = browser.js("return document.title").await?;
    let about = concat!("kube-gc ", env!("CARGO_PKG_VERSION"), " writes");
    ensure!(
        title.as_str().is_some_and(|title| title.starts_with("127.0.0.1:") && title.ends_with(about)),
        "{title}"
    );

    // As kubectl takes it: short names, a namespace. The whole name comes before its beginning.
    stage.namespace.configmap("a-shop").create().await?;
    stage.namespace.configmap("shop-2").create().await?;
    stage.cluster.settled(&stage.collector).await?;
    let names = "[...document.querySelectorAll('#found .title')].map((name) => name.textContent).join()";
    for text in ["cm/shop", "configmaps.v1/shop", &format!("{}/shop", stage.namespace.name())] {
        browser.js("document.activeElement.blur()").await?;
        browser.press(&format!("/{text}")).await?;
        browser.until(text, &format!("{names} === 'shop,shop-2,a-shop'")).await?;
    }
    browser.js("document.activeElement.blur()").await?;
    browser.press("/secrets/nowhere").await?;
    browser.says("#found", "There are no secrets named like \"nowhere\".").await?;
    browser.js("document.activeElement.blur()").await?;
    browser.press("/cm/shop").await?;
    browser.says("#found [id=found-0]", "shop").await?;
    ensure!(browser.query().await?.contains("q=cm%2Fshop"), "{}", browser.query().await?);
    browser.press(ENTER).await?;
    browser.counts("#drawing .card", 5).await?;
    ensure!(browser.query().await? == query_of(&shop.root), "{}", browser.query().await?);
    ensure!(browser.text("#object-title").await?.contains("shop"));
    browser.says("#explanation .verdict", "No garbage collector deletes").await?;

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

    // What kube-gc has deleted is found, too, with the reason.
    stage.cluster.delete(&shop.root, Policy::Background).await?;
    stage.cluster.settled(&stage.collector).await?;
    stage.cluster.assert_gone([&shop.key]).await?;
    browser.press("/secret/key").await?;
    browser.says("#found-0", "deleted").await?;
    browser.press(ENTER).await?;
    browser.says("#explanation", "ConfigMap shop: absent").await?;
    browser.close().await?;
    stage.end().await
}
