//! The API server as kube-gc sees it: it has the pods of a world, and answers what node collection
//! asks.

use kube_gc_apiserver::ApiServer;
use kube_gc_apiserver::object::Key;
use kube_gc_apiserver::resources::ResourceName;
use kube_gc_apiserver::store::Cause;
use kube_gc_client::{Api, ApiSettings, WriteGate};
use serde_json::{Value, json};

use super::pods::{Pod, PodState};

/// A client of a server with these pods.
pub fn client(pods: &[Pod]) -> Api {
    let server = ApiServer::new(kube_gc_apiserver::Settings::default());
    let resource = ResourceName::new("", "pods");
    server.with(|server| {
        for pod in pods.iter().filter(|pod| pod.state != PodState::Absent) {
            let key = Key::new(Some(&pod.namespace), &pod.name);
            server.store.write(&resource, &key, stored(pod), &Cause::server("test"));
        }
    });
    Api::from_clients(server.client(), ApiSettings::default(), WriteGate::dry_run())
}

/// What the server has of a pod, or under its name.
fn stored(pod: &Pod) -> Value {
    let mut object = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": { "namespace": pod.namespace, "name": pod.name, "uid": pod.uid },
        "spec": { "nodeName": "node-1", "containers": [] },
        "status": { "phase": "Running", "containerStatuses": [{ "name": "app", "state": { "running": {} } }] },
    });
    let terminated = json!([{ "name": "app", "state": { "terminated": { "exitCode": 0 } } }]);
    let ended = |phase: &str| json!({ "phase": phase, "containerStatuses": terminated });
    match pod.state {
        PodState::Running | PodState::Absent => {}
        PodState::Succeeded => object["status"] = ended("Succeeded"),
        PodState::Failed => object["status"] = ended("Failed"),
        PodState::Evicted => object["status"] = json!({ "phase": "Failed", "reason": "Evicted" }),
        PodState::Ending | PodState::Ended => {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            if pod.state == PodState::Ended {
                object["status"] = ended("Running");
            }
        }
        PodState::Replaced => {
            object["metadata"]["uid"] = json!("ffffffff-0000-4000-8000-000000000000");
            object["spec"]["nodeName"] = json!("node-2");
        }
        PodState::Static => {
            // Static pods have uids without dashes, which differ at their ends.
            let number = &pod.uid[pod.uid.len() - 4..];
            object["metadata"]["uid"] = json!(format!("eeeeeeee-{number}-4000-8000-000000000000"));
            object["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": pod.uid });
        }
    }
    object
}
