//! Kubernetes' own garbage collector works on the embedded server, which behaves like a real one.

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use kube_gc_apiserver::{Release, Scheme};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::Stage;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// kube-controller-manager with only its garbage collector.
struct Manager {
    stage: Stage,
    client: kube::Client,
    // Killed when this is dropped.
    _process: Child,
}

impl Manager {
    async fn start() -> Self {
        let stage = Stage::start(Release::V1_20, Scheme::Https).await;
        let log = File::create(stage.directory.path().join("log")).unwrap();
        let name = "kube-controller-manager";
        let process = Command::new(super::binaries(&[name]).join(name))
            .arg("--kubeconfig")
            .arg(stage.kubeconfig())
            .args(["--controllers=garbagecollector", "--leader-elect=false", "--port=0", "--secure-port=0"])
            .args(["--kube-api-content-type=application/json", "--v=2"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let client = stage.server.client();
        Self { stage, client, _process: process }
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json");
        self.client.request(request.body(body.to_string().into_bytes()).unwrap()).await
    }

    async fn create(&self, name: &str, owner: Option<&Value>) -> Value {
        let references: Vec<Value> = owner
            .iter()
            .map(|owner| {
                json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": true,
                    "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
                })
            })
            .collect();
        let metadata = json!({"name": name, "ownerReferences": references});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        self.send("POST", CONFIG_MAPS, &object).await.unwrap()
    }

    /// Creates an owner with a dependent that owns another object, and waits until the garbage
    /// collector knows them. It may see the deletion of an owner before a dependent that was created
    /// earlier, because changes that it has not processed are queued by object, and would then delete
    /// the dependent of an owner that orphans.
    async fn family(&self, prefix: &str) {
        let [owner, middle, last] = ["owner", "middle", "last"].map(|name| format!("{prefix}-{name}"));
        let created = self.create(&owner, None).await;
        let created = self.create(&middle, Some(&created)).await;
        self.create(&last, Some(&created)).await;
        // New objects of a type are processed in their order.
        let absent = json!({"metadata": {"name": "absent", "uid": "c0ffee00-0000-4000-8000-000000000000"}});
        self.create("marker", Some(&absent)).await;
        self.leaves(&[(&last, 1), (&middle, 1), (&owner, 0)]).await;
    }

    async fn delete(&self, name: &str, policy: &str) {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
        self.send("DELETE", &format!("{CONFIG_MAPS}/{name}"), &options).await.unwrap();
    }

    /// The names of the objects that are left, with their number of owners.
    async fn left(&self) -> Vec<(String, usize)> {
        let list = self.send("GET", CONFIG_MAPS, &Value::Null).await.unwrap();
        let object = |object: &Value| {
            let metadata = &object["metadata"];
            let owners = metadata["ownerReferences"].as_array().map_or(0, Vec::len);
            (metadata["name"].as_str().unwrap().to_owned(), owners)
        };
        list["items"].as_array().unwrap().iter().map(object).collect()
    }

    /// Waits until exactly these objects are left.
    async fn leaves(&self, expected: &[(&str, usize)]) {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let left = self.left().await;
            if left.iter().map(|(name, owners)| (name.as_str(), *owners)).eq(expected.iter().copied()) {
                return;
            }
            if Instant::now() > deadline {
                let log = std::fs::read_to_string(self.stage.directory.path().join("log")).unwrap();
                panic!("{left:?} is left, not {expected:?}; the log:\n{log}");
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_built_in_garbage_collector_works_on_the_embedded_server() {
    let manager = Manager::start().await;
    manager.family("b").await;
    manager.delete("b-owner", "Background").await;
    manager.leaves(&[]).await;

    manager.family("f").await;
    manager.delete("f-owner", "Foreground").await;
    manager.leaves(&[]).await;

    manager.family("o").await;
    manager.delete("o-owner", "Orphan").await;
    manager.leaves(&[("o-last", 1), ("o-middle", 0)]).await;
}
