//! Updates that create objects.

use serde_json::json;

use super::{ask, send};
use crate::request::Step;

/// Types of which an update may create objects, with impossible versions and uids.
pub(super) fn creations() -> Vec<Step> {
    let mut steps = Vec::new();
    for (plural, api_version, kind, root) in [
        ("endpoints", "v1", "Endpoints", "/api/v1"),
        ("leases", "coordination.k8s.io/v1", "Lease", "/apis/coordination.k8s.io/v1"),
    ] {
        let path = format!("{root}/namespaces/<run>/{plural}");
        let metadata = [
            json!({"resourceVersion": "5"}),
            json!({"resourceVersion": "0"}),
            json!({"resourceVersion": "abc"}),
            json!({"uid": "abc"}),
            json!({"uid": "abc", "resourceVersion": "5"}),
            json!({"generateName": "x-"}),
            json!({"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 7}),
            json!({}),
        ];
        for (number, mut metadata) in metadata.into_iter().enumerate() {
            let name = format!("c{number}");
            metadata["name"] = json!(name);
            let body = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
            let one = format!("{path}/{name}");
            steps.push(send("PUT", one.clone() + "?dryRun=All", body.clone()));
            steps.push(send("PUT", one.clone(), body.clone()));
            steps.push(send("PUT", one.clone(), body));
            steps.push(ask("GET", one));
        }
    }
    steps
}
