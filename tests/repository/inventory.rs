//! What users rely on by name: commands, flags, settings, pages, metrics, exit codes, fields of the
//! log, numbers of rules, types of the library. `inventory.txt` has all of it. Other tests hold the documents that are
//! read here against the code.
//!
//! Whoever removes a name from the list takes something away from users, and says so in CHANGELOG.md.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};

use super::{files, read, root};

const LIST: &str = "tests/repository/inventory.txt";

/// Each name with what it is: `metric workqueue_depth`.
fn inventory() -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    flags(&mut all)?;
    settings("", &read("config/default.toml")?.parse()?, &mut all);
    for (page, table) in [("docs/debugging.md", "page"), ("docs/metrics.md", "metric")] {
        all.extend(first_columns(&read(page)?).filter_map(|name| named(table, &name)));
    }
    metric_labels(&mut all)?;
    let operations = read("docs/operations.md")?;
    let (_, codes) = operations.split_once("## Exit codes").context("no exit codes")?;
    let (codes, _) = codes.split_once("\n## ").context("no end of the exit codes")?;
    let numbers = first_columns(codes).filter(|code| code.parse::<u8>().is_ok());
    all.extend(numbers.map(|code| format!("exit {code}")));
    log_fields(&mut all)?;
    let rules = read("docs/semantics.md")?;
    let rules = rules.lines().filter_map(|line| line.strip_prefix("**")?.split_once("** "));
    all.extend(rules.map(|(number, _)| format!("rule {number}")));
    let library = read("src/lib.rs")?;
    for exports in library.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let names = exports.rsplit("::").next().unwrap_or_default().split(['{', ',', '}']).map(str::trim);
        all.extend(names.filter(|name| !name.is_empty()).map(|name| format!("type {name}")));
    }
    Ok(all)
}

/// The manual pages have every command and every flag.
fn flags(all: &mut BTreeSet<String>) -> Result<()> {
    for page in files(&root().join("docs/man"), ".1")? {
        let command = page.file_stem().context("no name")?.to_string_lossy().replace('-', " ");
        let command = command.replace("kube gc", "kube-gc");
        all.insert(format!("command {command}"));
        let text = std::fs::read_to_string(&page)?.replace("\\-", "-");
        let options = text.lines().zip(text.lines().skip(1)).filter(|(before, _)| *before == ".TP");
        for (_, line) in options {
            let bold = line.split("\\fB").skip(1).filter_map(|part| part.split_once("\\fR"));
            let names = bold.map(|(name, _)| name).filter(|name| name.starts_with('-'));
            all.extend(names.map(|name| format!("flag {command} {name}")));
        }
    }
    Ok(())
}

/// The default configuration has every setting, some of them in comments that say why.
fn settings(above: &str, table: &toml::Table, all: &mut BTreeSet<String>) {
    for (key, value) in table {
        let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match value {
            toml::Value::Table(table) => settings(&path, table, all),
            _ => {
                all.insert(format!("setting {path}"));
            }
        }
    }
}

/// The first cells of the rows of tables, without the marks of code.
fn first_columns(text: &str) -> impl Iterator<Item = String> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| Some(row.split_once(" |")?.0.replace('`', "")))
}

fn named(kind: &str, name: &str) -> Option<String> {
    let is_name = match kind {
        "page" => name.starts_with("/debug/"),
        _ => name.contains('_') && !name.contains(' '),
    };
    is_name.then(|| format!("{kind} {name}"))
}

/// The labels, and the values of those that have a fixed set.
fn metric_labels(all: &mut BTreeSet<String>) -> Result<()> {
    for row in read("docs/metrics.md")?.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, name, _, _, labels, ..] = cells[..] else { continue };
        let name = name.replace('`', "");
        for label in labels.split(';').map(str::trim).filter(|label| !label.is_empty()) {
            let (label, values) = label.split_once(": ").unwrap_or((label, ""));
            let label = label.replace('`', "");
            all.insert(format!("label {name} {label}"));
            let values = values.split(", ").map(|value| value.replace('`', ""));
            all.extend(
                values.filter(|value| !value.is_empty()).map(|value| format!("label {name} {label}={value}")),
            );
        }
    }
    Ok(())
}

/// The fields of the log that the documentation shows in JSON.
fn log_fields(all: &mut BTreeSet<String>) -> Result<()> {
    let page = read("docs/debugging.md")?;
    let lines = page.lines().filter(|line| line.starts_with("{\"timestamp\""));
    for line in lines {
        let line: serde_json::Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        fields("", &line, all);
    }
    Ok(())
}

fn fields(above: &str, value: &serde_json::Value, all: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(object) => {
            for (key, value) in object {
                let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
                all.insert(format!("field {path}"));
                fields(&path, value, all);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| fields(above, item, all)),
        _ => {}
    }
}

/// To add names: `KUBE_GC_WRITE=inventory cargo test --test repository -- inventory`.
#[test]
fn nothing_that_users_rely_on_is_lost() -> Result<()> {
    let present = inventory()?;
    if std::env::var("KUBE_GC_WRITE").is_ok_and(|what| what == "inventory") {
        let text: String = present.iter().flat_map(|name| [name, "\n"]).collect();
        std::fs::write(root().join(LIST), text)?;
    }
    let list = read(LIST)?;
    let listed: BTreeSet<_> = list.lines().map(str::to_owned).collect();
    let lost: Vec<_> = listed.difference(&present).collect();
    ensure!(lost.is_empty(), "lost: {lost:#?}");
    let new: Vec<_> = present.difference(&listed).collect();
    ensure!(new.is_empty(), "not in {LIST}: {new:#?}");
    Ok(())
}
