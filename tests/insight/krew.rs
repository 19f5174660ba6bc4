//! `deploy/krew/manifest` makes the manifest of the plugin from release archives.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

kube_gc_testkit::scenarios! {
    the_krew_manifest_has_the_checksums_of_the_archives,
}

const URL: &str = "https://example.com/kube-gc/releases/download/v0.1.0";

fn archive(directory: &Path, platform: &str, files: &[&str]) -> Result<PathBuf> {
    for file in files {
        std::fs::write(directory.join(file), format!("{file} of {platform}"))?;
    }
    let archive = directory.join(format!("kube-gc-v0.1.0-{platform}.tar.gz"));
    let status =
        Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(directory).args(files).status()?;
    ensure!(status.success(), "tar: {status}");
    Ok(archive)
}

fn manifest(version: &str, archives: &[&Path]) -> Result<Output> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/krew/manifest");
    Command::new(script).args([version, URL]).args(archives).output().context("the script cannot be run")
}

fn sha256(path: &Path) -> Result<String> {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &std::fs::read(path)?);
    Ok(digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

async fn the_krew_manifest_has_the_checksums_of_the_archives() -> Result<()> {
    let directory = TempDir::new()?;
    let whole = ["kubectl-gc", "LICENSE"];
    let amd = archive(directory.path(), "linux-amd64", &whole)?;
    let arm = archive(directory.path(), "darwin-arm64", &whole)?;
    let made = manifest("v0.1.0", &[&amd, &arm])?;
    ensure!(made.status.success(), "{made:?}");
    let text = String::from_utf8(made.stdout)?;
    ensure!(sha256(&amd)? != sha256(&arm)?, "the archives do not differ");
    for (os, arch, path) in [("linux", "amd64", &amd), ("darwin", "arm64", &arm)] {
        let name = path.file_name().and_then(|name| name.to_str()).context("no name")?;
        let entry = format!(
            "          os: {os}\n          arch: {arch}\n      uri: {URL}/{name}\n      sha256: {}\n      bin: kubectl-gc\n",
            sha256(path)?
        );
        ensure!(text.contains(&entry), "{text}");
    }
    ensure!(text.contains("  name: gc\n") && text.contains("  version: v0.1.0\n"), "{text}");

    let incomplete = archive(directory.path(), "linux-arm64", &["LICENSE"])?;
    for (version, archive, why) in [
        ("v0.1.0", &incomplete, "does not contain kubectl-gc"),
        ("0.1.0", &amd, "is not a version"),
        ("v0.2.0", &amd, "is not kube-gc-v0.2.0-OS-ARCH.tar.gz"),
        ("v0.1.0", &directory.path().join("kube-gc-v0.1.0-linux-amd64.tar.gz.missing"), "is not kube-gc"),
    ] {
        let refused = manifest(version, &[archive])?;
        let err = String::from_utf8(refused.stderr)?;
        ensure!(!refused.status.success() && refused.stdout.is_empty() && err.contains(why), "{why}: {err}");
    }
    Ok(())
}
