//! Compares ARCHITECTURE.md with the sources: the table of modules with the imports of `src` and the
//! manifests of `crates`, and the walk of one event with the names that there are.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};

use crate::{files, read, root};

/// Packages that do I/O or spawn tasks, or know the API server or a container runtime. Crates with
/// rules do without them.
const IMPURE: [&str; 9] =
    ["actix", "futures", "hyper", "k8s-openapi", "kube", "kube-gc-cri", "reqwest", "tokio", "tonic"];
const PURE: [&str; 4] = ["crates/core", "crates/decode", "crates/insight", "crates/node"];

type Names = BTreeSet<String>;

/// The table of modules: what each may use.
fn table() -> Result<BTreeMap<String, Names>> {
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

/// What each module and each crate uses.
fn used() -> Result<BTreeMap<String, Names>> {
    let mut all = BTreeMap::new();
    for parent in ["src", "crates"] {
        for entry in std::fs::read_dir(root().join(parent))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = format!("{parent}/{name}");
                let used = if parent == "src" { imported(&path, &name)? } else { required(&path)? };
                all.insert(path, used);
            }
        }
    }
    Ok(all)
}

/// The other modules (`api`) and the crates of this repository (`kube_gc_api`) that the sources of a module
/// name, apart from its tests.
fn imported(path: &str, own: &str) -> Result<Names> {
    let mut names = Names::new();
    for file in files(&root().join(path), ".rs")? {
        if file.iter().any(|part| part == "tests" || part == "tests.rs") {
            continue;
        }
        let code = code(&std::fs::read_to_string(&file)?);
        for (at, found) in code.match_indices("crate::") {
            names.extend(first_segments(&code[at + found.len()..]));
        }
        let words = code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let is_crate = |word: &&str| {
            let name = word.strip_prefix("kube_gc_");
            name.is_some_and(|name| root().join("crates").join(name).is_dir())
        };
        names.extend(words.filter(is_crate).map(str::to_owned));
    }
    names.remove(own);
    Ok(names)
}

/// The code of a file: without comments, visibilities and what only tests compile.
fn code(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            let indent = |line: &str| line.len() - line.trim_start().len();
            let depth = lines.peek().map_or(0, |next| indent(next));
            let ends = |line: &str| indent(line) == depth && line.ends_with([';', '}']);
            lines.by_ref().find(|line| ends(line));
        } else if !line.trim_start().starts_with("//") {
            kept.push_str(&line.replace("pub(in crate::", "pub(in "));
            kept.push('\n');
        }
    }
    kept
}

/// The first segments of a path behind `crate::`: one, or those of a group.
fn first_segments(path: &str) -> Names {
    let mut group = String::new();
    let mut depth = 0;
    for c in path.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            c if depth == i32::from(path.starts_with('{')) => group.push(c),
            _ => {}
        }
        if depth == 0 && !(c.is_alphanumeric() || c == '_') {
            break;
        }
    }
    let of_word = |c: char| !(c.is_alphanumeric() || c == '_');
    let words = group.split(',').filter_map(|branch| branch.trim().split(of_word).next());
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The crates of this repository that a crate's manifest requires.
fn required(path: &str) -> Result<Names> {
    let manifest: toml::Table = read(&format!("{path}/Cargo.toml"))?.parse()?;
    let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
    let names: Names = dependencies.into_iter().flat_map(toml::Table::keys).cloned().collect();
    if PURE.contains(&path) {
        let impure: Vec<&str> = IMPURE.into_iter().filter(|name| names.contains(*name)).collect();
        ensure!(impure.is_empty(), "{path} depends on {impure:?}");
    }
    Ok(names.iter().filter(|name| name.starts_with("kube-gc-")).map(|name| name.replace('-', "_")).collect())
}

#[test]
fn every_module_uses_exactly_what_the_architecture_says() -> Result<()> {
    let (table, mut used) = (table()?, used()?);
    ensure!(table.keys().eq(used.keys()), "modules: {:?}, {:?}", table.keys(), used.keys());
    for names in used.values_mut() {
        *names = names.iter().map(|name| name.trim_start_matches("kube_gc_").to_owned()).collect();
    }
    let wrong = table.iter().filter(|(module, allowed)| used[*module] != **allowed);
    let wrong: Vec<String> = wrong
        .map(|(module, allowed)| format!("{module} may use {allowed:?}, and uses {:?}", used[module]))
        .collect();
    ensure!(wrong.is_empty(), "ARCHITECTURE.md:\n{}", wrong.join("\n"));
    Ok(())
}

/// With an order among the modules, a reader can begin with those that use no others. (Cargo keeps
/// crates from using each other in a circle.)
#[test]
fn no_module_uses_itself_through_others() -> Result<()> {
    let used = used()?;
    for module in used.keys().filter(|module| module.starts_with("src/")) {
        let mut reached = BTreeSet::new();
        let mut next = vec![module.clone()];
        while let Some(at) = next.pop() {
            let modules = used.get(&at).into_iter().flatten().map(|name| format!("src/{name}"));
            next.extend(modules.filter(|name| reached.insert(name.clone())));
        }
        ensure!(!reached.contains(module), "{module} uses itself through some of {reached:?}");
    }
    Ok(())
}

/// Fails if the walk of one event names a type or a function that has another name now.
#[test]
fn the_walk_of_an_event_is_short_and_names_what_there_is() -> Result<()> {
    let page = read("ARCHITECTURE.md")?;
    let (_, walk) = page.split_once("## One event").context("no walk")?;
    let (walk, _) = walk.split_once("\n## ").context("no end of the walk")?;
    let hops = walk.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count();
    ensure!((10..=20).contains(&hops), "{hops} hops");
    let mut defined = Names::new();
    for directory in ["src", "crates/core/src", "crates/decode/src"] {
        for path in files(&root().join(directory), ".rs")? {
            let code = code(&std::fs::read_to_string(path)?);
            defined.extend(code.split(|c: char| !(c.is_alphanumeric() || c == '_')).map(str::to_owned));
        }
    }
    let names: Vec<&str> = walk.split('`').skip(1).step_by(2).flat_map(|name| name.split("::")).collect();
    ensure!(names.len() > 30, "only {names:?}");
    // An event of a watch is Kubernetes' own word.
    let unknown = names.into_iter().find(|name| !defined.contains(*name) && *name != "DELETED");
    ensure!(unknown.is_none(), "the sources have no {unknown:?}");
    Ok(())
}
