//! `deploy/install-envtest` puts the binary where envtest has its own.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use kube_gc_testkit::target;

kube_gc_testkit::scenarios! {
    the_binary_is_installed_into_the_assets_of_envtest,
    without_assets_nothing_is_installed,
}

/// A home directory with programs that do nothing.
struct Home(TempDir);

impl Home {
    fn new() -> Result<Self> {
        Ok(Self(TempDir::new()?))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn program(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().context("no directory")?)?;
        std::fs::write(&path, format!("#!/bin/sh\necho {text}\n"))?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755))?;
        Ok(path)
    }

    /// Installs a binary with these assets, or where the script looks without any.
    fn install(&self, binary: &Path, assets: Option<&str>) -> Result<Output> {
        let mut command = Command::new(target::repository().join("deploy/install-envtest"));
        command.arg(binary).env("HOME", self.0.path()).env_remove("XDG_DATA_HOME");
        command.env("KUBE_GC_ENVTEST_DEFAULT", self.path("default"));
        match assets {
            Some(assets) => command.env("KUBEBUILDER_ASSETS", self.path(assets)),
            None => command.env_remove("KUBEBUILDER_ASSETS"),
        };
        command.output().context("the script cannot be run")
    }
}

/// Fails unless the script has printed this path, and there is a program that prints this text.
fn installed(output: &Output, path: &Path, text: &str) -> Result<()> {
    ensure!(output.status.success(), "{output:?}");
    ensure!(String::from_utf8_lossy(&output.stdout).trim_end() == path.to_string_lossy(), "{output:?}");
    let ran = Command::new(path).output()?;
    ensure!(String::from_utf8_lossy(&ran.stdout).trim_end() == text, "{ran:?}");
    for entry in std::fs::read_dir(path.parent().context("no directory")?)? {
        let name = entry?.file_name();
        ensure!(name == "kube-gc" || name == "kube-apiserver", "left over: {name:?}");
    }
    Ok(())
}

/// The assets that are named, or else those in the default directory, or of the newest release that
/// setup-envtest has installed.
async fn the_binary_is_installed_into_the_assets_of_envtest() -> Result<()> {
    let home = Home::new()?;
    let binary = home.program("build/kube-gc", "old")?;
    home.program("assets/kube-apiserver", "server")?;
    installed(&home.install(&binary, Some("assets"))?, &home.path("assets/kube-gc"), "old")?;
    // As setup-envtest leaves it. (For root, no directory is read-only.)
    std::fs::set_permissions(home.path("assets"), PermissionsExt::from_mode(0o555))?;
    let binary = home.program("build/kube-gc", "new")?;
    installed(&home.install(&binary, Some("assets"))?, &home.path("assets/kube-gc"), "new")?;
    let mode = std::fs::metadata(home.path("assets"))?.permissions().mode();
    std::fs::set_permissions(home.path("assets"), PermissionsExt::from_mode(0o755))?;
    ensure!(mode & 0o777 == 0o555, "{mode:o}");

    home.program("default/kube-apiserver", "server")?;
    installed(&home.install(&binary, None)?, &home.path("default/kube-gc"), "new")?;
    let store = ".local/share/kubebuilder-envtest/k8s";
    let machine = if cfg!(target_arch = "aarch64") { "linux-arm64" } else { "linux-amd64" };
    for release in ["1.9.0", "1.33.0", "1.31.2"].map(|version| format!("{version}-{machine}")) {
        home.program(&format!("{store}/{release}/kube-apiserver"), "server")?;
    }
    std::fs::create_dir(home.path(&format!("{store}/1.34.0-{machine}")))?;
    // Nobody looks for the binary there.
    home.program(&format!("{store}/1.35.0-darwin-arm64/kube-apiserver"), "server")?;
    let expected = home.path(&format!("{store}/1.33.0-{machine}/kube-gc"));
    installed(&home.install(&binary, None)?, &expected, "new")
}

async fn without_assets_nothing_is_installed() -> Result<()> {
    let home = Home::new()?;
    let binary = home.program("build/kube-gc", "new")?;
    std::fs::create_dir(home.path("empty"))?;
    let missing = home.path("build/none");
    for (binary, assets, why) in [
        (&binary, None, "run `setup-envtest use`, or set KUBEBUILDER_ASSETS"),
        (&binary, Some("empty"), "there is no kube-apiserver in"),
        (&missing, Some("empty"), "is not an executable file; build it with"),
    ] {
        let refused = home.install(binary, assets)?;
        let text = String::from_utf8_lossy(&refused.stderr);
        ensure!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
        ensure!(text.contains(why) && text.lines().count() == 1, "{text}");
    }
    ensure!(std::fs::read_dir(home.path("empty"))?.count() == 0);
    Ok(())
}
