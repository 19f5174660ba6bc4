//! Writes the results: with colours and pauses on a terminal, as plain text elsewhere, or as
//! JSON.

mod json;
mod text;

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::report::{Endpoints, Load, Phase, Scenario, Step, TreeLine};
#[cfg(feature = "node")]
pub use text::{Styled, TITLE, scenario as heading, text as compose, wrapped};

/// The format of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Standard output. Pure functions of the report make the text.
pub struct Output {
    format: Format,
    /// Whether a person reads along.
    interactive: bool,
    bar: Option<ProgressBar>,
}

impl Output {
    pub fn new(format: Format) -> Self {
        let interactive = format == Format::Text && std::io::stdout().is_terminal();
        Self { format, interactive, bar: None }
    }

    /// Writes a text, or a line of JSON if there is one.
    pub fn write(&self, text: impl FnOnce() -> String, json: impl FnOnce() -> Option<serde_json::Value>) {
        let text = match self.format {
            Format::Text => text(),
            Format::Json => match json() {
                Some(line) => format!("{line}\n"),
                None => return,
            },
        };
        let write = || {
            // Removes colours unless this is a terminal and NO_COLOR is not set.
            let mut out = anstream::stdout();
            // A reader that has closed the pipe does not want the rest.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        };
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Gives a person time to read.
    pub async fn pause(&self, time: Duration) {
        if self.interactive {
            tokio::time::sleep(time).await;
        }
    }

    pub fn begin(&self, endpoints: &Endpoints) {
        self.write(|| text::begin(endpoints), || Some(json::begin(endpoints)));
    }

    pub fn tree(&self, lines: &[TreeLine]) {
        self.write(|| text::tree(lines), || Some(json::tree(lines)));
    }

    pub fn scenario_begins(&self, number: usize, of: usize, title: &str, about: &str) {
        self.write(|| text::scenario(number, of, title, about), || None);
    }

    pub fn operation(&self, operation: &str, command: Option<&str>) {
        self.write(|| text::operation(operation, command), || None);
    }

    pub fn step(&self, step: &Step) {
        self.write(|| text::step(step), || None);
    }

    pub fn verified(&self, phase: &Phase) {
        self.write(|| text::verified(phase), || None);
    }

    pub fn scenario_ends(&self, scenario: &Scenario) {
        self.write(String::new, || Some(json::scenario(scenario)));
    }

    pub fn load(&self, load: &Load) {
        self.write(|| text::load(load), || Some(json::load(load)));
    }

    /// Says how to continue, after the scenarios or after a load.
    pub fn keeps_running(&self, endpoints: &Endpoints, loaded: bool) {
        self.write(|| text::keeps_running(endpoints, loaded), || Some(json::keeps_running(endpoints)));
    }

    pub fn end(&self) {
        self.write(String::new, || Some(json::end()));
    }

    /// Reports an error in JSON. In text, the error is on standard error.
    pub fn failure(&self, message: &str) {
        self.write(String::new, || Some(json::failure(message)));
    }

    /// Shows what the demo is waiting for, on a terminal.
    pub fn waiting_for(&mut self, what: &str) {
        if self.interactive {
            self.bar.get_or_insert_with(ProgressBar::new_spinner).set_message(what.to_owned());
        }
    }

    /// Shows a progress bar, on a terminal.
    pub fn progress(&mut self, what: &'static str, done: u64, of: u64) {
        if !self.interactive {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{msg:>12} {wide_bar} {pos}/{len} {per_sec}");
            ProgressBar::new(of).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_message(what);
        bar.set_position(done);
    }

    /// Removes the progress bar.
    pub fn clear_progress(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
