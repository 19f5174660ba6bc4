//! What the tests of this repository share: a control plane, real or embedded, the
//! collector's own binary as a child process, a proxy between the two, a client to write
//! scenarios with, and the harness that runs them.

#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "only tests are built with it, and they may fail by panicking"
)]

use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

pub mod backend;
pub mod cluster;
pub mod collector;
pub mod control_plane;
pub mod controller_manager;
pub mod deployment;
pub mod environment;
pub mod etcd;
pub mod harness;
pub mod object;
pub mod proxy;
pub mod schema;
pub mod target;
pub mod webhook;

pub use backend::Backend;
pub use cluster::{Cluster, Crd, Ns, Policy, RequestCounts, Scope};
pub use collector::{Collector, Options, Rest};
pub use control_plane::{ControlPlane, Info, Server, Turn};
pub use controller_manager::ControllerManager;
pub use environment::Environment;
pub use object::Obj;
pub use webhook::Webhook;

/// The interval between checks of a condition.
const POLL: Duration = Duration::from_millis(20);
/// The time limit of each wait.
const DEADLINE: Duration = Duration::from_secs(60);

/// A kubeconfig with this cluster and this user. JSON is YAML.
pub fn kubeconfig(cluster: &Value, user: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "test", "cluster": cluster }],
        "users": [{ "name": "user", "user": user }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "user" } }],
        "current-context": "test",
    })
}

/// The configuration of a client by a kubeconfig. A test must see every answer, so nothing is retried.
pub async fn config_of(kubeconfig: &Path) -> anyhow::Result<Config> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(config)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The guarded value is consistent even after a panic of another test.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What tests share, or why there is none.
type Shared<T> = OnceLock<anyhow::Result<T, String>>;

/// What is in this cell, made by the first caller.
fn shared<T>(
    cell: &'static Shared<T>,
    start: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<&'static T> {
    let made = cell.get_or_init(|| start().map_err(|error| format!("{error:#}")));
    made.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
}
