//! What changes is shown, and a lost connection is said.

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::browser::{Browser, LAPTOP, Look};
use crate::stage::Stage;
use kube_gc_testkit::Policy;

/// Notes each state in which the page has shown a mark or a card.
const WATCH: &str = "window.states = new Set(); window.most = 0; \
    new MutationObserver(() => { \
      const marks = document.querySelectorAll('#drawing .mark, #drawing .card'); \
      window.most = Math.max(window.most, marks.length); \
      for (const mark of marks) window.states.add(mark.dataset.state); \
    }).observe(document.querySelector('#drawing'), { subtree: true, childList: true })";

#[tokio::test(flavor = "multi_thread")]
async fn a_cascade_can_be_watched_as_it_runs() -> Result<()> {
    let browser = Browser::start(LAPTOP).await?;
    let stage = Stage::start().await?;
    let shop = stage.shop(40).await?;
    // The root stays until a person lets it go, so that its end can be seen, too.
    let held = stage.cluster.set_finalizers(&shop.parts[7], &["example.com/held"]).await?;
    browser.goto(&stage.page_of(&shop.root)).await?;
    browser.counts("#drawing .mark[data-state=live]", 40).await?;
    browser.js(WATCH).await?;
    stage.cluster.delete(&shop.root, Policy::Foreground).await?;
    browser.counts("#drawing [data-state=terminating]:is(.mark, .card)", 1).await?;
    browser.says("#explanation", "example.com/held").await?;
    ensure!(browser.js("return window.states.has('gone')").await? == true, "nothing was seen to go");
    browser.counts("#drawing [data-state=gone]", 0).await?;
    browser.says("#stuck-body", "shop").await?;

    stage.cluster.set_finalizers(&held, &[]).await?;
    browser.has("#object-head [data-state=gone]").await?;
    browser.says("#explanation .badge", "finalizer removed").await?;
    let decided = "document.querySelector('#decisions-body').textContent.includes('part-000')";
    browser.until("the decisions", decided).await?;
    ensure!(browser.js("return [...document.querySelectorAll('#pulse .trace')].every((line) => line.getAttribute('d').length > 20)").await? == true);
    browser.close().await?;
    stage.end().await
}

/// Fails if the page takes an owner for gone with all that it shows, as soon as it leaves the graph.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_gone_is_the_root_while_objects_name_it() -> Result<()> {
    let browser = Browser::start(LAPTOP).await?;
    let stage = Stage::start().await?;
    let shop = stage.shop(12).await?;
    let mut held = Vec::new();
    for part in &shop.parts[..9] {
        held.push(stage.cluster.set_finalizers(part, &["example.com/held"]).await?);
    }
    browser.goto(&stage.page_of(&shop.root)).await?;
    browser.counts("#drawing .mark[data-state=live]", 12).await?;
    stage.cluster.delete(&shop.root, Policy::Background).await?;
    browser.has("#object-head [data-state=absent]").await?;
    browser.counts("#drawing .mark[data-state=terminating]", 9).await?;
    browser.says("#object-head", "9 of 13 dependents left").await?;
    for part in &held {
        stage.cluster.set_finalizers(part, &[]).await?;
    }
    browser.has("#object-head [data-state=gone]").await?;
    browser.says("#object-head", "0 of 13 dependents left").await?;
    browser.says("#nothing", "no object names it").await?;
    browser.close().await?;
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn never_more_than_200_objects_are_drawn() -> Result<()> {
    let browser = Browser::start(LAPTOP).await?;
    let stage = Stage::start().await?;
    let shop = stage.shop(450).await?;
    browser.goto(&stage.page_of(&shop.root)).await?;
    browser.says("#drawing .header", "450 ConfigMaps").await?;
    browser.js(WATCH).await?;
    // What is terminating takes the places of others, which are not gone.
    for part in &shop.parts[445..] {
        let held = stage.cluster.set_finalizers(part, &["example.com/held"]).await?;
        stage.cluster.delete(&held, Policy::Background).await?;
    }
    browser.counts("#drawing .mark[data-state=terminating]", 5).await?;
    ensure!(browser.js("return window.states.has('gone')").await? == false, "nothing is gone");
    browser.click("#drawing .header.link").await?;
    browser
        .until("each by its name", "document.querySelectorAll('#drawing .members .card').length > 100")
        .await?;
    stage.cluster.delete(&shop.root, Policy::Background).await?;
    browser.has("#object-head [data-state=absent]").await?;
    browser.counts("#drawing .members > *", 0).await?;
    let most = browser.js("return window.most").await?;
    ensure!(most.as_u64().is_some_and(|most| (100..=200).contains(&most)), "{most} were drawn");
    browser.close().await?;
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_said_and_comes_back_by_itself() -> Result<()> {
    let browser = Browser::start(LAPTOP).await?;
    let stage = Stage::start().await?;
    let shop = stage.shop(1).await?;
    browser.goto(&stage.page_of(&shop.root)).await?;
    let is_connected = "['live', 'polling'].includes(document.querySelector('#connection').dataset.mode)";
    browser.until("a connection", is_connected).await?;
    browser.counts("#drawing .card", 3).await?;
    stage.gate.shut();
    browser.reads("#connection", "Not connected").await?;
    let notice = browser.text("#notice").await?;
    ensure!(notice.contains("does not answer") && notice.contains("What you see is from"), "{notice}");
    ensure!(browser.count("#drawing .card").await? == 3, "what was known is still shown");
    browser.says("#announcer", "does not answer").await?;
    stage.namespace.configmap("late").owned_by(&shop.root).create().await?;
    stage.gate.reopen();
    browser.until("the connection", is_connected).await?;
    browser.counts("#drawing .card", 4).await?;
    ensure!(browser.js("return document.querySelector('#notice').hidden").await? == true);
    browser.close().await?;
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_moves_for_those_who_prefer_that() -> Result<()> {
    let look = Look { is_still: true, ..LAPTOP };
    let browser = Browser::start(look).await?;
    let stage = Stage::start().await?;
    let shop = stage.shop(8).await?;
    browser.goto(&stage.page_of(&shop.root)).await?;
    browser.counts("#drawing .mark", 8).await?;
    stage.cluster.delete(&shop.parts[0], Policy::Background).await?;
    browser.has("#drawing .mark[data-state=gone]").await?;
    ensure!(browser.js("return document.getAnimations().length").await? == json!(0));
    browser.counts("#drawing .mark", 7).await?;
    browser.close().await?;
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_stream_the_page_asks_and_says_so() -> Result<()> {
    let browser = Browser::start(LAPTOP).await?;
    let stage = Stage::start().await?;
    let shop = stage.shop(1).await?;
    // All streams that there are.
    let mut taken = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(stage.collector.debug_address()).await?;
        stream.write_all(b"GET /debug/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
        let mut status = [0; 12];
        stream.read_exact(&mut status).await?;
        ensure!(&status == b"HTTP/1.1 200", "{}", String::from_utf8_lossy(&status));
        taken.push(stream);
    }
    browser.goto(&stage.page_of(&shop.root)).await?;
    browser.reads("#connection", "Every 2 s").await?;
    browser.counts("#drawing .card", 3).await?;
    stage.namespace.configmap("late").owned_by(&shop.root).create().await?;
    browser.counts("#drawing .card", 4).await?;
    let why = browser.js("return document.querySelector('#connection').title").await?;
    ensure!(why.as_str().is_some_and(|why| why.contains("too many")), "{why}");
    drop(taken);
    browser.reads("#connection", "Live").await?;
    browser.close().await?;
    stage.end().await
}
