//! ARCHITECTURE.md against the sources: who uses whom.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};

use crate::imports::Sources;
use crate::{read, root};

/// The table of rooms: what each may use.
fn table() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let page = read("ARCHITECTURE.md")?;
    let (_, rest) = page.split_once("| room ").context("no table of rooms")?;
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
fn rooms() -> Result<BTreeSet<String>> {
    let mut rooms = BTreeSet::new();
    for parent in ["src", "crates"] {
        for entry in std::fs::read_dir(root().join(parent))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                rooms.insert(format!("{parent}/{}", entry.file_name().to_string_lossy()));
            }
        }
    }
    Ok(rooms)
}

#[test]
fn every_room_uses_what_the_architecture_says_and_nothing_else() -> Result<()> {
    let table = table()?;
    ensure!(table.keys().cloned().collect::<BTreeSet<_>>() == rooms()?, "rooms: {:?}", table.keys());
    let sources = Sources::read(&root().join("src"))?;
    let mut wrong = Vec::new();
    for (room, allowed) in &table {
        let used: BTreeMap<String, String> = match room.split_once('/') {
            Some(("src", name)) => used(&sources, name),
            Some(("crates", name)) => {
                let sources = Sources::read(&root().join(room).join("src"))?;
                foreign(&sources, name)
            }
            _ => BTreeMap::new(),
        };
        for (name, file) in used.iter().filter(|(name, _)| !allowed.contains(*name)) {
            wrong.push(format!("{room} may not use {name}, but {file} does"));
        }
        for name in allowed.iter().filter(|name| !used.contains_key(*name)) {
            wrong.push(format!("{room} does not use {name}"));
        }
    }
    ensure!(wrong.is_empty(), "ARCHITECTURE.md:\n{}", wrong.join("\n"));
    Ok(())
}

/// The rooms that a room of the root package uses, each with a file that does.
fn used(sources: &Sources, room: &str) -> BTreeMap<String, String> {
    let used = sources.used_by(room).into_iter();
    let named = used.map(|(name, file)| (name.trim_start_matches("kube_gc_").to_owned(), file.to_owned()));
    named.collect()
}

/// The other crates of this repository that a crate uses.
fn foreign(sources: &Sources, own: &str) -> BTreeMap<String, String> {
    let crates = sources.crates_used().into_iter();
    let named = crates.map(|(name, file)| (name.trim_start_matches("kube_gc_").to_owned(), file.to_owned()));
    named.filter(|(name, _)| name != own).collect()
}

/// Two files may know each other; of three nobody can say where to begin to read.
#[test]
fn no_more_than_two_files_import_each_other_in_a_circle() -> Result<()> {
    let (core, package) =
        (Sources::read(&root().join("crates/core/src"))?, Sources::read(&root().join("src"))?);
    let mut circles = core.circles(&[]);
    for room in ["actors", "worker", "introspect"] {
        circles.extend(package.circles(&[room]));
    }
    ensure!(circles.is_empty(), "{circles:#?}");
    Ok(())
}
