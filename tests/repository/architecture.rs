//! Compares the table of modules in ARCHITECTURE.md with the imports of the sources.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};

use crate::imports::Sources;
use crate::{files, read, root};

/// The table of modules: what each may use.
fn table() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let page = read("ARCHITECTURE.md")?;
    let (_, rest) = page.split_once("| module ").context("no table of modules")?;
    let rows = rest.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        ensure!(cells.len() == 3, "not three columns: {row}");
        let name = cells[0].trim_matches('`').trim_end_matches('/');
        Ok((name.to_owned(), cells[2].split('`').skip(1).step_by(2).map(str::to_owned).collect()))
    })
    .collect()
}

/// The directories that the table has to name.
fn modules() -> Result<BTreeSet<String>> {
    let mut modules = BTreeSet::new();
    for parent in ["src", "crates"] {
        for entry in std::fs::read_dir(root().join(parent))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                modules.insert(format!("{parent}/{}", entry.file_name().to_string_lossy()));
            }
        }
    }
    Ok(modules)
}

#[test]
fn every_module_uses_exactly_what_the_architecture_says() -> Result<()> {
    let table = table()?;
    ensure!(table.keys().cloned().collect::<BTreeSet<_>>() == modules()?, "modules: {:?}", table.keys());
    let sources = Sources::read(&root().join("src"))?;
    let mut wrong = Vec::new();
    for (module, allowed) in &table {
        let used: BTreeMap<String, String> = match module.split_once('/') {
            Some(("src", name)) => used(&sources, name),
            Some(("crates", name)) => {
                let sources = Sources::read(&root().join(module).join("src"))?;
                foreign(&sources, name)
            }
            _ => BTreeMap::new(),
        };
        for (name, file) in used.iter().filter(|(name, _)| !allowed.contains(*name)) {
            wrong.push(format!("{module} may not use {name}, but {file} does"));
        }
        for name in allowed.iter().filter(|name| !used.contains_key(*name)) {
            wrong.push(format!("{module} does not use {name}"));
        }
    }
    ensure!(wrong.is_empty(), "ARCHITECTURE.md:\n{}", wrong.join("\n"));
    Ok(())
}

/// With an order among the modules, a reader can begin with those that use no others. (Cargo keeps
/// crates from using each other in a circle.)
#[test]
fn no_module_uses_itself_through_others() -> Result<()> {
    let sources = Sources::read(&root().join("src"))?;
    let modules = modules()?.into_iter().filter_map(|module| Some(module.strip_prefix("src/")?.to_owned()));
    let uses: BTreeMap<String, BTreeMap<String, &str>> =
        modules.map(|module| (module.clone(), sources.used_by(&module))).collect();
    ensure!(uses.len() > 10, "{:?}", uses.keys());
    for module in uses.keys() {
        let mut reached = BTreeSet::new();
        let mut next = vec![module];
        while let Some(at) = next.pop() {
            let used = uses.get(at).into_iter().flat_map(BTreeMap::keys);
            next.extend(used.filter(|used| reached.insert(*used)));
        }
        ensure!(!reached.contains(module), "{module} uses itself through some of {reached:?}");
    }
    Ok(())
}

/// The modules that a module of the root package uses, each with a file that does.
fn used(sources: &Sources, module: &str) -> BTreeMap<String, String> {
    let used = sources.used_by(module).into_iter();
    let named = used.map(|(name, file)| (name.trim_start_matches("kube_gc_").to_owned(), file.to_owned()));
    named.collect()
}

/// The other crates of this repository that a crate uses.
fn foreign(sources: &Sources, own: &str) -> BTreeMap<String, String> {
    let crates = sources.crates_used().into_iter();
    let named = crates.map(|(name, file)| (name.trim_start_matches("kube_gc_").to_owned(), file.to_owned()));
    named.filter(|(name, _)| name != own).collect()
}

/// The names that the sources define, in code.
fn defined() -> Result<BTreeSet<String>> {
    let mut words = BTreeSet::new();
    for directory in ["src", "crates/core/src", "crates/decode/src"] {
        for path in files(&root().join(directory), ".rs")? {
            let text = std::fs::read_to_string(path)?;
            let of_word = |c: char| !(c.is_alphanumeric() || c == '_');
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            words.extend(code.flat_map(|line| line.split(of_word)).map(str::to_owned));
        }
    }
    Ok(words)
}

/// Fails if the walk of one event names a type or a function that has another name now.
#[test]
fn the_walk_of_an_event_is_short_and_names_what_there_is() -> Result<()> {
    let page = read("ARCHITECTURE.md")?;
    let (_, walk) = page.split_once("## One event").context("no walk")?;
    let (walk, _) = walk.split_once("\n## ").context("no end of the walk")?;
    let hops = walk.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count();
    ensure!((10..=20).contains(&hops), "{hops} hops");
    let defined = defined()?;
    let mut count = 0;
    for name in walk.split('`').skip(1).step_by(2) {
        for part in name.split("::") {
            count += 1;
            // An event of a watch is Kubernetes' own word.
            ensure!(defined.contains(part) || part == "DELETED", "the sources have no {part} of {name}");
        }
    }
    ensure!(count > 30, "only {count} names");
    Ok(())
}
