//! What a container runtime says, as the plain data that the rules take.
//!
//! Nothing is judged here. A value that this program does not know becomes the one with which an
//! item stays: a state that is newer than this program counts as running.

use kube_gc_cri::messages::{self, *};
use kube_gc_node::view::{Extent, SandboxState};
use kube_gc_node::{Timestamp, view};

/// Whether a list has everything.
pub const fn extent(is_whole: bool) -> Extent {
    if is_whole { Extent::Whole } else { Extent::Slice }
}

/// A container of a list.
pub fn container(listed: Container) -> view::Container {
    let Container { id, pod_sandbox_id, metadata, image, image_ref, image_id, mut labels, .. } = listed;
    let ContainerMetadata { name, attempt } = metadata.unwrap_or_default();
    view::Container {
        id,
        sandbox_id: pod_sandbox_id,
        name,
        pod_uid: labels.remove(POD_UID).unwrap_or_default(),
        pod_namespace: labels.remove(POD_NAMESPACE).unwrap_or_default(),
        pod_name: labels.remove(POD_NAME).unwrap_or_default(),
        attempt,
        state: container_state(listed.state),
        created_at: Timestamp::from_nanos(listed.created_at),
        image_refs: names(image, [image_ref, image_id]),
        log_path: None,
        layer_bytes: None,
    }
}

/// A container by its status, which has the path of its log and lacks its sandbox.
pub fn container_status(status: ContainerStatus) -> view::Container {
    let listed = Container {
        id: status.id,
        metadata: status.metadata,
        image: status.image,
        image_ref: status.image_ref,
        image_id: status.image_id,
        state: status.state,
        created_at: status.created_at,
        labels: status.labels,
        ..Container::default()
    };
    view::Container { log_path: Some(status.log_path), ..container(listed) }
}

/// The images that a container mounts as volumes, by all names that its status has for them.
pub fn image_volumes(status: &ContainerStatus) -> Vec<String> {
    let images = status.mounts.iter().filter_map(|mount| mount.image.as_ref());
    images.flat_map(|image| names(Some(image.clone()), [image.image_ref.clone()])).collect()
}

/// An image of a list.
pub fn image(listed: Image) -> view::Image {
    let Image { id, repo_tags, repo_digests, size: bytes, spec, pinned, .. } = listed;
    let runtime_handler = spec.map(|spec| spec.runtime_handler).filter(|handler| !handler.is_empty());
    view::Image { id, repo_tags, repo_digests, bytes, pinned, runtime_handler, labels: None }
}

/// An image by its id, as calls name it.
pub fn image_spec(id: &str, runtime_handler: Option<&str>) -> ImageSpec {
    let runtime_handler = runtime_handler.unwrap_or_default().to_owned();
    ImageSpec { image: id.to_owned(), runtime_handler, ..ImageSpec::default() }
}

/// A sandbox of a list.
pub fn sandbox(mut listed: PodSandbox) -> view::Sandbox {
    let PodSandboxMetadata { name, uid, namespace, attempt } = listed.metadata.unwrap_or_default();
    // What a runtime newer than this program says counts as ready.
    let state = match PodSandboxState::try_from(listed.state) {
        Ok(PodSandboxState::SandboxNotready) => SandboxState::NotReady,
        Ok(PodSandboxState::SandboxReady) | Err(_) => SandboxState::Ready,
    };
    view::Sandbox {
        id: listed.id,
        uid,
        namespace,
        name,
        attempt,
        state,
        created_at: Timestamp::from_nanos(listed.created_at),
        config_source: listed.annotations.remove(CONFIG_SOURCE),
    }
}

/// A sandbox by its status.
pub fn sandbox_status(status: PodSandboxStatus) -> view::Sandbox {
    let PodSandboxStatus { id, metadata, state, created_at, annotations, .. } = status;
    sandbox(PodSandbox { id, metadata, state, created_at, annotations, ..PodSandbox::default() })
}

/// What a runtime newer than this program says counts as running, so that nothing touches it.
fn container_state(state: i32) -> view::ContainerState {
    use messages::ContainerState as Cri;
    use view::ContainerState;
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
        if !name.is_empty() && !names.contains(&name) {
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
        assert_eq!(container_state(2), view::ContainerState::Exited);
        assert_eq!(container_state(3), view::ContainerState::Unknown);
        for unheard_of in [4, 100, -1, i32::MIN] {
            assert_eq!(container_state(unheard_of), view::ContainerState::Running);
        }
    }

    #[test]
    fn an_image_is_known_by_all_names_that_the_runtime_gives() {
        let listed = Container {
            image: Some(ImageSpec { image: "app:1".into(), ..ImageSpec::default() }),
            image_ref: "sha256:a".into(),
            image_id: "sha256:a".into(),
            ..Container::default()
        };
        assert_eq!(container(listed).image_refs, ["app:1", "sha256:a"]);
        assert_eq!(container(Container::default()).image_refs, [""; 0]);
    }

    #[test]
    fn a_sandbox_in_an_unknown_state_counts_as_ready() {
        let state = |state| sandbox(PodSandbox { state, ..PodSandbox::default() }).state;
        assert_eq!(state(1), SandboxState::NotReady);
        for ready in [0, 2, -1] {
            assert_eq!(state(ready), SandboxState::Ready);
        }
    }

    #[test]
    fn a_sandbox_of_a_static_pod_is_told_by_its_annotation() {
        let annotations = [(CONFIG_SOURCE.to_owned(), "file".to_owned())].into();
        assert!(sandbox(PodSandbox { annotations, ..PodSandbox::default() }).is_static());
        assert!(!sandbox(PodSandbox::default()).is_static());
    }
}
