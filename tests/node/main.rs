//! `kube-gc node` as a process: bad input, kills, a disk that stays full, and a real containerd.
//!
//! Tests with real containers need root; without it, they are skipped and say why. With
//! `KUBE_GC_CONTAINERD=required`, as in continuous integration, that is a failure.

mod containerd;
mod full;
mod input;
mod kills;
mod pods;
mod process;
mod words;

use std::future::Future;
use std::time::Duration;

use anyhow::{Result, ensure};
use kube_gc_cri::server::Settings;
use tokio::time::{Instant, sleep};

/// How long a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// A runtime whose file system is that of this machine: one that cannot be measured makes each pass incomplete.
fn measurable() -> Settings {
    Settings { mountpoint: "/".to_owned(), ..Settings::default() }
}

/// Waits for something.
async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return Ok(found);
        }
        ensure!(Instant::now() < deadline, "waited too long for {what}");
        sleep(Duration::from_millis(20)).await;
    }
}
