//! The rules with shortened times, for a test that cannot wait for minutes.
//!
//! The replacement is mechanical, so that no part of a rule can be lost: in each `for` and each
//! window, minutes become seconds and hours become minutes, and a threshold that is written as
//! minutes times 60 becomes that many seconds. Nothing else changes.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use crate::rules::{plain, rules};

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

#[test]
fn shortening_changes_only_times() -> Result<()> {
    assert_eq!(
        line_shortened(r#"  expr: sum(increase(a_minutes_total{b="5m"}[30m])) > 5 * 60"#),
        r#"  expr: sum(increase(a_minutes_total{b="5m"}[30s])) > 5 * 1"#
    );
    assert_eq!(line_shortened("          for: 1h"), "          for: 1m");
    assert_eq!(line_shortened("  description: for: 5m"), "  description: for: 5m");
    // Otherwise a time would keep its length.
    let written = |text: &str| text.chars().all(|c| c.is_ascii_digit() || c == 'm' || c == 'h');
    for rule in rules()? {
        ensure!(rule.wait.as_deref().is_none_or(written), "{}: {:?}", rule.name(), rule.wait);
        let windows = rule.expr.split('[').skip(1).filter_map(|rest| rest.split(']').next());
        for window in windows {
            ensure!(written(window), "{}: {window}", rule.name());
        }
    }
    Ok(())
}
