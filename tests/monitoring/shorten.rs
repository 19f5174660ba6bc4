//! The rules with shortened times, for a test that cannot wait for minutes.
//!
//! The replacement is mechanical, so that no part of a rule can be lost: in each `for` and each
//! window, minutes become seconds and hours become minutes, and a threshold that is written as
//! minutes times 60 becomes that many seconds. Nothing else changes.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::rules::plain;

/// The rules, by their files, with all times divided by 60.
pub fn shortened() -> Result<BTreeMap<String, String>> {
    let shortened = |text: &str| text.lines().map(|line| line_shortened(line) + "\n").collect();
    Ok(plain()?.into_iter().map(|(name, text)| (name, shortened(&text))).collect())
}

fn line_shortened(line: &str) -> String {
    let Some((key, value)) = line.split_once(": ") else { return line.to_owned() };
    match key.trim().trim_start_matches("- ") {
        "for" => format!("{key}: {}", duration(value)),
        "expr" => format!("{key}: {}", windows(value).replace(" * 60", " * 1")),
        _ => line.to_owned(),
    }
}

/// Replaces the windows behind the selectors of a query.
fn windows(query: &str) -> String {
    let mut parts = query.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |done, part| match part.split_once(']') {
        Some((window, rest)) => format!("{done}[{}]{rest}", duration(window)),
        None => format!("{done}[{part}"),
    })
}

fn duration(text: &str) -> String {
    text.replace('m', "s").replace('h', "m")
}
