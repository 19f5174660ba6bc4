//! A large cascade: what the page says of it is true of the server.

use std::collections::{BTreeSet, HashSet};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::browser::{Browser, LAPTOP};
use crate::stage::Stage;
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Obj, Options, Policy};

const PARTS: usize = 5000;

/// The state of the root, how much is said to be left, and the uids of all that is called gone.
const SAMPLE: &str = "const uid = (of) => of.dataset.uid ?? of.dataset.key.split('/')[0]; \
    return { \
      root: document.querySelector('#object-head .state')?.dataset.state, \
      left: document.querySelector('#object-head .left')?.textContent ?? null, \
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
