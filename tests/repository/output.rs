//! The output that the documentation shows is that of this version: log lines, and the names of
//! metrics.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::links::ours;
use super::{files, read, root};

/// A log line in a document: which module logs it, and the message.
#[derive(Debug, PartialEq, Eq)]
struct LogLine {
    target: String,
    /// In a line of text, the fields follow.
    message: String,
}

/// The log lines in the blocks of a document. Long ones are wrapped.
fn log_lines(document: &str) -> Result<Vec<LogLine>> {
    let blocks = document.split("```console\n").skip(1).filter_map(|block| block.split("```").next());
    let mut shown = Vec::new();
    for block in blocks {
        for line in block.replace("\n ", "").lines() {
            if line.starts_with("{\"timestamp\"") {
                let line: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
                let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
                shown.push(LogLine { target: text("target"), message: text("message") });
            } else if let Some((_, rest)) = line.split_once(" kube_gc::")
                && line.starts_with("20")
                && let Some((target, message)) = rest.split_once(": ")
            {
                shown.push(LogLine { target: format!("kube_gc::{target}"), message: message.to_owned() });
            }
        }
    }
    Ok(shown)
}

/// The text of the module that a target names.
fn module(target: &str) -> Result<String> {
    let path = target.strip_prefix("kube_gc::").context("not of kube-gc")?.replace("::", "/");
    let files = [format!("src/{path}.rs"), format!("src/{path}/mod.rs")];
    let file = files.iter().find(|file| root().join(file).is_file());
    read(file.with_context(|| format!("there is no module {target}"))?)
}

/// The string literals of a source, without line breaks that are escaped.
fn literals(source: &str) -> Vec<String> {
    let mut literals = Vec::new();
    let mut literal: Option<String> = None;
    let mut characters = source.chars().peekable();
    while let Some(character) = characters.next() {
        match (&mut literal, character) {
            (Some(text), '\\') => match characters.next() {
                Some('\n') => while characters.next_if(|next| next.is_whitespace()).is_some() {},
                Some('n') => text.push('\n'),
                Some(escaped) => text.push(escaped),
                None => {}
            },
            (Some(_), '"') => literals.extend(literal.take()),
            (Some(text), other) => text.push(other),
            (None, '"') => literal = Some(String::new()),
            // A character or a byte: '"'.
            (None, '\'') if characters.peek() == Some(&'"') => {
                characters.next();
            }
            (None, _) => {}
        }
    }
    literals
}

/// Whether a literal with placeholders can become a text that begins with this message.
fn becomes(literal: &str, message: &str) -> bool {
    let mut rest = message;
    let mut pieces = literal.split('{').map(|piece| piece.split_once('}').map_or(piece, |(_, text)| text));
    // The first piece has no placeholder in front of it.
    let Some(after) = pieces.next().and_then(|first| rest.strip_prefix(first)) else { return false };
    rest = after;
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    // What follows are the fields of a line of text.
    literal.len() > 3 && (rest.is_empty() || rest.starts_with(' '))
}

#[test]
fn every_log_line_in_a_document_is_one_of_the_module_that_it_names() -> Result<()> {
    let mut count = 0;
    for (name, text) in ours(&[".md"])? {
        for shown in log_lines(&text)? {
            count += 1;
            let source = module(&shown.target).with_context(|| format!("{name}: {shown:?}"))?;
            let is_logged = literals(&source).iter().any(|literal| becomes(literal, &shown.message));
            ensure!(is_logged, "{name}: {} does not log {:?}", shown.target, shown.message);
        }
    }
    ensure!(count > 8, "only {count} lines");
    Ok(())
}

/// The messages that an alert's section tells the reader to look for.
fn sought(document: &str) -> Vec<&str> {
    let ways = [("has a line `", '`'), ("grep '", '\''), ("log says \"", '"')];
    let found = ways.into_iter().flat_map(|(before, end)| {
        document.split(before).skip(1).filter_map(move |rest| rest.split(end).next())
    });
    found.map(|text| text.trim_start_matches("\"message\":").trim_matches('"')).collect()
}

#[test]
fn every_message_that_a_runbook_looks_for_is_logged() -> Result<()> {
    let mut logged = Vec::new();
    for path in files(&root().join("src"), ".rs")? {
        logged.extend(literals(&std::fs::read_to_string(path)?));
    }
    let runbook = read("deploy/README.md")?;
    let sought = sought(&runbook);
    ensure!(sought.len() >= 4, "{sought:?}");
    for message in sought {
        ensure!(logged.iter().any(|literal| literal.starts_with(message)), "nothing logs {message:?}");
    }
    Ok(())
}

/// The words of a text that have the form of a metric's name.
fn metrics(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("kube_gc_") && !word.ends_with('_'))
}

#[test]
fn every_metric_that_a_document_names_exists() -> Result<()> {
    let declared = read("docs/metrics.md")?;
    let declared: BTreeSet<&str> = metrics(&declared).collect();
    let crates: BTreeSet<PathBuf> = std::fs::read_dir(root().join("crates"))?
        .map(|entry| Ok(entry?.file_name().into()))
        .collect::<Result<_>>()?;
    let is_crate = |word: &str| crates.iter().any(|name| word == format!("kube_gc_{}", name.display()));
    let mut count = 0;
    for (document, text) in ours(&[".md"])? {
        for name in metrics(&text).filter(|word| !is_crate(word)) {
            count += 1;
            let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
            let is_declared = declared.contains(name) || of_histogram.is_some_and(|of| declared.contains(of));
            ensure!(is_declared, "{document}: there is no metric {name}");
        }
    }
    ensure!(count > 40, "only {count} metrics");
    Ok(())
}

#[test]
fn a_literal_with_placeholders_becomes_what_is_logged() {
    let source = "say(\"many \\\n   things for {} s\"); let quote = '\"'; say(\"a \\\"b\\\"\")";
    assert_eq!(literals(source), ["many things for {} s", "a \"b\""]);
    assert!(becomes("many things for {} s", "many things for 10 s"));
    assert!(becomes("decision", "decision object=x"));
    assert!(!becomes("decision", "decisions"));
    assert!(!becomes("many things for {} s", "few things"));
}
