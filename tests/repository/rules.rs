//! The rules of `docs/semantics.md`, the tests that they name, and the comments that cite them
//! are consistent.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail, ensure};

use super::{ours, read, root};

const DOCUMENT: &str = "docs/semantics.md";

/// The number of a rule: its section, and its position in the section.
type Number = (u32, u32);

fn number(text: &str) -> Option<Number> {
    let (section, place) = text.split_once('.')?;
    Some((section.parse().ok()?, place.parse().ok()?))
}

/// The rules, each with the names of its tests.
fn rules() -> Result<BTreeMap<Number, Vec<String>>> {
    let mut rules = BTreeMap::new();
    let mut last = None;
    for line in read(DOCUMENT)?.lines() {
        if let Some((text, _)) = line.strip_prefix("**").and_then(|line| line.split_once("** ")) {
            let number = number(text).with_context(|| format!("{text} is no number"))?;
            ensure!(last < Some(number), "rule {text} is out of order");
            last = Some(number);
            rules.insert(number, Vec::new());
        } else if let Some(names) = line.strip_prefix("*Shown by* ") {
            let number = last.context("tests come before the first rule")?;
            let names = names.split('`').skip(1).step_by(2).map(str::to_owned);
            rules.entry(number).or_default().extend(names);
        }
    }
    ensure!(!rules.is_empty(), "there is no rule in {DOCUMENT}");
    Ok(rules)
}

/// The prose of a file: all of a document, the comments of anything else. Comments in consecutive
/// lines are one text, because a citation may be wrapped.
fn prose(path: &str, text: String) -> Vec<String> {
    let marker = match path.rsplit('.').next() {
        Some("rs") => "//",
        Some("toml") => "#",
        _ => return vec![text],
    };
    let mut blocks = vec![String::new()];
    for line in text.lines() {
        match (line.split_once(marker), blocks.last_mut()) {
            (Some((_, comment)), Some(block)) => {
                block.push_str(comment.trim_start_matches(['/', '!']));
                block.push(' ');
            }
            _ => blocks.push(String::new()),
        }
    }
    blocks
}

fn bare(word: &str) -> String {
    word.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_ascii_lowercase()
}

/// The rules that a text cites: `rule 4.7`, `rules 4.7, 4.8 and 5.1`.
fn cited(text: &str) -> Vec<Number> {
    let words: Vec<_> = text.split_whitespace().map(bare).collect();
    let mut numbers = Vec::new();
    for (at, _) in words.iter().enumerate().filter(|(_, word)| matches!(word.as_str(), "rule" | "rules")) {
        let list = words.iter().skip(at + 1).filter(|word| !matches!(word.as_str(), "and" | "or" | "to"));
        numbers.extend(list.map_while(|word| number(word)));
    }
    numbers
}

/// All tests by name, each with its own comment and that of its module.
fn tests() -> Result<BTreeMap<String, Vec<String>>> {
    let mut tests: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (_, text) in ours(&[".rs"])? {
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        let module = comment(lines.iter().filter(|line| line.starts_with("//!")));
        let scenarios = scenarios(&lines);
        for (at, line) in lines.iter().enumerate() {
            let Some(name) = function(line) else { continue };
            let above = lines.iter().take(at).rev();
            let above: Vec<_> =
                above.take_while(|line| line.starts_with("#[") || line.starts_with("//")).collect();
            let is_attribute = |line: &&str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            if scenarios.contains(name) || above.iter().copied().any(is_attribute) {
                let own = comment(above.into_iter().rev().filter(|line| line.starts_with("//")));
                tests.entry(name.to_owned()).or_default().push(format!("{own} {module}"));
            }
        }
    }
    Ok(tests)
}

/// The scenarios that a file registers.
fn scenarios<'a>(lines: &[&'a str]) -> BTreeSet<&'a str> {
    let block = lines.iter().skip_while(|line| **line != "kube_gc_testkit::scenarios! {").skip(1);
    let names = block.take_while(|line| **line != "}");
    names.filter_map(|line| line.split(['(', ',']).next()).collect()
}

/// The name of the function that begins in a line.
fn function(line: &str) -> Option<&str> {
    let line = line.strip_prefix("async ").unwrap_or(line);
    let name = line.strip_prefix("fn ")?;
    name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
}

fn comment<'a>(lines: impl Iterator<Item = &'a &'a str>) -> String {
    lines.map(|line| line.trim_start_matches(['/', '!'])).collect::<Vec<_>>().join(" ")
}

fn none(problems: &[String]) -> Result<()> {
    if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("\n")) }
}

#[test]
fn every_citation_of_a_rule_resolves() -> Result<()> {
    let rules = rules()?;
    let mut problems = Vec::new();
    for (path, text) in ours(&[".rs", ".md", ".toml"])? {
        let numbers = prose(&path, text).iter().flat_map(|text| cited(text)).collect::<BTreeSet<_>>();
        let unknown = numbers.into_iter().filter(|number| !rules.contains_key(number));
        problems.extend(unknown.map(|number| format!("{path}: there is no rule {number:?}")));
    }
    none(&problems)
}

#[test]
fn every_rule_names_tests_that_exist() -> Result<()> {
    let (rules, tests) = (rules()?, tests()?);
    let mut problems = Vec::new();
    for (number, names) in &rules {
        if names.is_empty() {
            problems.push(format!("rule {number:?} names no test"));
        }
        for name in names {
            match tests.get(name).map_or(0, Vec::len) {
                0 => problems.push(format!("rule {number:?}: there is no test {name}")),
                1 => {}
                _ => problems.push(format!("rule {number:?}: there are several tests {name}")),
            }
        }
    }
    none(&problems)
}

#[test]
fn every_rule_is_cited_by_a_test_that_it_names() -> Result<()> {
    let (rules, tests) = (rules()?, tests()?);
    let cites = |name: &String, number| {
        tests.get(name).into_iter().flatten().any(|comment| cited(comment).contains(number))
    };
    let uncited = rules.iter().filter(|(number, names)| !names.iter().any(|name| cites(name, number)));
    none(&uncited.map(|(number, _)| format!("none of its tests cites rule {number:?}")).collect::<Vec<_>>())
}

/// Whoever writes owner references chooses keys of the graph's and the queues' tables. Fails if a
/// table may use a hash function whose result can be computed outside of the process: of hashbrown, only
/// `HashTable` has no hasher of its own, and the module that wraps the maps gives them a seed.
#[test]
fn tables_have_no_hasher_with_a_public_seed() -> Result<()> {
    for directory in ["src", "crates"] {
        for path in super::files(&root().join(directory), ".rs")? {
            let text = std::fs::read_to_string(&path)?;
            let named = text.split("hashbrown::").skip(1);
            let is_fine = |item: &str| item.starts_with("HashTable;") || item.starts_with("hash_map::Entry;");
            let is_wrapper = path.ends_with("crates/core/src/object/hashing.rs");
            ensure!(is_wrapper || named.into_iter().all(is_fine), "{}: hashbrown", path.display());
            for hasher in ["BuildHasherDefault", "DefaultHashBuilder"] {
                ensure!(!text.contains(hasher), "{}: {hasher}", path.display());
            }
        }
    }
    let manifest: toml::Table = read("Cargo.toml")?.parse()?;
    let hashbrown = &manifest["workspace"]["dependencies"]["hashbrown"];
    ensure!(hashbrown["default-features"].as_bool() == Some(false), "hashbrown has a default hasher");
    let features = hashbrown["features"].as_array().context("no features")?;
    ensure!(!features.iter().any(|name| name.as_str() == Some("default-hasher")), "it is a feature");
    Ok(())
}
