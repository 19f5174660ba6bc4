//! Containers.

use kube_gc_cri::messages::{self, ContainerMetadata, ImageSpec};
use kube_gc_node::view::{Container, ContainerState};
use kube_gc_node::{Timestamp, is_same};

use super::PodLabels;

/// A container of a list.
#[must_use]
pub fn container(listed: messages::Container) -> Container {
    let messages::Container {
        id,
        pod_sandbox_id: sandbox_id,
        metadata,
        image,
        image_ref,
        state,
        created_at,
        labels,
        image_id,
    } = listed;
    let ContainerMetadata { name, attempt } = metadata.unwrap_or_default();
    let pod = PodLabels::of(labels);
    Container {
        id,
        sandbox_id,
        name,
        pod_uid: pod.uid,
        pod_namespace: pod.namespace,
        pod_name: pod.name,
        attempt,
        state: self::state(state),
        created_at: Timestamp::from_nanos(created_at),
        image_refs: names(image, [image_ref, image_id]),
        log_path: None,
        layer_bytes: None,
    }
}

/// A container by its status, which has the path of its log and lacks its sandbox.
#[must_use]
pub fn container_status(status: messages::ContainerStatus) -> Container {
    let messages::ContainerStatus {
        id, metadata, state, created_at, image, image_ref, labels, log_path, ..
    } = status;
    let ContainerMetadata { name, attempt } = metadata.unwrap_or_default();
    let pod = PodLabels::of(labels);
    Container {
        id,
        sandbox_id: String::new(),
        name,
        pod_uid: pod.uid,
        pod_namespace: pod.namespace,
        pod_name: pod.name,
        attempt,
        state: self::state(state),
        created_at: Timestamp::from_nanos(created_at),
        image_refs: names(image, [image_ref]),
        log_path: Some(log_path),
        layer_bytes: None,
    }
}

/// The images that a container mounts as volumes, by all names that its status has for them.
pub fn image_volumes(status: &messages::ContainerStatus) -> Vec<String> {
    let images = status.mounts.iter().filter_map(|mount| mount.image.as_ref());
    images.flat_map(|image| names(Some(image.clone()), [image.image_ref.clone()])).collect()
}

/// What a runtime newer than this program says counts as running, so that nothing touches it.
fn state(state: i32) -> ContainerState {
    use messages::ContainerState as Cri;
    match Cri::try_from(state) {
        Ok(Cri::ContainerCreated) => ContainerState::Created,
        Ok(Cri::ContainerExited) => ContainerState::Exited,
        Ok(Cri::ContainerUnknown) => ContainerState::Unknown,
        Ok(Cri::ContainerRunning) | Err(_) => ContainerState::Running,
    }
}

/// The names of an image, without empty ones and each once.
fn names<const N: usize>(image: Option<ImageSpec>, others: [String; N]) -> Vec<String> {
    let spec = image.map(|image| [image.image, image.user_specified_image]);
    let mut names: Vec<String> = Vec::new();
    for name in spec.into_iter().flatten().chain(others) {
        if !name.is_empty() && !names.iter().any(|other| is_same(other, &name)) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_is_newer_than_this_program_counts_as_running() {
        assert_eq!(state(2), ContainerState::Exited);
        assert_eq!(state(3), ContainerState::Unknown);
        for unheard_of in [4, 100, -1, i32::MIN] {
            assert_eq!(state(unheard_of), ContainerState::Running);
        }
    }

    #[test]
    fn an_image_is_known_by_all_names_that_the_runtime_gives() {
        let listed = messages::Container {
            image: Some(ImageSpec { image: "app:1".into(), ..ImageSpec::default() }),
            image_ref: "sha256:a".into(),
            image_id: "sha256:a".into(),
            ..messages::Container::default()
        };
        assert_eq!(container(listed).image_refs, ["app:1", "sha256:a"]);
        assert_eq!(container(messages::Container::default()).image_refs, [""; 0]);
    }
}
