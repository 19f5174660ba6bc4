//! Text that others choose stays text: names, kinds, finalizers, messages of webhooks.

use anyhow::{Context as _, Result, ensure};
use kube_gc_apiserver::guards::{Admission, Denial, Operation, Verdict};
use serde_json::json;

use crate::browser::{Browser, LAPTOP};
use crate::stage::Stage;
use kube_gc_testkit::Policy;

/// Each would show itself if it became more than text.
const TEXTS: [&str; 6] = [
    "<img src=/nowhere onerror=window.hacked=1>",
    "<script>window.hacked=1</script>",
    "\"><svg/onload=window.hacked=1>",
    "<img src=http://192.0.2.1/pixel>",
    "\u{202e}gnp.evil\u{202c} \u{2066}\u{200f}\u{200b}\u{feff}",
    "javascript:window.hacked=1//${window.hacked=1}{{window.hacked=1}}",
];

#[tokio::test(flavor = "multi_thread")]
async fn hostile_texts_stay_text() -> Result<()> {
    let browser = Browser::start(LAPTOP).await?;
    let stage = Stage::start().await?;
    let long = TEXTS.concat() + &"x".repeat(10_000);
    let message = long.clone();
    let embedded = stage.plane.embedded().context("not embedded")?;
    embedded.server().admit_by(Some(Admission::new(move |review| {
        if review.operation == Operation::Create || review.object.label("denied") != Some("yes") {
            return Verdict::Allow;
        }
        let (webhook, message) = ("guard.example.com".to_owned(), message.clone());
        Denial { webhook, code: Some(403), message, ..Denial::default() }.into()
    })));

    let victim = stage.namespace.configmap("victim").create().await?;
    for (number, text) in TEXTS.iter().copied().chain([long.as_str()]).enumerate() {
        let reference = json!({ "apiVersion": text.replace('/', "-"), "kind": text, "name": text, "uid": format!("{number}-{text}") });
        let object = stage.namespace.configmap(format!("bad-{number}")).owned_by(&victim).blocking();
        object.owner_reference(reference).create().await?;
    }
    let gone = stage.namespace.configmap("gone").create().await?;
    let denied = stage.namespace.secret("denied").owned_by(&gone).create().await?;
    stage.cluster.set_label(&denied, "denied", "yes").await?;
    stage.cluster.delete(&gone, Policy::Background).await?;

    // What a person would see, on each page that shows one of them.
    let visible = "document.body.innerText";
    browser.goto(&stage.url()).await?;
    browser.until("the message of the webhook", &format!("{visible}.includes('guard.example.com')")).await?;
    check(&browser).await?;
    browser.goto(&stage.page_of(&denied)).await?;
    browser.has("#explanation details.message").await?;
    browser.click("#explanation details summary").await?;
    browser
        .until("its text", &format!("{visible}.includes('<img src=/nowhere onerror=window.hacked=1>')"))
        .await?;
    check(&browser).await?;
    for object in stage.cluster.list(&victim.resource, Some(stage.namespace.name())).await? {
        if !object.name.starts_with("bad-") {
            continue;
        }
        browser.goto(&stage.page_of(&object)).await?;
        browser.until("the drawing", "document.querySelectorAll('#drawing .card').length >= 2").await?;
        browser.has("#explanation .rows .ref").await?;
        check(&browser).await?;
        browser.press("l").await?;
        browser.until("the list", "document.querySelectorAll('#list [role=treeitem]').length >= 3").await?;
        check(&browser).await?;
    }
    browser
        .goto(&format!(
            "{}?uid={}&q={}",
            stage.url(),
            "%3Cimg%20src%3Dx%20onerror%3Dwindow.hacked%3D1%3E",
            "%3Cscript%3E"
        ))
        .await?;
    browser.until("the answer", &format!("{visible}.includes('not in the graph')")).await?;
    check(&browser).await?;
    browser.close().await?;
    stage.end().await
}

/// Nothing was executed, no element was made, nothing is reordered or hidden, nothing is wider than
/// the window.
async fn check(browser: &Browser) -> Result<()> {
    ensure!(browser.js("return window.hacked === undefined").await? == true, "a text was executed");
    ensure!(
        browser.count("script").await? == 1 && browser.count("img:not(header img)").await? == 0,
        "an element was made of text"
    );
    ensure!(browser.count("iframe, object, embed, [onerror], [onload], a[href^='javascript']").await? == 0);
    let deceptive = "return /[\\u202a-\\u202e\\u2066-\\u2069\\u200b-\\u200f\\ufeff]/.test(document.body.textContent + [...document.querySelectorAll('[title], [aria-label]')].map((of) => of.title + of.ariaLabel).join())";
    ensure!(browser.js(deceptive).await? == false, "text could reorder the page");
    let wide = "return document.documentElement.scrollWidth <= innerWidth";
    ensure!(browser.js(wide).await? == true, "the page is wider than the window");
    browser.assert_clean().await
}
