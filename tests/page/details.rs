//! What the page shows beside an object: the last decisions, latencies, and READY and AGE on the cards.

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

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

/// The latencies that are drawn, in order.
const LATENCIES: [&str; 2] = ["kube_gc_deletion_lag_seconds", "kube_gc_request_duration_seconds"];

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
    let lags = stage.collector.metric(&format!("{}_count", LATENCIES[0])).await?;
    ensure!(lags >= 20.0, "{lags}");
    let said = format!("{}.title.includes(': {lags}, half of them ≤')", shown(0));
    browser.until("as many as the metrics have", &said).await?;

    browser.close().await?;
    stage.end().await
}

/// Asks for a row while the tab is hidden, and then for 100, of which the third is refused. Yields the
/// requests, the times to the next ones, and the words.
const ASK: &str = r#"const done = arguments[arguments.length - 1];
(async () => {
    const { Rows } = await import(new URL("/ui/rows.js", location.href).href);
    const node = (name) => ({ uid: name, resource: "pods", kind: "Pod", name, state: "live" });
    const nodes = Array.from({ length: 100 }, (_, at) => node(String(at)));
    const answers = [{ ready: "0/1", isReady: false, age: "5d" }, { ready: "True", isReady: true, age: null }, null, { ready: null, isReady: null, age: null }];
    const [asked, waits, later] = [[], [], window.setTimeout];
    window.fetch = async (address) => {
        const answer = answers[Math.min(asked.push(address), answers.length) - 1];
        return answer ? Response.json(answer) : new Response("busy", { status: 503 });
    };
    window.setTimeout = (_, time) => { waits.push(time); return 0; };
    let hidden = true;
    Object.defineProperty(document, "hidden", { get: () => hidden });
    const rows = new Rows(() => nodes, () => undefined);
    await rows.next();
    const inHiding = asked.length;
    hidden = false;
    for (let turn = 0; turn < 100; turn += 1) await rows.next();
    window.setTimeout = later;
    done({ inHiding, asked: asked.length, different: new Set(asked).size, waits: waits.slice(0, 5), last: waits.at(-1), words: nodes.slice(0, 4).map((node) => rows.words(node)) });
})().catch((error) => done(String(error)))"#;

#[tokio::test(flavor = "multi_thread")]
async fn cards_say_ready_and_age() -> Result<()> {
    let browser = Browser::start(LAPTOP).await?;
    let stage = Stage::start().await?;
    let shop = stage.shop(0).await?;
    let labels = json!({ "app": "web" });
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let spec = json!({ "replicas": 2, "selector": { "matchLabels": labels }, "template": template });
    let web =
        stage.namespace.of::<Deployment>("web").field("spec", spec).owned_by(&shop.root).create().await?;
    browser.goto(&stage.page_of(&web)).await?;
    let says = |text| {
        format!(
            "[...document.querySelectorAll('#drawing .card .under')].some((under) => {text}.test(under.textContent))"
        )
    };
    browser.until("READY and AGE of the Deployment", &says(r"/^D.*t, 0\/2 not ready, \d+[sm]$/")).await?;
    browser.until("the AGE of its owner", &says(r"/^ConfigMap, \d+[sm]$/")).await?;
    browser.close().await?;
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_asked_for_sparingly() -> Result<()> {
    let browser = Browser::start(LAPTOP).await?;
    let stage = Stage::start().await?;
    // Nothing else runs there.
    browser.goto(&format!("{}ui/rows.js", stage.url())).await?;
    let seen = browser.js_later(ASK).await?;
    let expected = json!({
        "inHiding": 0, "asked": 40, "different": 40, "waits": [1000, 0, 0, 30000, 0], "last": 1000,
        "words": [["0/1 not ready", "5d"], ["ready"], [], []],
    });
    ensure!(seen == expected, "{seen:#}");
    browser.close().await?;
    stage.end().await
}
