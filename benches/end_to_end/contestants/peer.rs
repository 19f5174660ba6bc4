//! Kubernetes' own garbage collector: kube-controller-manager with no other controller and no
//! client-side rate limit.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// The program and its release.
#[derive(Clone, Debug)]
pub struct Peer {
    program: PathBuf,
    /// Its version, for example `1.20.2`.
    pub version: String,
}

impl Peer {
    /// The program at a path.
    pub fn at(program: PathBuf) -> Result<Self> {
        let output = Command::new(&program).arg("--version").output();
        let output = output.with_context(|| format!("cannot run {}", program.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let version = said.trim().strip_prefix("Kubernetes v");
        let version = version.with_context(|| format!("{} is none: {said}", program.display()))?;
        Ok(Self { program, version: version.to_owned() })
    }

    /// The command.
    pub fn command(&self, kubeconfig: &Path) -> Result<Command> {
        let minor = self.version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
        let minor = minor.with_context(|| format!("not a version: {}", self.version))?;
        ensure!(self.version.starts_with("1."), "nothing is known of {}", self.version);
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(kubeconfig).args([
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=100000",
            "--kube-api-burst=100000",
            "--concurrent-gc-syncs=20",
        ]);
        // The flag is deprecated since 1.23 and was removed later; the controller was renamed in
        // 1.28.
        if minor < 23 {
            command.arg("--port=0");
        }
        let name = if minor < 28 { "garbagecollector" } else { "garbage-collector-controller" };
        command.arg(format!("--controllers={name}"));
        Ok(command)
    }
}

/// Whether a log line says that all objects are known.
pub fn is_synced(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    line.contains("all resource monitors have synced") && !line.contains("not all")
}
