//! The debug pages of a collector that runs.

use axum::Router;
use axum::body::{Body, to_bytes};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Resource as _, ResourceExt as _};
use kube_gc_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{Collector, server};
use crate::introspect::debug_router;

/// The pages of a collector, and an object in its cluster with a dependent.
struct Stage {
    server: ApiServer,
    collector: Collector,
    pages: Router,
    uid: String,
}

impl Stage {
    async fn new() -> Self {
        let server = server();
        let client = server.client();
        let collector = Collector::builder_with_client(client.clone()).start().await.unwrap();
        let objects: Api<ConfigMap> = Api::default_namespaced(client);
        let create = async |name: &str, owner: Option<&ConfigMap>| {
            let owner_references = owner.map(|owner| owner.owner_ref(&()).into_iter().collect());
            let metadata =
                ObjectMeta { name: Some(name.to_owned()), owner_references, ..ObjectMeta::default() };
            let object = ConfigMap { metadata, ..ConfigMap::default() };
            objects.create(&PostParams::default(), &object).await.unwrap()
        };
        let owner = create("owner", None).await;
        let dependent = create("dependent", Some(&owner)).await;
        collector.wait_seen("configmaps", &dependent.resource_version().unwrap()).await.unwrap();
        collector.wait_idle().await.unwrap();
        let pages = debug_router(collector.introspection.clone());
        Self { server, collector, pages, uid: owner.uid().unwrap() }
    }

