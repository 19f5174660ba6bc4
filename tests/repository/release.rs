//! The small scripts of `deploy/release`: notes from the changelog, and the checks at its end. The
//! build itself takes minutes; `deploy/release --twice` checks it.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};

use super::links::targets;
use super::{read, root};

fn script(name: &str, arguments: &[&Path]) -> Result<Output> {
    Command::new(root().join("deploy").join(name)).args(arguments).output().context("it cannot be run")
}

#[test]
fn the_notes_of_a_release_are_its_section_of_the_changelog() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let changelog = directory.path().join("CHANGELOG.md");
    std::fs::write(
        &changelog,
        "# Changes\n\nAll.\n\n## Unreleased\n\n- next\n\n## 0.2.0 - 2026-03-04\n\n### Added\n\n- this\n\n\
         ## 0.2.0-rc.1 - 2026-03-01\n\n- before\n\n## 0.1.0 - soon\n\n- no date\n\n## 0.0.1 - 2026-01-01\n\n",
    )?;
    let notes = |version: &str| script("release-notes", &[version.as_ref(), &changelog]);
    for version in ["0.2.0", "v0.2.0"] {
        let found = notes(version)?;
        ensure!(found.status.success() && found.stdout == b"### Added\n\n- this\n", "{found:?}");
    }
    ensure!(notes("0.2.0-rc.1")?.stdout == b"- before\n");
    // Without a date, without text, without a section, and what is no version.
    for version in ["0.1.0", "0.0.1", "0.2", "0.3.0", "Unreleased", "0.2.0 .*"] {
        let refused = notes(version)?;
        ensure!(!refused.status.success() && refused.stdout.is_empty(), "{version}: {refused:?}");
        ensure!(String::from_utf8(refused.stderr)?.starts_with("release-notes: "));
    }
    Ok(())
}

#[test]
fn the_pages_of_an_archive_have_no_links_into_the_repository() -> Result<()> {
    let url = Path::new("https://example.com/kube-gc/blob/v0.2.0");
    for page in ["README.md", "CHANGELOG.md", "contrib/go/README.md"] {
        let links = |arguments: &[&Path]| -> Result<Vec<String>> {
            let printed = script("release-page", arguments)?;
            ensure!(printed.status.success(), "{printed:?}");
            Ok(targets(&String::from_utf8(printed.stdout)?))
        };
        let outside = |links: &[String]| links.iter().filter(|link| link.contains("://")).count();
        let before = targets(&read(page)?);
        ensure!(outside(&before) < before.len(), "{page} has no link to a file");
        let alone = links(&[page.as_ref()])?;
        ensure!(alone.len() == outside(&before), "{page}: {alone:?}");
        let with_url = links(&[page.as_ref(), url])?;
        ensure!(with_url.len() == before.len() && outside(&with_url) == before.len(), "{page}: {with_url:?}");
    }
    Ok(())
}

#[test]
fn a_release_with_a_file_that_its_checksums_do_not_cover_is_refused() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let version = Path::new("0.2.0");
    let refused = |why: &str| -> Result<()> {
        let found = script("check-release", &[version, directory.path()])?;
        let says = String::from_utf8(found.stderr)?;
        ensure!(!found.status.success() && says.contains(why), "not {why:?}: {says}");
        Ok(())
    };
    refused("not an image for each archive")?;
    let files = ["tar.gz", "oci.tar"].map(|kind| format!("kube-gc-v0.2.0-linux-amd64.{kind}"));
    let others = ["kube-gc-v0.2.0.cdx.json", "gc.yaml", "NOTES.md"].map(str::to_owned);
    for file in files.iter().chain(&others) {
        std::fs::write(directory.path().join(file), file)?;
    }
    refused("SHA256SUMS is missing or empty")?;
    let sums = |files: &mut dyn Iterator<Item = &String>| -> Result<()> {
        let sums = Command::new("sha256sum").args(files).current_dir(directory.path()).output()?;
        Ok(std::fs::write(directory.path().join("SHA256SUMS"), sums.stdout)?)
    };
    sums(&mut files.iter().chain(&others[..2]))?;
    refused("SHA256SUMS does not have NOTES.md")?;
    sums(&mut files.iter().chain(&others))?;
    std::fs::write(directory.path().join(&files[0]), "another archive")?;
    refused("a checksum is wrong")
}
