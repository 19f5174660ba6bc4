//! The store is restored from a backup during a watch.

use std::process::Command;
use std::time::{Duration, Instant};

use kube_gc::internals::api::{Api, ApiSettings, HighWater, Step, WatchStart, WriteGate, load_config};
use kube_gc_core::object::{GroupResource, ResourceType, Scope};
use serde_json::json;

use super::control_plane::ControlPlane;

/// Creates a ConfigMap, with retries: after a restart, the API server reconnects to its store
/// only on its next attempt, and an answer may be lost. The test chooses the name, because a name
/// that the server generates can be taken, as happened in about one run of 300.
async fn create(client: &kube::Client, name: &str) {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let request = http::Request::post("/api/v1/namespaces/default/configmaps")
            .header("content-type", "application/json")
            .body(body.to_string().into_bytes())
            .unwrap();
        match client.request::<serde_json::Value>(request).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.is_already_exists() => return,
            Err(error) => assert!(Instant::now() < deadline, "{name}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_store_is_noticed() {
    let mut server = ControlPlane::start_own();
    let data = server.directory().join("etcd");
    let backup = server.directory().join("etcd.backup");
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
    };
    server.tell("kill etcd");
    copy(&data, &backup);
    server.tell("start etcd");

    let config = load_config(Some(&server.kubeconfig), None).await.unwrap();
    let client = kube::Client::try_from(config.clone()).unwrap();
    let api = Api::connect(config, ApiSettings::default(), WriteGate::open()).unwrap();
    let config_maps = ResourceType {
        group_resource: GroupResource::parse("configmaps"),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        scope: Scope::Namespaced,
    };
    let start = WatchStart { high_water: HighWater::default(), aggregated: false };
    let mut watch = api.watch(config_maps.into(), start);
    while !matches!(watch.next().await, Some(Step::InitDone { .. })) {}
    for number in 0..300 {
        create(&client, &format!("after-the-backup-{number}")).await;
    }
    let mut events = 0;
    while events < 300 {
        if let Some(Step::Events(batch)) = watch.next().await {
            events += batch.len();
        }
    }

    server.tell("kill kube-apiserver");
    server.tell("kill etcd");
    std::fs::remove_dir_all(&data).unwrap();
    copy(&backup, &data);
    server.tell("start etcd");
    server.tell("start kube-apiserver");
    let deadline = Instant::now() + Duration::from_secs(120);
    let (seen, found) = loop {
        assert!(Instant::now() < deadline, "not noticed");
        match watch.next().await {
            Some(Step::StoreRestored { seen, found }) => break (seen, found),
            Some(_) => {}
            None => panic!("it goes on"),
        }
    };
    assert!(seen.is_after(&found), "{seen} {found}");
    assert!(matches!(watch.next().await, Some(Step::Init { .. })));
}
