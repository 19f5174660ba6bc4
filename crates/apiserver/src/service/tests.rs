use futures::{AsyncBufReadExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::time::Duration;

use super::*;
use crate::guards::{Admission, Operation, Verdict};
use crate::object::Key;
use crate::resources::{Resource, ResourceName, ServiceName};
use crate::store::Cause;

fn configmaps() -> ResourceName {
    ResourceName::new("", "configmaps")
}

fn put(server: &ApiServer, name: &str, data: &str) -> u64 {
    let value = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"key": data},
        "metadata": {"name": name, "namespace": "default", "uid": name},
    });
    let (key, cause) = (Key::new(Some("default"), name), Cause::server("test"));
    server.with(|server| server.store.write(&configmaps(), &key, value, &cause).resource_version())
}

fn request(path: &str) -> http::Request<Vec<u8>> {
    http::Request::get(format!("/api/v1/configmaps{path}")).body(Vec::new()).unwrap()
}

async fn ask(client: &kube::Client, path: &str) -> Value {
    client.request(request(path)).await.unwrap()
}

/// The lines of a watch, as they come.
type Lines = futures::stream::BoxStream<'static, Result<Value, std::io::Error>>;

async fn watch(client: &kube::Client, query: &str) -> Lines {
    let reader = client.request_stream(request(&format!("?watch=true&{query}"))).await.unwrap();
    reader.lines().map(|line| line.map(|line| serde_json::from_str(&line).unwrap())).boxed()
}

async fn next(lines: &mut Lines) -> (String, String) {
    let line = lines.next().await.expect("the watch has ended").expect("the watch was cut");
    let text = |pointer| line.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/type"), text("/object/metadata/name"))
}

fn event(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

/// Whether no line arrives before everything else is idle.
async fn is_quiet(lines: &mut Lines) -> bool {
    tokio::time::timeout(Duration::from_secs(1), lines.next()).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn a_client_lists_and_watches_without_a_socket() {
    let server = ApiServer::new(Settings::default());
    let client = server.client();
    let created = put(&server, "a", "1");
    let list = ask(&client, "").await;
    assert_eq!(list["metadata"]["resourceVersion"], created.to_string());
    assert_eq!(list["items"][0]["metadata"]["name"], "a");

    let mut lines = watch(&client, &format!("resourceVersion={created}")).await;
    assert!(is_quiet(&mut lines).await);
    put(&server, "a", "2");
    assert_eq!(next(&mut lines).await, event("MODIFIED", "a"));
    let (writer, name) = (server.clone(), "b");
    let later = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        put(&writer, name, "1");
    });
    assert_eq!(next(&mut lines).await, event("ADDED", "b"));
    later.await.unwrap();
}

fn new_configmap(name: &str) -> http::Request<Vec<u8>> {
    let object = json!({"metadata": {"name": name}}).to_string();
    http::Request::post("/api/v1/namespaces/n/configmaps").body(object.into_bytes()).unwrap()
}

