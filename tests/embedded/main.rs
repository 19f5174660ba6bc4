//! Programs of real clusters work with the embedded API server.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod controller_manager;
mod kubectl;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use kube_gc_apiserver::{ApiServer, Release, Scheme, Serving, Settings};
use tempfile::TempDir;

/// The directory with these components of the test control plane, and `kubectl` if the machine
/// has none.
fn binaries(components: &[&str]) -> PathBuf {
    let ensure = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/control-plane/ensure.sh");
    let output = Command::new(&ensure).args(components).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// An embedded server on an address, with a kubeconfig in a file.
struct Stage {
    server: ApiServer,
    serving: Serving,
    directory: TempDir,
}

impl Stage {
    async fn start(release: Release, scheme: Scheme) -> Self {
        let settings = Settings { release, epoch: SystemTime::now(), ..Settings::default() };
        let server = ApiServer::new(settings);
        let serving = server.serve(([127, 0, 0, 1], 0).into(), scheme).await.unwrap();
        let directory = TempDir::new().unwrap();
        std::fs::write(directory.path().join("kubeconfig"), serving.kubeconfig()).unwrap();
        Self { server, serving, directory }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// Writes a file with this content.
    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}
