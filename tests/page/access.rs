//! Access control: the page asks for a token, and keeps it in memory. Only a real API server
//! reviews tokens.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::accounts::Accounts;
use crate::browser::{Browser, LAPTOP};
use crate::search::ENTER;
use kube_gc_testkit::{Cluster, Collector, ControlPlane, Options};

#[tokio::test(flavor = "multi_thread")]
async fn the_page_asks_for_a_token_and_keeps_it_in_memory() -> Result<()> {
    let browser = Browser::start(LAPTOP).await?;
    let plane = tokio::task::spawn_blocking(|| ControlPlane::start_with(&[])).await??;
    let cluster = Cluster::new(plane.client().await?);
    let accounts = Accounts { cluster, namespace: "default".to_owned() };
    accounts.create("person", Some("/debug/*")).await?;
    let token = accounts.token("person", 3600).await?;
    let options = Options::config("[access]\nlisteners = \"debug\"\n");
    let collector = Collector::start(&plane, options).await?;
    collector.ready().await?;
    browser.goto(&format!("http://{}/", collector.debug_address())).await?;
    browser.until("the question", "document.querySelector('#token').open").await?;
    ensure!(
        browser.js("return document.querySelector('#health').textContent").await? == "",
        "data without a token"
    );
    ensure!(collector.get_debug("/debug/summary").await?.status == 401);

    browser.press("garbage").await?;
    browser.press(ENTER).await?;
    browser.until("the refusal", "document.querySelector('#token').open && document.querySelector('#token-why').textContent.includes('does not know this token')").await?;
    browser.press(&token).await?;
    browser.press(ENTER).await?;
    browser.says("#health", "types synced").await?;
    ensure!(browser.js("return document.querySelector('#token').open").await? == false);

    let kept = "return [document.cookie, localStorage.length, sessionStorage.length, history.state, document.documentElement.outerHTML.includes('.eyJ')]";
    ensure!(browser.js(kept).await? == json!(["", 0, 0, null, false]), "the token is kept outside of memory");
    ensure!(browser.query().await?.is_empty());
    browser.reload().await?;
    browser.until("the question again", "document.querySelector('#token').open").await?;
    browser.close().await?;
    collector.stop().await
}
