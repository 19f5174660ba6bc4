//! The last decisions: one namespace does not hide those of another.

use anyhow::Result;

use crate::browser::{Browser, LAPTOP};
use crate::stage::Stage;
use kube_gc_testkit::cluster::create_all;
use kube_gc_testkit::{Options, Policy};

/// How many decisions are kept.
const KEPT: usize = 150;

#[tokio::test(flavor = "multi_thread")]
async fn the_decisions_of_each_namespace_are_listed_and_can_be_filtered() -> Result<()> {
    let browser = Browser::start(LAPTOP).await?;
    let stage = Stage::start_with(Options::config(format!("[debug]\ndecisions = {KEPT}\n"))).await?;
    let quiet = stage.cluster.namespace().await?;
    for (namespace, parts) in [(&quiet, 1), (&stage.namespace, 2 * KEPT)] {
        let root = namespace.configmap("root").create().await?;
        let part = |part| namespace.secret(format!("{}-{part}", namespace.name())).owned_by(&root);
        create_all((0..parts).map(part)).await?;
        stage.cluster.delete(&root, Policy::Background).await?;
        stage.cluster.settled(&stage.collector).await?;
    }
    browser.goto(&stage.url()).await?;
    let quiet_part = format!("{}-0", quiet.name());
    browser.says("#decisions-body", &quiet_part).await?;
    browser.says("#decisions-body", &format!("{}-", stage.namespace.name())).await?;

    browser.click("#of-namespace").await?;
    browser.press(quiet.name()).await?;
    let only = format!(
        "(() => {{ const rows = [...document.querySelectorAll('#decisions-body li')]; return rows.length === 1 && rows[0].textContent.includes({quiet_part:?}); }})()"
    );
    browser.until("only its decisions", &only).await?;
    browser.click("#of-outcome").await?;
    browser.press("denied").await?;
    browser.press(crate::search::ENTER).await?;
    browser.reads("#decisions-body", "No decision like this is remembered.").await?;
    browser.close().await?;
    stage.end().await
}
