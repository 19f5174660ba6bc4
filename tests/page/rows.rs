//! READY and AGE on the cards, and how sparingly the page asks for them.

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

use crate::browser::{Browser, LAPTOP};
use crate::stage::Stage;

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
