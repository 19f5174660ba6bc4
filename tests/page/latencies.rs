//! The latencies of the last minutes, as the metrics have them.

use anyhow::{Context as _, Result, ensure};

use crate::browser::{Browser, LAPTOP};
use crate::stage::Stage;
use kube_gc_testkit::Policy;

/// The latencies that are drawn, in order.
const LATENCIES: [&str; 2] = ["kube_gc_deletion_lag_seconds", "kube_gc_request_duration_seconds"];

/// How many values a histogram of the metrics has.
async fn count(stage: &Stage, name: &str) -> Result<u64> {
    let page = stage.collector.get("/metrics").await?.body;
    let mut sum = 0;
    for line in page.lines().filter(|line| line.starts_with(&format!("{name}_count"))) {
        sum += line.rsplit(' ').next().context("no value")?.parse::<u64>()?;
    }
    Ok(sum)
}

#[tokio::test(flavor = "multi_thread")]
async fn latencies_are_drawn_as_histograms() -> Result<()> {
    let browser = Browser::start(LAPTOP).await?;
    let stage = Stage::start().await?;
    let shop = stage.shop(20).await?;
    stage.cluster.settled(&stage.collector).await?;
    browser.goto(&stage.page_of(&shop.root)).await?;
    browser.reads("#connection", "Live").await?;
    let shown = |place: usize| format!("document.querySelectorAll('#pulse .latency')[{place}]");
    ensure!(browser.count("#pulse .latency").await? == LATENCIES.len() as u64);
    // What was before is not known, so nothing is drawn of it.
    browser.until("no lag yet", &format!("{}.querySelector('.value').textContent === '–'", shown(0))).await?;
    stage.cluster.delete(&shop.root, Policy::Background).await?;
    for place in 0..LATENCIES.len() {
        let shown = shown(place);
        let value = format!("{shown}.querySelector('.value').textContent.match(/^[≤>] [0-9.]+ m?s$/)");
        browser.until("the median", &value).await?;
        let drawn = format!(
            "[...{shown}.querySelectorAll('path')].some((path) => path.getAttribute('d').startsWith('M'))"
        );
        browser.until("its histogram", &drawn).await?;
    }
    // Its bucket is exact, and a narrow window breaks no figure.
    let bounds = "[...document.querySelectorAll('#pulse .latency .value')].every((of) => /^[≤>] ([0-9]+|0.1|0.25|0.5|0.75|1.5|2.5|7.5) m?s$/.test(of.textContent) && of.offsetHeight < 2 * parseFloat(getComputedStyle(of).fontSize) && of.getBoundingClientRect().right <= of.closest('.panel').getBoundingClientRect().right)";
    browser.until("whole figures", bounds).await?;
    stage.cluster.settled(&stage.collector).await?;
    let lags = count(&stage, LATENCIES[0]).await?;
    ensure!(lags >= 20, "{lags}");
    let said = format!("{}.title.includes(': {lags}, half of them ≤')", shown(0));
    browser.until("as many as the metrics have", &said).await?;

    browser.close().await?;
    stage.end().await
}