    /// Status, content type, body.
    async fn get(&self, path: &str) -> (u16, String, String) {
        let path = path.replace("UID", &self.uid);
        let request = axum::http::Request::get(&path).body(Body::empty()).unwrap();
        let response = self.pages.clone().oneshot(request).await.unwrap();
        let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, content_type, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn json(&self, path: &str) -> (u16, Value) {
        let (status, content_type, body) = self.get(path).await;
        assert_eq!(content_type, "application/json", "{path}: {body}");
        (status, serde_json::from_str(&body).unwrap())
    }
}

#[tokio::test]
async fn every_page_answers_or_says_what_is_wrong() {
    let stage = Stage::new().await;
    let (_, _, index) = stage.get("/").await;
    for (path, expected) in [
        ("/debug/idle?seen=nosuch=1", 404),
        ("/debug/monitors", 200),
        ("/debug/discovery", 200),
        ("/debug/queues", 200),
        ("/debug/summary", 200),
        ("/debug/stuck", 200),
        ("/debug/stuck?reason=tired", 400),
        ("/debug/stuck/causes", 200),
        ("/debug/decisions", 200),
        ("/debug/decisions?limit=0", 400),
        ("/debug/search?q=owner", 200),
        ("/debug/search?limit=0", 400),
        ("/debug/neighbourhood?uid=UID&down=2", 200),
        ("/debug/neighbourhood?uid=UID&max=201", 400),
        ("/debug/neighbourhood?uid=other", 404),
        ("/debug/neighbourhood", 400),
        ("/debug/explain?uid=UID", 200),
        ("/debug/explain?uid=UID&down=1", 400),
        ("/debug/row?uid=UID", 200),
        ("/debug/row?uid=other", 404),
        ("/debug/row?uid=UID&down=1", 400),
        ("/debug/plan?uid=UID", 200),
        ("/debug/plan?uid=other", 404),
    ] {
        let page = path.split('?').next().unwrap();
        assert!(index.contains(page), "the index does not name {page}");
        assert_eq!(stage.get(path).await.0, expected, "{path}");
    }
    // The limits of streams, and access to a page, go by the path as it was sent.
    for path in [
        "/debug/nothing",
        "/debug/strea%6d",
        "/debug/stuck%2Fcauses",
        "/debug/./summary",
        "/debug//summary",
        "/debug/",
    ] {
        assert_eq!(stage.get(path).await.0, 404, "{path}");
    }
    stage.collector.stop().await.unwrap();
}

#[tokio::test]
async fn a_row_has_what_the_servers_table_says() {
    let stage = Stage::new().await;
    let (status, row) = stage.json("/debug/row?uid=UID&resource=configmaps").await;
    let age = row["age"].as_str().unwrap();
    assert_eq!(
        (status, &row),
        (
            200,
            &json!({"apiVersion": "kube-gc.io/v1", "kind": "Row", "ready": null, "isReady": null, "age": age})
        )
    );
    let deployments: Api<Deployment> = Api::default_namespaced(stage.server.client());
    let labels = json!({"app": "web"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    });
    let deployment = serde_json::from_value(deployment).unwrap();
    let web = deployments.create(&PostParams::default(), &deployment).await.unwrap();
    stage.collector.wait_seen("deployments.apps", &web.resource_version().unwrap()).await.unwrap();
    let (_, row) = stage.json(&format!("/debug/row?uid={}", web.uid().unwrap())).await;
    assert_eq!((&row["ready"], &row["isReady"]), (&json!("0/2"), &json!(false)), "{row}");
    assert!(row["age"].as_str().unwrap().ends_with('s'), "{row}");
    stage.collector.stop().await.unwrap();
}

/// Rule 9.4.
#[tokio::test]
async fn the_graph_comes_as_dot_or_as_json() {
    let stage = Stage::new().await;
    let flags = ["missing", "beingDeleted", "deletingDependents", "virtual"];
    for path in ["/debug/graph", "/debug/graph?uid=UID&uid=x"] {
        let (status, content_type, body) = stage.get(path).await;
        assert_eq!((status, content_type.as_str()), (200, "text/vnd.graphviz; charset=utf-8"), "{path}");
        assert!(body.starts_with("strict digraph") && body.contains(&stage.uid), "{body}");
        for field in ["label", "group", "version", "kind", "namespace", "name", "uid"].iter().chain(&flags) {
            assert!(body.contains(&format!("{field}=")), "no {field}: {body}");
        }
        let format = if path.contains('?') { "&format=json" } else { "?format=json" };
        let (status, graph) = stage.json(&format!("{path}{format}")).await;
        assert_eq!((status, graph["nodes"].as_array().unwrap().len()), (200, 2), "{graph}");
        let owner = graph["nodes"].as_array().unwrap().iter().find(|node| node["uid"] == *stage.uid).unwrap();
        let of = |field: &str| owner[field].as_str().unwrap();
        let named = ["kind", "name", "namespace", "version"].map(of);
        assert_eq!(named, ["ConfigMap", "owner", "default", "v1"], "{owner}");
        assert!(flags.iter().all(|flag| owner[flag] == json!(false)), "{owner}");
    }
    let (status, _, body) = stage.get("/debug/graph?uid=x").await;
    assert_eq!((status, body.as_str()), (404, "none of these uids is in the graph\n"));
    stage.collector.stop().await.unwrap();
}

/// Rule 9.8.
#[tokio::test]
async fn the_idle_page_takes_versions_and_gives_reasons() {
    let stage = Stage::new().await;
    let (status, report) = stage.json("/debug/idle?seen=configmaps=1").await;
    assert_eq!((status, &report["idle"]), (200, &json!(true)), "{report}");
    let later = "/debug/idle?seen=configmaps=1&seen=configmaps%3D999999999&parked=ok";
    let (status, report) = stage.json(later).await;
    assert_eq!((status, &report["idle"]), (503, &json!(false)));
    assert_eq!(report["reasons"], json!(["configmaps=999999999 has not been seen yet"]));
    assert_eq!(report["not_seen"], json!(["configmaps=999999999"]));
    assert_eq!(report["unseen_writes"], 0);
    let none = json!({"ready": 0, "processing": 0, "delayed": 0, "parked": 0});
    assert_eq!(report["queues"]["garbage_collector_attempt_to_delete"], none);
    stage.collector.stop().await.unwrap();
}
