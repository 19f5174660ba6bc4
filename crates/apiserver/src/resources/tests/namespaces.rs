//! The stand-in for the namespace controller.

use serde_json::{Value, json};

use super::Stage;
use crate::server::Release;

const HOME: &str = "/api/v1/namespaces/home";

fn stage(release: Release) -> Stage {
    let mut stage = Stage::new(release);
    stage.settle();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "home"}});
    stage.create("/api/v1/namespaces", &namespace);
    stage
}

fn config_map(name: &str, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "finalizers": finalizers},
    })
}

#[test]
fn a_server_starts_with_its_namespaces() {
    let mut stage = Stage::new(Release::V1_36);
    for namespace in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        let (code, namespace) = stage.get(&format!("/api/v1/namespaces/{namespace}"));
        assert_eq!((code, &namespace["status"]["phase"]), (200, &json!("Active")));
    }
}

#[test]
fn a_deleted_namespace_is_emptied_and_removed() {
    for release in [Release::V1_20, Release::V1_36] {
        let mut stage = stage(release);
        stage.create(&format!("{HOME}/configmaps"), &config_map("free", &[]));
        stage.create(&format!("{HOME}/configmaps"), &config_map("held", &["example.com/held"]));
        // 1.20 cannot delete these as a collection.
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"ports": [{"port": 80}]},
        });
        stage.create(&format!("{HOME}/services"), &service);
        stage.create("/api/v1/namespaces/default/configmaps", &config_map("elsewhere", &[]));

        let (_, namespace) = stage.delete(HOME);
        assert_eq!(namespace["status"]["phase"], "Terminating");
        stage.settle();
        assert_eq!(stage.get(HOME).0, 200, "the namespace waits for objects with finalizers");
        assert_eq!(stage.get(&format!("{HOME}/configmaps/free")).0, 404);
        assert_eq!(stage.get(&format!("{HOME}/services/web")).0, 404);

        stage.patch(&format!("{HOME}/configmaps/held"), &json!({"metadata": {"finalizers": null}}));
        stage.settle();
        assert_eq!(stage.get(HOME).0, 404);
        assert_eq!(stage.get("/api/v1/namespaces/default/configmaps/elsewhere").0, 200);
    }
}

#[test]
fn a_namespace_is_kept_while_a_group_is_unavailable() {
    let mut stage = stage(Release::V1_36);
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.metrics.example"},
        "spec": {
            "group": "metrics.example", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
            "service": {"namespace": "default", "name": "none"},
        },
    });
    stage.create("/apis/apiregistration.k8s.io/v1/apiservices", &service);
    stage.settle();
    stage.create(&format!("{HOME}/configmaps"), &config_map("free", &[]));
    stage.delete(HOME);
    stage.settle();
    assert_eq!(stage.get(&format!("{HOME}/configmaps/free")).0, 404, "objects of known types are deleted");
    assert_eq!(stage.get(HOME).0, 200);
    stage.delete("/apis/apiregistration.k8s.io/v1/apiservices/v1.metrics.example");
    stage.settle();
    assert_eq!(stage.get(HOME).0, 404);
}

#[test]
fn without_the_stand_in_a_namespace_stays_terminating() {
    let mut stage = stage(Release::V1_20);
    stage.server.settings.namespace_controller = false;
    stage.create(&format!("{HOME}/configmaps"), &config_map("free", &[]));
    stage.delete(HOME);
    stage.settle();
    assert_eq!(stage.get(&format!("{HOME}/configmaps/free")).0, 200);
    assert_eq!(stage.get(HOME).1["spec"]["finalizers"], json!(["kubernetes"]));
}
