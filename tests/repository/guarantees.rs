//! Each promise of `docs/guarantees.md`, and each failure of others that it names, has something that
//! enforces it.

use anyhow::{Context as _, Result, ensure};

use super::read;

const DOCUMENT: &str = "docs/guarantees.md";

/// Fails unless a file has a function, a type or a row of a benchmark of this name.
fn exists(place: &str) -> Result<()> {
    let (path, name) = place.rsplit_once("::").context("no name")?;
    let text = read(path)?;
    let forms = [format!("fn {name}("), format!("struct {name}"), format!("\"{name}\"")];
    ensure!(forms.iter().any(|form| text.contains(form)), "{path} has no {name}");
    Ok(())
}

#[test]
fn every_guarantee_names_what_enforces_it() -> Result<()> {
    let (mut promises, mut failures) = (0, 0);
    for line in read(DOCUMENT)?.lines() {
        if let Some((number, _)) = line.split_once(". **") {
            promises += 1;
            ensure!(number == promises.to_string(), "{number} follows {}", promises - 1);
        } else if line.starts_with("- ") {
            failures += 1;
        } else {
            continue;
        }
        let places: Vec<&str> =
            line.split('`').skip(1).step_by(2).filter(|code| code.contains("::")).collect();
        ensure!(!places.is_empty() || line.ends_with("*Pending*"), "nothing enforces this: {line}");
        for place in places {
            exists(place).with_context(|| line.to_owned())?;
        }
    }
    ensure!(promises > 10 && failures > 20, "{promises} promises, {failures} failures");
    Ok(())
}