/// As a real server, it checks the namespace before admission and not again.
#[tokio::test(start_paused = true)]
async fn an_object_has_its_uid_before_admission_and_is_written_afterwards() {
    let server = ApiServer::new(Settings::default());
    let client = server.client();
    let namespace = json!({"metadata": {"name": "n"}}).to_string();
    let created = http::Request::post("/api/v1/namespaces").body(namespace.into_bytes()).unwrap();
    client.request::<Value>(created).await.unwrap();
    let (told, mut uids) = tokio::sync::mpsc::unbounded_channel();
    let (open, gate) = tokio::sync::watch::channel(false);
    server.admit_by(Some(Admission::new(move |review| {
        if review.operation != Operation::Create || review.object.name() != "late" {
            return Verdict::Allow;
        }
        told.send((review.object.uid().to_owned(), review.object.value()["metadata"].clone())).unwrap();
        let mut gate = gate.clone();
        Verdict::Wait(Box::pin(async move {
            gate.wait_for(|open| *open).await.unwrap();
            Verdict::Allow
        }))
    })));
    let creating = tokio::spawn({
        let client = client.clone();
        async move { client.request::<Value>(new_configmap("late")).await }
    });
    let (uid, metadata) = uids.recv().await.unwrap();
    assert!(!uid.is_empty() && metadata["creationTimestamp"].is_string(), "{metadata}");
    client.request::<Value>(new_configmap("meanwhile")).await.unwrap();
    assert_eq!(ask(&client, "").await["items"].as_array().map(Vec::len), Some(1));
    let gone = http::Request::delete("/api/v1/namespaces/n").body(Vec::new()).unwrap();
    client.request::<Value>(gone).await.unwrap();
    let now = server.now() + Duration::from_secs(60);
    server.with(|server| server.tick(now));
    assert_eq!(ask(&client, "").await["items"], json!([]));
    open.send(true).unwrap();
    let created = creating.await.unwrap().unwrap();
    let expected = (uid.as_str(), &metadata["creationTimestamp"]);
    assert_eq!(
        (created["metadata"]["uid"].as_str().unwrap(), &created["metadata"]["creationTimestamp"]),
        expected
    );
    assert_eq!(ask(&client, "").await["items"][0]["metadata"]["uid"], uid);
}

/// What waits for a patch is decided again if the object has changed.
#[tokio::test(start_paused = true)]
async fn a_patch_that_waits_is_applied_to_the_state_of_that_time() {
    let server = ApiServer::new(Settings::default());
    let client = server.client();
    put(&server, "a", "1");
    let (open, gate) = tokio::sync::watch::channel(false);
    let (told, mut reviews) = tokio::sync::mpsc::unbounded_channel();
    server.admit_by(Some(Admission::new(move |review| {
        told.send(review.object.resource_version()).unwrap();
        let mut gate = gate.clone();
        Verdict::Wait(Box::pin(async move {
            gate.wait_for(|open| *open).await.unwrap();
            Verdict::Allow
        }))
    })));
    let patching = tokio::spawn({
        let client = client.clone();
        let patch = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
        let patch = http::Request::patch("/api/v1/namespaces/default/configmaps/a")
            .header("content-type", "application/merge-patch+json")
            .body(patch.into_bytes())
            .unwrap();
        async move { client.request::<Value>(patch).await }
    });
    let first = reviews.recv().await.unwrap();
    let second = put(&server, "a", "2");
    open.send(true).unwrap();
    let patched = patching.await.unwrap().unwrap();
    assert_eq!((&patched["data"]["key"], &patched["metadata"]["labels"]["a"]), (&json!("2"), &json!("b")));
    assert_eq!(reviews.recv().await, Some(second));
    assert!(first < second);
}

#[tokio::test(start_paused = true)]
async fn a_lagging_cache_catches_up() {
    let server = ApiServer::new(Settings::default());
    let client = server.client();
    let began = put(&server, "a", "1");
    let mut lines = watch(&client, &format!("resourceVersion={began}")).await;
    server.with(|server| server.store.freeze(&configmaps()));
    put(&server, "b", "1");
    assert!(is_quiet(&mut lines).await);
    assert_eq!(ask(&client, "?resourceVersion=0").await["items"].as_array().unwrap().len(), 1);
    assert_eq!(ask(&client, "").await["items"].as_array().unwrap().len(), 2);
    server.with(|server| server.store.thaw(&configmaps()));
    assert_eq!(next(&mut lines).await, event("ADDED", "b"));
}

#[tokio::test(start_paused = true)]
async fn watches_are_broken_and_ended() {
    let server = ApiServer::new(Settings::default());
    let client = server.client();
    let mut cut = watch(&client, "").await;
    assert!(is_quiet(&mut cut).await);
    server.cut_watches(Some(&ResourceName::new("", "secrets")));
    assert!(is_quiet(&mut cut).await);
    server.cut_watches(Some(&configmaps()));
    assert!(cut.next().await.is_some_and(|line| line.is_err()));
    let mut ended = watch(&client, "").await;
    assert_eq!(server.watches(&configmaps()), 2);
    server.with(|server| server.store.end_watches(None, Ending::Clean));
    assert!(ended.next().await.is_none());
    drop((cut, ended));
    assert_eq!(server.watches(&configmaps()), 0);
}

