//! The rules of `docs/semantics.md`, the tests that they name, and the comments that cite them
//! are consistent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, Result, bail, ensure};

use super::{read, root};

const DOCUMENT: &str = "docs/semantics.md";

/// The number of a rule: its section, and its position in the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Number(u32, u32);

impl FromStr for Number {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let part = |text: &str| text.parse().map_err(|_| ());
        let (section, place) = text.split_once('.').ok_or(())?;
        Ok(Self(part(section)?, part(place)?))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(section, place) = self;
        write!(f, "{section}.{place}")
    }
}

/// The rules, each with the names of its tests.
fn rules() -> Result<BTreeMap<Number, Vec<String>>> {
    let mut rules = BTreeMap::new();
    let mut last = None;
    for line in read(DOCUMENT)?.lines() {
        if let Some((number, _)) = line.strip_prefix("**").and_then(|line| line.split_once("** ")) {
            let number: Number = number.parse().ok().with_context(|| format!("{number} is no number"))?;
            ensure!(last < Some(number), "rule {number} is out of order");
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

/// Every file written by hand that may cite a rule.
fn sources(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().context("no name")?.to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && name != "corpus" && !name.starts_with('.') {
                found.extend(sources(&path)?);
            }
        } else if [".rs", ".md", ".toml"].iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
    Ok(found)
}

/// The prose of a file: all of a document, the comments of anything else. Comments in consecutive
/// lines are one text, because a citation may be wrapped.
fn prose(path: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path)?;
    let marker = match path.extension().and_then(|ending| ending.to_str()) {
        Some("rs") => "//",
        Some("toml") => "#",
        _ => return Ok(vec![text]),
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
    Ok(blocks)
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
        numbers.extend(list.map_while(|word| word.parse::<Number>().ok()));
    }
    numbers
}

/// Citations of documents that the repository does not contain.
fn dangling(text: &str) -> Vec<String> {
    let words: Vec<_> = text.split_whitespace().map(bare).collect();
    let pairs = words.iter().zip(words.iter().skip(1));
    let dangles = |(what, which): &(&String, &String)| match what.as_str() {
        "semantics" => which.starts_with("section"),
        "scenario" | "scenarios" | "section" | "sections" | "invariant" | "invariants" => {
            which.starts_with(|c: char| c.is_ascii_digit())
        }
        _ => false,
    };
    pairs.filter(dangles).map(|(what, which)| format!("{what} {which}")).collect()
}

/// A test, its place and its comments.
#[derive(Debug)]
struct Test {
    path: PathBuf,
    /// Its own comment.
    own: String,
    /// The comment of its module.
    module: String,
}

/// All tests by name.
fn tests() -> Result<BTreeMap<String, Vec<Test>>> {
    let mut tests: BTreeMap<String, Vec<Test>> = BTreeMap::new();
    for path in sources(&root())?.into_iter().filter(|path| path.extension().is_some_and(|it| it == "rs")) {
        let text = std::fs::read_to_string(&path)?;
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
                let test = Test { path: path.clone(), own, module: module.clone() };
                tests.entry(name.to_owned()).or_default().push(test);
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

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

#[test]
fn every_citation_of_a_rule_resolves() -> Result<()> {
    let rules = rules()?;
    let mut problems = Vec::new();
    for path in sources(&root())? {
        let numbers = prose(&path)?.iter().flat_map(|text| cited(text)).collect::<BTreeSet<_>>();
        let unknown = numbers.into_iter().filter(|number| !rules.contains_key(number));
        problems.extend(unknown.map(|number| format!("{}: there is no rule {number}", relative(&path))));
    }
    none(&problems)
}

#[test]
fn every_rule_names_tests_that_exist() -> Result<()> {
    let (rules, tests) = (rules()?, tests()?);
    let mut problems = Vec::new();
    for (number, names) in &rules {
        if names.is_empty() {
            problems.push(format!("rule {number} names no test"));
        }
        for name in names {
            match tests.get(name).map_or(0, Vec::len) {
                0 => problems.push(format!("rule {number}: there is no test {name}")),
                1 => {}
                _ => problems.push(format!("rule {number}: there are several tests {name}")),
            }
        }
    }
    none(&problems)
}

#[test]
fn every_rule_is_cited_by_a_test_that_it_names() -> Result<()> {
    let (rules, tests) = (rules()?, tests()?);
    let cites = |name: &String, number| {
        let comments = tests.get(name).into_iter().flatten().flat_map(|test| [&test.own, &test.module]);
        comments.into_iter().any(|comment| cited(comment).contains(number))
    };
    let uncited = rules.iter().filter(|(number, names)| !names.iter().any(|name| cites(name, number)));
    none(&uncited.map(|(number, _)| format!("none of its tests cites rule {number}")).collect::<Vec<_>>())
}

/// Comments once cited sections and scenarios of a specification that is not in this repository.
#[test]
fn nothing_cites_a_missing_document() -> Result<()> {
    let mut problems = Vec::new();
    for path in sources(&root())? {
        let found = prose(&path)?.iter().flat_map(|text| dangling(text)).collect::<Vec<_>>();
        problems.extend(found.into_iter().map(|what| format!("{}: {what}", relative(&path))));
    }
    for (name, test) in tests()?.iter().flat_map(|(name, tests)| tests.iter().map(move |test| (name, test))) {
        let number = test.own.trim_start().split_once([':', ',']);
        let is_number = |(number, rest): (&str, &str)| {
            rest.starts_with(' ')
                && number.starts_with(|c: char| c.is_ascii_digit())
                && number.chars().all(|c| c.is_ascii_alphanumeric())
        };
        if number.is_some_and(is_number) {
            problems.push(format!("{}: {name} begins with a number", relative(&test.path)));
        }
    }
    none(&problems)
}

/// Whoever writes owner references chooses keys of the graph's and the queues' tables. Fails if a
/// table uses a hash function whose result can be computed outside of the process.
#[test]
fn tables_have_no_hasher_with_a_public_seed() -> Result<()> {
    let mut problems = Vec::new();
    for directory in ["src", "crates/core/src", "crates/decode/src", "crates/insight/src"] {
        for path in super::files(&root().join(directory), ".rs")? {
            let text = std::fs::read_to_string(&path)?;
            // The wrapper takes a seed; `HashTable` has no hasher of its own.
            let maps =
                hashbrown_items(&text).into_iter().filter(|item| item == "HashMap" || item == "HashSet");
            if relative(&path) != "crates/core/src/object/hashing.rs" {
                problems.extend(maps.map(|item| format!("{}: hashbrown::{item}", relative(&path))));
            }
            for hasher in ["BuildHasherDefault", "DefaultHashBuilder"] {
                if text.contains(hasher) {
                    problems.push(format!("{}: {hasher}", relative(&path)));
                }
            }
        }
    }
    let manifest: toml::Table = read("Cargo.toml")?.parse()?;
    let hashbrown = &manifest["workspace"]["dependencies"]["hashbrown"];
    ensure!(hashbrown["default-features"].as_bool() == Some(false), "hashbrown has a default hasher");
    let features = hashbrown["features"].as_array().context("no features")?;
    ensure!(!features.iter().any(|name| name.as_str() == Some("default-hasher")), "it is a feature");
    none(&problems)
}

/// The names that a file imports from the root of hashbrown or writes with its path.
fn hashbrown_items(text: &str) -> BTreeSet<String> {
    let mut items = BTreeSet::new();
    for (_, rest) in text.match_indices("hashbrown::").map(|(at, path)| text.split_at(at + path.len())) {
        let list = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default(),
            None => rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default(),
        };
        items.extend(
            list.split(',').map(|item| item.split_whitespace().next().unwrap_or_default().to_owned()),
        );
    }
    items
}

#[test]
fn imports_of_hashbrown_are_found() {
    let items = |text: &str| hashbrown_items(text).into_iter().collect::<Vec<_>>();
    assert_eq!(items("use hashbrown::{HashMap as Map, HashSet};"), ["HashMap", "HashSet"]);
    assert_eq!(
        items("use hashbrown::hash_map::Entry;\nlet x: hashbrown::HashMap<u8, u8>;"),
        ["HashMap", "hash_map"]
    );
}

#[test]
fn citations_are_distinguished_from_other_words() {
    let numbers = |text: &str| cited(text).iter().map(Number::to_string).collect::<Vec<_>>();
    assert_eq!(
        numbers("It goes (rule 4.7). See rules 4.8, 5.1 and 10.3: all hold."),
        ["4.7", "4.8", "5.1", "10.3"]
    );
    assert_eq!(numbers("Rule 4.7"), ["4.7"]);
    assert!(numbers("These rules hold for Kubernetes 1.33, and a rule has 2 parts.").is_empty());
    assert_eq!(dangling("(semantics, section 3)"), ["semantics section", "section 3"]);
    assert_eq!(dangling("Scenario 20a: two objects. Invariants 5 and 6."), ["scenario 20a", "invariants 5"]);
    assert!(dangling("The sections of the configuration, and semantics of JSON.").is_empty());
}
