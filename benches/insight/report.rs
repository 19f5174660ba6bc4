//! The table.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::{kube_gc, progress};

/// One figure, and what it should be at most.
#[derive(Clone, Debug)]
pub struct Row {
    pub what: String,
    pub measured: f64,
    pub unit: &'static str,
    /// `None` for a figure that others are compared with.
    pub target: Option<f64>,
}

/// All figures.
#[derive(Debug)]
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
        let bytes = std::fs::metadata(program)?.len();
        let circumstances = format!(
            "kube-gc {version} ({:.1} MiB), {date}, {processors} processors, load {load} at the beginning",
            bytes as f64 / f64::from(1 << 20)
        );
        Ok(Self { circumstances, rows: Vec::new() })
    }

    pub fn add(&mut self, row: Row) {
        progress(&format!("{row:?}"));
        self.rows.push(row);
    }

    pub fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        rows.into_iter().for_each(|row| self.add(row));
    }

    /// The table in Markdown.
    pub fn markdown(&self) -> String {
        let mut text =
            format!("{}\n\n| | target | measured | met |\n|---|---|---|---|\n", self.circumstances);
        for Row { what, measured, unit, target } in &self.rows {
            let (wanted, met) = match target {
                Some(target) if measured <= target => (format!("≤ {} {unit}", goal(*target)), "yes"),
                Some(target) => (format!("≤ {} {unit}", goal(*target)), "no"),
                None => ("–".to_owned(), "–"),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {what} | {wanted} | {measured:.2} {unit} | {met} |");
        }
        text
    }
}

/// A target as people write it: with two decimals, unless it is a whole number.
fn goal(target: f64) -> String {
    if target.fract() == 0.0 { format!("{target}") } else { format!("{target:.2}") }
}