#[tokio::test(start_paused = true)]
async fn a_restored_backup_ends_watches_and_brings_objects_back() {
    let server = ApiServer::new(Settings::default());
    let client = server.client();
    let version = put(&server, "a", "1");
    let backup = server.snapshot();
    put(&server, "b", "1");
    let mut lines = watch(&client, "").await;
    assert_eq!(next(&mut lines).await, event("ADDED", "a"));
    assert_eq!(next(&mut lines).await, event("ADDED", "b"));
    server.restore(&backup);
    assert!(lines.next().await.is_none());
    let list = ask(&client, "").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(list["items"][0]["metadata"]["resourceVersion"], version.to_string());
}

async fn define_foos(client: &kube::Client) {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let create = http::Request::post(path)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&crd).unwrap())
        .unwrap();
    client.request::<Value>(create).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn scheduled_work_is_done_when_one_of_two_runners_has_ended() {
    // Whichever of the two notices the new work first.
    for gone in [0, 1] {
        let server = ApiServer::new(Settings::default());
        let run = |server: ApiServer| tokio::spawn(async move { server.run().await });
        let runners = [run(server.clone()), run(server.clone())];
        tokio::time::sleep(Duration::from_secs(1)).await;
        define_foos(&server.client()).await;
        // The clock stands still, so the work is scheduled but not due.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        runners[gone].abort();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(server.with(|server| server.catalog.get("example.com", "foos").is_some()));
        runners[1 - gone].abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_backend_serves_its_group_while_it_is_connected() {
    let (front, backend) = (ApiServer::new(Settings::default()), ApiServer::new(Settings::default()));
    let (client, service) = (front.client(), ServiceName::new("default", "apps"));
    let api = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.elsewhere"},
        "spec": {
            "group": "elsewhere", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "apps"},
        },
    });
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let post = http::Request::post(services).header("content-type", "application/json");
    client.request::<Value>(post.body(api.to_string().into_bytes()).unwrap()).await.unwrap();
    backend.with(|server| {
        let gadgets = ResourceName::new("elsewhere", "gadgets");
        let configmaps = server.catalog.get("", "configmaps").unwrap();
        let gadget = Resource { name: gadgets.clone(), stored_as: gadgets, ..(**configmaps).clone() };
        server.catalog.insert(std::sync::Arc::new(gadget));
    });
    let get = async |path: &str| {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        client.request::<Value>(request).await.map_err(|error| match error {
            kube::Error::Api(status) => status.code,
            other => panic!("{path}: {other}"),
        })
    };
    let paths = ["/apis/elsewhere/v1", "/apis/elsewhere/v1/gadgets"];
    tokio::time::sleep(Duration::from_secs(1)).await;
    for path in paths {
        assert_eq!(get(path).await, Err(503), "{path}");
    }

    front.connect(&service, &backend);
    let shown = get(&format!("{services}/v1.elsewhere")).await.unwrap();
    assert_eq!(shown["status"]["conditions"][0]["reason"], "Passed");
    assert_eq!(get(paths[0]).await.unwrap()["resources"][0]["name"], "gadgets");
    let list = get(paths[1]).await.unwrap();
    let head = backend.with(|server| server.store.head());
    assert_eq!(list["metadata"]["resourceVersion"], head.to_string(), "the backend has its own versions");
    let watch = http::Request::get(format!("{}?watch=true", paths[1])).body(Vec::new()).unwrap();
    let mut lines = client.request_stream(watch).await.unwrap().lines();

    front.disconnect(&service);
    assert!(lines.next().await.is_some_and(|line| line.is_err()), "the watch breaks");
    for path in paths {
        assert_eq!(get(path).await, Err(503), "{path}");
    }
    front.connect(&service, &backend);
    assert!(get(paths[1]).await.is_ok());
}

#[test]
fn a_query_is_pairs_in_order() {
    let expected = [("watch", ""), ("a", "b=c d%"), ("a", "")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(pairs("watch&a=b%3Dc+d%&&a="), expected);
}
