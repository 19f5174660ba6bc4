//! The lean decoder: only what the rules need of a pod is read.

use std::collections::BTreeMap;

use serde::Deserialize;

use kube_gc_decode::or_default;
use kube_gc_node::PodRef;
use kube_gc_node::view::{Phase, Pod};

/// The annotation of a mirror pod: the uid of the static pod that it mirrors.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A list of pods. Only what is used is read.
#[derive(Deserialize)]
pub(super) struct List {
    #[serde(default, deserialize_with = "or_default")]
    pub kind: String,
    #[serde(default)]
    pub metadata: ListMeta,
    #[serde(deserialize_with = "or_default", default)]
    pub items: Vec<Object>,
}

#[derive(Default, Deserialize)]
pub(super) struct ListMeta {
    #[serde(rename = "continue", default, deserialize_with = "or_default")]
    pub next: String,
    #[serde(rename = "resourceVersion", default, deserialize_with = "or_default")]
    pub resource_version: String,
}

#[derive(Deserialize)]
pub(super) struct Object {
    pub metadata: Metadata,
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    #[serde(default, deserialize_with = "or_default")]
    pub namespace: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub uid: String,
    #[serde(default, deserialize_with = "or_default")]
    pub resource_version: String,
    #[serde(default)]
    deletion_timestamp: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "or_default")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    ephemeral_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    volumes: Vec<Volume>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Container {
    #[serde(deserialize_with = "or_default")]
    image: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Volume {
    image: Option<ImageVolume>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ImageVolume {
    #[serde(deserialize_with = "or_default")]
    reference: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    #[serde(deserialize_with = "or_default")]
    phase: String,
    #[serde(deserialize_with = "or_default")]
    reason: String,
    #[serde(deserialize_with = "or_default")]
    container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    ephemeral_container_statuses: Vec<ContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    #[serde(deserialize_with = "or_default")]
    state: State,
}

/// Which of the states is there; what they contain is not read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    terminated: Option<serde::de::IgnoredAny>,
    waiting: Option<serde::de::IgnoredAny>,
}

impl Object {
    pub fn mirror_of(&self) -> Option<String> {
        self.metadata.annotations.get(MIRROR).cloned()
    }

    pub fn into_pod(self) -> Pod {
        let mirror_of = self.mirror_of();
        let Self { metadata, spec, status } = self;
        let statuses = status
            .container_statuses
            .iter()
            .chain(&status.init_container_statuses)
            .chain(&status.ephemeral_container_statuses);
        let runs =
            |status: &ContainerStatus| status.state.terminated.is_none() && status.state.waiting.is_none();
        let containers_running = statuses.into_iter().any(runs);
        // A pod has a container at least. Without one, this is not all of its spec.
        let without_image_volumes =
            !spec.containers.is_empty() && spec.volumes.iter().all(|volume| volume.image.is_none());
        let containers =
            spec.containers.into_iter().chain(spec.init_containers).chain(spec.ephemeral_containers);
        let volumes = spec.volumes.into_iter().filter_map(|volume| volume.image);
        let images = containers
            .map(|container| container.image)
            .chain(volumes.map(|volume| volume.reference))
            .filter(|image| !image.is_empty());
        Pod {
            pod: PodRef { namespace: metadata.namespace, name: metadata.name, uid: metadata.uid },
            phase: match status.phase.as_str() {
                "Pending" | "" => Phase::Pending,
                "Running" => Phase::Running,
                "Succeeded" => Phase::Succeeded,
                "Failed" => Phase::Failed,
                _ => Phase::Unknown,
            },
            evicted: status.reason == "Evicted",
            deleting: metadata.deletion_timestamp.is_some(),
            containers_running,
            images: images.collect(),
            without_image_volumes,
            mirror_of,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value::<Object>(value).unwrap().into_pod()
    }

    #[test]
    fn what_the_rules_need_of_a_pod_is_read() {
        let read = pod(json!({
            "metadata": {
                "namespace": "default", "name": "web", "uid": "u", "deletionTimestamp": "2024-01-01T00:00:00Z",
                "annotations": { "kubernetes.io/config.mirror": "static" },
            },
            "spec": {
                "containers": [{ "name": "web", "image": "web:1" }],
                "initContainers": [{ "name": "init", "image": "init:1" }],
                "ephemeralContainers": [{ "name": "debug", "image": "debug:1" }],
                "volumes": [{ "name": "v", "image": { "reference": "volume:1" } }, { "name": "w", "emptyDir": {} }],
            },
            "status": {
                "phase": "Failed", "reason": "Evicted",
                "containerStatuses": [{ "state": { "terminated": { "exitCode": 1 } } }],
                "initContainerStatuses": [{ "state": { "waiting": {} } }],
                "ephemeralContainerStatuses": [{ "state": { "running": { "startedAt": null } } }],
            },
        }));
        assert_eq!(read.pod, PodRef::new("default", "web", "u"));
        assert_eq!(read.images, ["web:1", "init:1", "debug:1", "volume:1"]);
        assert_eq!((read.phase, read.evicted, read.deleting), (Phase::Failed, true, true));
        assert!(read.containers_running);
        assert_eq!(read.mirror_of.as_deref(), Some("static"));
        assert!(!read.without_image_volumes);
    }

    #[test]
    fn a_container_without_a_state_counts_as_running_and_an_ended_one_does_not() {
        let with = |state: serde_json::Value| {
            pod(json!({ "metadata": {}, "status": { "containerStatuses": [{ "state": state }] } }))
                .containers_running
        };
        assert!(with(json!({})) && with(json!(null)));
        assert!(!with(json!({ "terminated": { "exitCode": 0 } })));
    }

    #[test]
    fn only_a_whole_spec_says_that_there_is_no_image_volume() {
        let with =
            |spec: serde_json::Value| pod(json!({ "metadata": {}, "spec": spec })).without_image_volumes;
        assert!(with(json!({ "containers": [{ "image": "web:1" }], "volumes": [{ "emptyDir": {} }] })));
        assert!(with(json!({ "containers": [{ "image": "web:1" }] })));
        assert!(!with(json!({ "containers": [{ "image": "web:1" }], "volumes": [{ "image": {} }] })));
        assert!(!with(json!({ "containers": [] })) && !with(json!(null)));
    }

    #[test]
    fn nulls_and_missing_fields_are_read_as_nothing() {
        let read = pod(json!({
            "metadata": { "namespace": null, "annotations": null },
            "spec": { "containers": null, "volumes": null },
            "status": null,
        }));
        assert_eq!((read.phase, read.images.len(), read.containers_running), (Phase::Pending, 0, false));
        assert_eq!(pod(json!({ "metadata": {}, "status": { "phase": "New" } })).phase, Phase::Unknown);
    }
}
