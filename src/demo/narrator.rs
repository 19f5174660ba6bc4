//! Tells the story: on a terminal with colours and pauses, elsewhere plainly, or
//! for machines.

mod json;
mod text;

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::story::{Act, Drawn, Load, Places, Scene, Step};
use crate::cli::OutputFormat;

/// Whoever tells it. What it says is made by pure functions of the story.
pub struct Narrator {
    format: OutputFormat,
    /// A person is reading along.
    paced: bool,
    bar: Option<ProgressBar>,
}

impl Narrator {
    pub fn new(format: OutputFormat) -> Self {
        let paced = format == OutputFormat::Text && std::io::stdout().is_terminal();
        Self { format, paced, bar: None }
    }

    /// Says it, in the one form or in the other.
    fn say(&self, text: impl FnOnce() -> String, json: impl FnOnce() -> Option<serde_json::Value>) {
        let said = match self.format {
            OutputFormat::Text => text(),
            OutputFormat::Json => match json() {
                Some(line) => format!("{line}\n"),
                None => return,
            },
        };
        let write = || {
            // Colours stay only on a terminal, and not with NO_COLOR.
            let mut out = anstream::stdout();
            // Whoever listened has gone; there is nobody left to tell.
            let _ = out.write_all(said.as_bytes()).and_then(|()| out.flush());
        };
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// A pause for reading.
    pub async fn pause(&self, time: Duration) {
        if self.paced {
            tokio::time::sleep(time).await;
        }
    }

    pub fn begins(&self, places: &Places) {
        self.say(text::begins, || Some(json::begins(places)));
    }

    pub fn shop(&self, drawn: &[Drawn]) {
        self.say(|| text::shop(drawn), || Some(json::shop(drawn)));
    }

    pub fn act(&self, number: usize, of: usize, title: &str, about: &str) {
        self.say(|| text::act(number, of, title, about), || None);
    }

    pub fn deed(&self, deed: &str, command: Option<&str>) {
        self.say(|| text::deed(deed, command), || None);
    }

    pub fn step(&self, step: &Step) {
        self.say(|| text::step(step), || None);
    }

    pub fn verified(&self, scene: &Scene) {
        self.say(|| text::verified(scene), || None);
    }

    pub fn played(&self, act: &Act) {
        self.say(String::new, || Some(json::act(act)));
    }

    pub fn load(&self, load: &Load) {
        self.say(|| text::load(load), || Some(json::load(load)));
    }

    /// How to play on, after the story or after a load.
    pub fn stays(&self, places: &Places, loaded: bool) {
        self.say(|| text::stays(places, loaded), || Some(json::stays(places)));
    }

    pub fn ends(&self) {
        self.say(String::new, || Some(json::ends()));
    }

    /// It went wrong. People read why on standard error.
    pub fn fails(&self, message: &str) {
        self.say(String::new, || Some(json::fails(message)));
    }

    /// What is being waited for, on a terminal.
    pub fn waits(&mut self, what: Option<&str>) {
        match what {
            Some(what) if self.paced => {
                self.bar.get_or_insert_with(ProgressBar::new_spinner).set_message(what.to_owned());
            }
            _ => self.done(),
        }
    }

    /// Shows how far something with so many parts has come, on a terminal.
    pub fn progress(&mut self, what: &'static str, done: u64, of: u64) {
        if !self.paced {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{msg:>12} {wide_bar} {pos}/{len} {per_sec}");
            ProgressBar::new(of).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_message(what);
        bar.set_position(done);
    }

    /// Nothing is being waited for any more.
    pub fn done(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
