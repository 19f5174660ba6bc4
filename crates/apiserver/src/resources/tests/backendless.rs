//! APIServices without a backend.

use serde_json::{Value, json};

use super::Stage;
use crate::server::Release;

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[test]
fn a_group_without_a_backend_is_listed_and_unavailable() {
    let mut stage = Stage::new(Release::V1_36);
    stage.settle();
    stage.create(
        SERVICES,
        &json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1.metrics.example"},
            "spec": {
                "group": "metrics.example", "version": "v1",
                "groupPriorityMinimum": 10, "versionPriority": 10, "insecureSkipTLSVerify": true,
                "service": {"namespace": "default", "name": "none"},
            },
        }),
    );
    stage.settle();
    let (_, service) = stage.get(&format!("{SERVICES}/v1.metrics.example"));
    assert_eq!(service["status"]["conditions"][0]["reason"], "ServiceNotFound");
    let (_, groups) = stage.get("/apis");
    assert_eq!(groups["groups"].as_array().unwrap().last().unwrap()["name"], "metrics.example");
    assert_eq!(stage.get("/apis/metrics.example").0, 200);
    for path in ["/apis/metrics.example/v1", "/apis/metrics.example/v1/nodes"] {
        assert_eq!(stage.get(path), (503, json!("service unavailable\n")), "{path}");
    }
    let (_, groups) = stage.send("GET", "/apis", AGGREGATED, &Value::Null);
    let last = groups["items"].as_array().unwrap().last().unwrap();
    assert_eq!(last["versions"], json!([{"version": "v1", "freshness": "Stale"}]));

    stage.delete(&format!("{SERVICES}/v1.metrics.example"));
    stage.settle();
    assert_eq!(stage.get("/apis/metrics.example").0, 404);
}

#[test]
fn the_api_services_of_the_servers_own_groups_are_created_again() {
    let mut stage = Stage::new(Release::V1_36);
    stage.settle();
    let apps = format!("{SERVICES}/v1.apps");
    assert_eq!(
        stage.get(&apps).1["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"],
        "onstart"
    );
    assert_eq!(stage.get(&format!("{SERVICES}/v1.")).0, 200, "the APIService of the core group");
    stage.delete(&apps);
    assert_eq!(stage.get(&apps).0, 404);
    stage.settle();
    assert_eq!(stage.get(&apps).0, 200);
}
