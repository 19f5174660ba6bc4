//! What changes is shown and announced as it is on the server, and a lost connection is said.

use std::collections::{BTreeSet, HashSet};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::browser::{Browser, LAPTOP, Look};
use crate::stage::Stage;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Obj, Options, Policy};

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

const PARTS: usize = 5000;

/// The state of the root, how much is said to be left, and the uids of all that is called gone.
const SAMPLE: &str = "const uid = (of) => of.dataset.uid ?? of.dataset.key.split('/')[0]; \
    return { \
      root: document.querySelector('#object-head .state')?.dataset.state, \
      left: document.querySelector('#object-head .left')?.textContent ?? null, \
      nothing: document.querySelector('#nothing').hidden ? null : document.querySelector('#nothing').textContent, \
      gone: [...document.querySelectorAll('[data-state=gone]:is([data-uid], [data-key])')].map(uid), \
    }";

/// Compares a sample of the page with what the server has after it. Returns how much is left.
fn compare(sample: &Value, root: &Obj, server: &[Obj]) -> Result<usize> {
    let there: HashSet<&str> = server.iter().map(|object| object.uid.as_str()).collect();
    let gone = sample["gone"].as_array().context("no list")?;
    let wrong: Vec<_> =
        gone.iter().filter(|uid| uid.as_str().is_some_and(|uid| there.contains(uid))).collect();
    ensure!(wrong.is_empty(), "the page calls gone what is there: {wrong:?}");
    let has_root = there.contains(root.uid.as_str());
    let left = match sample["root"].as_str() {
        // It is as old as the last look at the graph.
        Some("live") => return Ok(PARTS),
        Some("absent" | "gone") => sample["left"].as_str().context("it is not said how much is left")?,
        other => anyhow::bail!("the root is {other:?}"),
    };
    ensure!(!has_root, "the page calls the owner absent, which is there");
    let left = left.strip_suffix(" of 5,000 dependents left").with_context(|| left.to_owned())?;
    let left: usize = left.replace(',', "").parse()?;
    ensure!(server.len() <= left, "{left} are said to be left of {}", server.len());
    ensure!(sample["root"] != "gone" || left == 0, "{sample}");
    ensure!(sample["nothing"].is_null() || left == 0, "there is nothing to draw of {left}: {sample}");
    Ok(left)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_called_gone_in_a_large_cascade_is_gone_and_what_is_left_is_counted() -> Result<()> {
    let browser = Browser::start(LAPTOP).await?;
    // So many requests a second, for the page to be seen at work on each machine.
    let stage = Stage::start_with(Options::config("[client]\nqps = 500\n")).await?;
    let root = stage.namespace.configmap("shop").create().await?;
    let part = |part| stage.namespace.configmap(format!("part-{part:04}")).owned_by(&root);
    create_all((0..PARTS).map(part)).await?;
    browser.goto(&stage.page_of(&root)).await?;
    browser.says("#drawing .header", "5,000 ConfigMaps").await?;
    stage.cluster.delete(&root, Policy::Background).await?;

    let (mut counts, mut called_gone) = (BTreeSet::from([PARTS]), HashSet::new());
    while !counts.contains(&0) {
        poll("the count to fall", async || {
            let sample = browser.js(SAMPLE).await?;
            let server = stage.cluster.list(&root.resource, Some(stage.namespace.name())).await?;
            let left = compare(&sample, &root, &server)?;
            let least = counts.first().copied().unwrap_or_default();
            ensure!(left <= least, "{left} after {least}");
            called_gone.extend(sample["gone"].as_array().into_iter().flatten().map(Value::to_string));
            counts.insert(left);
            Ok(left < least)
        })
        .await?;
    }
    ensure!(counts.len() > 3, "the count fell at once: {counts:?}");
    ensure!(called_gone.len() > 20, "only {} were called gone", called_gone.len());
    browser.says("#nothing", "no object names it").await?;
    browser.close().await?;
    stage.end().await
}
