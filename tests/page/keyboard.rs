//! A walk without a mouse.

use anyhow::{Result, ensure};

use crate::browser::{Browser, LAPTOP};
use crate::search::ENTER;
use crate::stage::{Stage, query_of};

const END: &str = "\u{e010}";
const HOME: &str = "\u{e011}";
const TAB: &str = "\u{e004}";
const ESCAPE: &str = "\u{e00c}";
const LEFT: &str = "\u{e012}";
const UP: &str = "\u{e013}";
const RIGHT: &str = "\u{e014}";
const DOWN: &str = "\u{e015}";

/// The text of the item that has the focus, without its icon.
async fn focused(browser: &Browser) -> Result<String> {
    let script = "const item = document.activeElement; \
        return [...item.children].filter((part) => part.tagName !== 'svg').map((part) => part.textContent).join(' ').trim() || item.id";
    Ok(browser.js(script).await?.as_str().unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_can_be_reached_with_the_keyboard_alone() -> Result<()> {
    let browser = Browser::start(LAPTOP).await?;
    let stage = Stage::start().await?;
    let shop = stage.shop(3).await?;
    browser.goto(&stage.url()).await?;
    browser.has("#health b").await?;
    browser.press("/shop").await?;
    browser
        .until("the answer", "document.querySelector('#found-0')?.getAttribute('aria-selected') === 'true'")
        .await?;
    browser.press(ENTER).await?;
    browser.counts("#drawing .card", 5).await?;

    browser.press("l").await?;
    browser.until("the tree", "document.activeElement.role === 'treeitem'").await?;
    let item = focused(&browser).await?;
    ensure!(item.starts_with("ConfigMap shop live"), "{item:?} has the focus");
    let outline = "return getComputedStyle(document.activeElement).outlineStyle";
    ensure!(browser.js(outline).await? == "solid", "the focus cannot be seen");
    browser.press(LEFT).await?;
    browser.counts("#list [role=treeitem]", 1).await?;
    browser.press(RIGHT).await?;
    browser.counts("#list [role=treeitem]", 5).await?;
    browser.press(RIGHT).await?;
    let first = focused(&browser).await?;
    for (key, is_first) in [(DOWN, false), (UP, true), (END, false), (HOME, false)] {
        browser.press(key).await?;
        ensure!((focused(&browser).await? == first) == is_first, "{key:?}");
    }
    ensure!(focused(&browser).await?.starts_with("ConfigMap shop"), "Home goes to the first one");
    browser.press(RIGHT).await?;
    let first = focused(&browser).await?;
    browser.press(ENTER).await?;
    let name = first.split(' ').nth(1).unwrap_or_default();
    browser
        .until(
            "to move on",
            &format!("document.querySelector('#object-title').textContent.includes({name:?})"),
        )
        .await?;
    ensure!(browser.query().await? != query_of(&shop.root));

    browser.press("l").await?;
    browser.until("the drawing", "document.activeElement.id === 'drawing'").await?;
    let place = "return document.querySelector('#drawing .viewport').style.transform";
    let before = browser.js(place).await?;
    browser.press(RIGHT).await?;
    browser.press("+").await?;
    ensure!(browser.js(place).await? != before, "arrows and + move the drawing");
    browser.press("0").await?;
    browser.press("?").await?;
    browser.until("the help", "document.querySelector('#keys').open").await?;
    browser.press(ESCAPE).await?;
    browser.until("the help to close", "!document.querySelector('#keys').open").await?;

    // Each thing that can be clicked is a stop of Tab, in the order of the page, and shows it.
    browser.press("h").await?;
    browser.until("the overview", "document.querySelector('#object').hidden").await?;
    // The first stop of Tab leads past the head.
    browser.reload().await?;
    browser.has("#health b").await?;
    browser.press(TAB).await?;
    ensure!(browser.js("return document.activeElement.className").await? == "skip");
    browser.press(ENTER).await?;
    browser.until("the content", "document.activeElement.id === 'main'").await?;
    browser.press(TAB).await?;
    let is_inside =
        browser.js("return document.querySelector('#main').contains(document.activeElement)").await?;
    ensure!(is_inside == true, "the next stop is {}", focused(&browser).await?);
    browser.reload().await?;
    browser.has("#health b").await?;
    let mut stops = Vec::new();
    for _ in 0..10 {
        browser.press(TAB).await?;
        let outline = browser.js("const at = document.activeElement; return at === document.body ? 'solid' : getComputedStyle(at).outlineStyle").await?;
        ensure!(outline == "solid", "no visible focus on {}", focused(&browser).await?);
        stops.push(browser.js("return document.activeElement.id").await?);
    }
    for tip in ["To delete", "Large objects", "To orphan"] {
        let title = format!(
            "return [...document.querySelectorAll('#pulse .measure')].find((of) => of.textContent.includes('{tip}')).title"
        );
        ensure!(
            browser.js(&title).await?.as_str().is_some_and(|title| title.len() > 20),
            "{tip} is not explained"
        );
    }
    for stop in ["home", "search", "theme", "help"] {
        ensure!(stops.iter().any(|id| id == stop), "Tab does not reach {stop}: {stops:?}");
    }
    browser.close().await?;
    stage.end().await
}
