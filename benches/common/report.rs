//! The table.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::{kube_gc, progress};

/// One figure, and what it should be at most.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub what: String,
    pub measured: f64,
    pub unit: &'static str,
    /// `None` for a figure without a goal.
    pub target: Option<f64>,
}

impl Row {
    pub fn new(what: impl Into<String>, measured: f64, unit: &'static str, target: Option<f64>) -> Self {
        Self { what: what.into(), measured, unit, target }
    }

    /// A measured time.
    pub fn milliseconds(what: impl Into<String>, took: Duration, target: Option<f64>) -> Self {
        Self::new(what, took.as_secs_f64() * 1000.0, "ms", target)
    }
}

/// All figures.
#[derive(Debug, Serialize)]
pub struct Report {
    circumstances: String,
    rows: Vec<Row>,
}

impl Report {
    /// An empty table, with the circumstances.
    pub fn begin(program: &Path) -> Result<Self> {
        let load = std::fs::read_to_string("/proc/loadavg")?;
        let load = load.split(' ').next().context("not what /proc/loadavg says")?;
        let date = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
        let processors = std::thread::available_parallelism()?;
        let version = kube_gc::version(program)?;
        let circumstances =
            format!("kube-gc {version}, {date}, {processors} processors, load {load} at the beginning");
        Ok(Self { circumstances, rows: Vec::new() })
    }

    pub fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        for row in rows {
            progress(&format!("{row:?}"));
            self.rows.push(row);
        }
    }

    /// The table in Markdown.
    pub fn markdown(&self) -> String {
        let mut text =
            format!("{}\n\n| | target | measured | met |\n|---|---|---|---|\n", self.circumstances);
        for Row { what, measured, unit, target } in &self.rows {
            let (wanted, met) = match target {
                Some(target) => (format!("≤ {target} {unit}"), if measured <= target { "yes" } else { "no" }),
                None => ("–".to_owned(), "–"),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {what} | {wanted} | {measured:.2} {unit} | {met} |");
        }
        text
    }
}
