//! Every link of the documentation leads to a file and a section, every page that a source, a manifest or
//! a script mentions exists, and so does every metric and every message that a document names.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::{files, ours, read, root};

/// The endings of files that may mention a page.
const SOURCES: [&str; 6] = [".rs", ".toml", ".yaml", ".sh", "Makefile", ".ci/run"];
/// The beginnings of mentions of a page, as paths from the root of the repository.
const PLACES: [&str; 4] = ["docs/", "deploy/", "tests/README.md", "grafana/README.md"];

/// The lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// A line without its code spans.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// The targets of a document's links and pictures.
pub(super) fn targets(text: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for line in prose(text).map(without_code) {
        let rests = line.split("](").skip(1);
        targets.extend(rests.filter_map(|rest| rest.split(')').next()).map(str::to_owned));
    }
    targets
}

/// The anchors of a document's headings, as GitHub and most other hosts generate them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter_map(|line| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then_some(title.strip_prefix(' ')?)
    });
    let slug = |title: &str| -> String {
        let kept = title.to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(slug).collect()
}

/// Fails if the file or its section does not exist. Paths are from the root.
fn leads_somewhere(from: &str, directory: &Path, target: &str) -> Result<()> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if path.is_empty() { root().join(from) } else { root().join(directory).join(path) };
    ensure!(file.exists(), "{from}: there is no {target}");
    if !anchor.is_empty() {
        let text = std::fs::read_to_string(&file).with_context(|| format!("{from}: {target}"))?;
        ensure!(anchors(&text).contains(anchor), "{from}: there is no section {target}");
    }
    Ok(())
}

#[test]
fn every_link_in_a_document_leads_to_a_file_and_a_section() -> Result<()> {
    let documents = ours(&[".md"])?;
    ensure!(documents.iter().any(|(name, _)| name == "README.md"), "no README among {}", documents.len());
    let mut wrong = Vec::new();
    for (name, text) in &documents {
        let directory = Path::new(name).parent().context("no parent")?;
        let inside = targets(text).into_iter().filter(|target| !target.contains("://"));
        wrong.extend(inside.filter_map(|target| leads_somewhere(name, directory, &target).err()));
    }
    let wrong: Vec<_> = wrong.iter().map(ToString::to_string).collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// The pages that a text mentions by their paths from the root.
fn mentioned(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '#');
    let words = text.split(|c| !is_part(c)).map(|word| word.trim_end_matches('.'));
    let pages =
        words.filter(|word| PLACES.iter().any(|place| word.starts_with(place)) && word.contains(".md"));
    pages.map(str::to_owned).collect()
}

#[test]
fn every_page_that_a_source_mentions_exists() -> Result<()> {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (name, text) in ours(&SOURCES)? {
        for page in mentioned(&text) {
            count += 1;
            wrong.extend(leads_somewhere(&name, Path::new(""), &page).err().map(|error| error.to_string()));
        }
    }
    ensure!(count > 10, "only {count} pages are mentioned");
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
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
    let mut sources = String::new();
    for path in files(&root().join("src"), ".rs")?.into_iter().chain(files(&root().join("crates"), ".rs")?) {
        // A long literal is wrapped.
        let text = std::fs::read_to_string(path)?;
        sources.extend(text.split("\\\n").map(str::trim_start));
    }
    let pages = read("deploy/README.md")? + &read("deploy/alerts.md")?;
    let sought = sought(&pages);
    ensure!(sought.len() >= 4, "{sought:?}");
    for message in sought {
        ensure!(sources.contains(&format!("\"{message}")), "nothing logs {message:?}");
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
    let crates: BTreeSet<std::path::PathBuf> = std::fs::read_dir(root().join("crates"))?
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
