//! A browser, driven as a person drives it.

use anyhow::{Context as _, Result, ensure};
use fantoccini::Locator;
use fantoccini::actions::{InputSource as _, KeyAction, KeyActions};
use fantoccini::wd::Capabilities;
use rustix::process::geteuid;
use serde_json::{Value, json};

use crate::webdriver::Session;
use kube_gc_testkit::cluster::poll;

/// How the page is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The width of the window in CSS pixels.
    pub width: u32,
    /// Its height.
    pub height: u32,
    /// Whether the person prefers less motion.
    pub is_still: bool,
}

/// The screen of a laptop.
pub const LAPTOP: Look = Look { width: 1440, height: 900, is_still: false };

/// A running browser.
#[derive(Debug)]
pub struct Browser(Session);

impl Browser {
    /// Starts a browser.
    pub async fn start(look: Look) -> Result<Self> {
        let mut arguments = vec![
            "--headless=new",
            "--disable-gpu",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            "--lang=en",
        ];
        if geteuid().is_root() {
            // Its sandbox does not work for root.
            arguments.push("--no-sandbox");
        }
        if look.is_still {
            arguments.push("--force-prefers-reduced-motion");
        }
        let metrics = json!({ "width": look.width, "height": look.height, "pixelRatio": 1.0, "mobile": false, "touch": false });
        let options = json!({ "args": arguments, "mobileEmulation": { "deviceMetrics": metrics } });
        let capabilities = Capabilities::from_iter([
            ("browserName".to_owned(), "chrome".into()),
            ("timeouts".to_owned(), json!({ "script": 120_000 })),
            ("goog:chromeOptions".to_owned(), options),
        ]);
        Ok(Self(Session::start(capabilities).await?))
    }

    /// Opens an address.
    pub async fn goto(&self, url: &str) -> Result<()> {
        Ok(self.0.client.goto(url).await?)
    }

    /// The query string of the address.
    pub async fn query(&self) -> Result<String> {
        let query = self.js("return location.search.slice(1)").await?;
        Ok(query.as_str().unwrap_or_default().to_owned())
    }

    /// Back, as the button of the browser.
    pub async fn back(&self) -> Result<()> {
        Ok(self.0.client.back().await?)
    }

    /// Loads the page anew.
    pub async fn reload(&self) -> Result<()> {
        Ok(self.0.client.refresh().await?)
    }

    /// Presses and releases keys, one after the other, wherever the focus is.
    pub async fn press(&self, keys: &str) -> Result<()> {
        let down_and_up = |key| [KeyAction::Down { value: key }, KeyAction::Up { value: key }];
        let keyboard = KeyActions::new("keyboard".to_owned());
        let actions = keys.chars().flat_map(down_and_up).fold(keyboard, KeyActions::then);
        Ok(self.0.client.perform_actions(actions).await?)
    }

    /// Clicks the middle of the first element of a selector.
    pub async fn click(&self, selector: &str) -> Result<()> {
        let element = self.0.client.find(Locator::Css(selector)).await?;
        element.click().await.with_context(|| selector.to_owned())
    }

    /// The result of a script.
    pub async fn js(&self, script: &str) -> Result<Value> {
        let answer = self.0.client.execute(script, Vec::new()).await;
        answer.with_context(|| script.chars().take(200).collect::<String>())
    }

    /// The result of a script that calls its last argument when it is done.
    pub async fn js_later(&self, script: &str) -> Result<Value> {
        Ok(self.0.client.execute_async(script, Vec::new()).await?)
    }

    /// The text of the first element of a selector.
    pub async fn text(&self, selector: &str) -> Result<String> {
        let text =
            self.js(&format!("return document.querySelector({selector:?})?.textContent ?? null")).await?;
        text.as_str().map(str::to_owned).with_context(|| format!("there is no {selector}"))
    }

    /// The number of elements of a selector.
    pub async fn count(&self, selector: &str) -> Result<u64> {
        let count = self.js(&format!("return document.querySelectorAll({selector:?}).length")).await?;
        count.as_u64().context("no number")
    }

    /// Waits until an expression is true.
    pub async fn until(&self, what: &str, expression: &str) -> Result<()> {
        let script = format!("return Boolean({expression})");
        let waited = poll(what, async || Ok(self.js(&script).await? == true)).await;
        if waited.is_err() {
            let body = self.js("return document.body.innerText.slice(0, 3000)").await?;
            eprintln!("--- the page\n{}\n---", body.as_str().unwrap_or_default());
        }
        waited
    }

    /// Waits until this many elements match a selector.
    pub async fn counts(&self, selector: &str, count: usize) -> Result<()> {
        let expression = format!("document.querySelectorAll({selector:?}).length === {count}");
        self.until(&format!("{count} of {selector}"), &expression).await
    }

    /// Waits until an element matches a selector.
    pub async fn has(&self, selector: &str) -> Result<()> {
        self.until(selector, &format!("document.querySelector({selector:?})")).await
    }

    /// Waits until the text of the first element of a selector contains this.
    pub async fn says(&self, selector: &str, text: &str) -> Result<()> {
        let expression = format!("document.querySelector({selector:?})?.textContent.includes({text:?})");
        self.until(&format!("{selector} to say {text:?}"), &expression).await
    }

    /// Waits until the text of the first element of a selector is this.
    pub async fn reads(&self, selector: &str, text: &str) -> Result<()> {
        let expression = format!("document.querySelector({selector:?})?.textContent === {text:?}");
        self.until(&format!("{selector} to be {text:?}"), &expression).await
    }

    /// Fails if the page broke its own rules: it asked another server, ran into its policy, or had
    /// an error. Errors of its own requests are none.
    pub async fn assert_clean(&self) -> Result<()> {
        let reports = "const done = arguments[arguments.length - 1]; \
            const seen = new ReportingObserver(() => {}, { types: ['csp-violation'], buffered: true }); seen.observe(); \
            setTimeout(() => done(seen.takeRecords().map((report) => JSON.stringify(report.body))), 50)";
        let violations = self.js_later(reports).await?;
        ensure!(violations == json!([]), "violations of the policy: {violations}");
        let foreign = "return performance.getEntriesByType('resource').map((entry) => entry.name).filter((name) => new URL(name).origin !== location.origin)";
        let foreign = self.js(foreign).await?;
        ensure!(foreign == json!([]), "requests to others: {foreign}");
        Ok(())
    }

    /// Ends it, and fails if the page has broken its rules.
    pub async fn close(self) -> Result<()> {
        self.assert_clean().await?;
        self.0.end().await
    }
}
