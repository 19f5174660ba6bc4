//! What works with `kubectl` works with kube-gc: certificates, credentials and their rotation, exec plugins,
//! proxies, and the ways to write a kubeconfig.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod front;
mod pki;
mod proxies;
mod rotation;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube_gc_apiserver::{ApiServer, Scheme, Serving, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use front::{Accepts, Front};
use pki::{Authority, Pair};

/// The longest a command or a collection may take.
const LIMIT: Duration = Duration::from_secs(60);

/// An API server that asks who its clients are, and the files of one client.
struct Stage {
    maps: Api<ConfigMap>,
    front: Front,
    directory: TempDir,
    _serving: Serving,
}

impl Stage {
    async fn set(server: &Pair, accepts: Accepts) -> Self {
        let api = ApiServer::new(Settings { epoch: SystemTime::now(), ..Settings::default() });
        let serving = api.serve(([127, 0, 0, 1], 0).into(), Scheme::Http).await.unwrap();
        let front = Front::start(serving.address(), server, accepts).await;
        let maps = Api::namespaced(api.client(), "default");
        let stage = Self { maps, front, directory: TempDir::new().unwrap(), _serving: serving };
        stage.create("owner", json!(null)).await;
        stage
    }

    /// Creates a ConfigMap with these owners; returns its uid.
    async fn create(&self, name: &str, owners: Value) -> String {
        let map = json!({ "metadata": { "name": name, "ownerReferences": owners } });
        let map = self.maps.create(&Default::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
        map.metadata.uid.unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file as programs that rotate credentials do: it is there at once and complete.
    fn write(&self, name: &str, content: &str) -> PathBuf {
        let (new, path) = (self.path("new"), self.path(name));
        std::fs::write(&new, content).unwrap();
        std::fs::rename(new, &path).unwrap();
        path
    }

    /// A kubeconfig with this user, and this beside the address of the server.
    fn kubeconfig(&self, cluster: &Value, user: &Value) -> Value {
        let mut whole = json!({ "server": format!("https://{}", self.front.address) });
        whole.as_object_mut().unwrap().extend(cluster.as_object().unwrap().clone());
        kube_gc_testkit::kubeconfig(&whole, user)
    }

    /// Runs `kube-gc` with a kubeconfig.
    async fn kube_gc(&self, kubeconfig: &Path, arguments: &str, environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kube-gc"));
        command.args(arguments.split_whitespace());
        self.run(command, kubeconfig, environment).await
    }

    /// Runs `kubectl` with a kubeconfig.
    async fn kubectl(&self, kubeconfig: &Path, arguments: &str, environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new("kubectl");
        // Its caches are stored by the address of the server, and addresses are used again.
        command.arg("--cache-dir").arg(self.path("cache")).args(arguments.split_whitespace());
        self.run(command, kubeconfig, environment).await
    }

    async fn run(&self, mut command: Command, kubeconfig: &Path, environment: &[(&str, &str)]) -> Output {
        command.env("KUBECONFIG", kubeconfig).envs(environment.iter().copied());
        command.current_dir("/").stdin(Stdio::null()).kill_on_drop(true);
        tokio::time::timeout(LIMIT, command.output()).await.expect("an end of the command").unwrap()
    }
}

/// A number that nothing else has.
fn unique() -> usize {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

fn token(text: &'static str) -> (Accepts, Value) {
    (Accepts::Token(text), json!({ "token": text }))
}

fn owned_by(uid: &str) -> Value {
    json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid }])
}
