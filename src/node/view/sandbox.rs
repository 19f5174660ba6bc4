//! Pod sandboxes.

use kube_gc_cri::labels::{LabelKey, Labels};
use kube_gc_cri::messages::{PodSandbox, PodSandboxMetadata, PodSandboxState, PodSandboxStatus};
use kube_gc_node::Timestamp;
use kube_gc_node::view::{Sandbox, SandboxState};

/// A sandbox of a list.
#[must_use]
pub fn sandbox(listed: PodSandbox) -> Sandbox {
    let PodSandbox { id, metadata, state, created_at, annotations, .. } = listed;
    of(id, metadata, state, created_at, annotations)
}

/// A sandbox by its status.
#[must_use]
pub fn sandbox_status(status: PodSandboxStatus) -> Sandbox {
    let PodSandboxStatus { id, metadata, state, created_at, annotations, .. } = status;
    of(id, metadata, state, created_at, annotations)
}

fn of(
    id: String,
    metadata: Option<PodSandboxMetadata>,
    state: i32,
    created_at: i64,
    annotations: Labels,
) -> Sandbox {
    let PodSandboxMetadata { name, uid, namespace, attempt } = metadata.unwrap_or_default();
    // What a runtime newer than this program says counts as ready.
    let state = match PodSandboxState::try_from(state) {
        Ok(PodSandboxState::SandboxNotready) => SandboxState::NotReady,
        Ok(PodSandboxState::SandboxReady) | Err(_) => SandboxState::Ready,
    };
    Sandbox {
        id,
        uid,
        namespace,
        name,
        attempt,
        state,
        created_at: Timestamp::from_nanos(created_at),
        config_source: annotations
            .into_iter()
            .rfind(|annotation| annotation.key == LabelKey::ConfigSource)
            .map(|annotation| annotation.value),
    }
}

#[cfg(test)]
mod tests {
    use kube_gc_cri::labels::Label;

    use super::*;

    #[test]
    fn a_sandbox_in_an_unknown_state_counts_as_ready() {
        let state = |state| sandbox(PodSandbox { state, ..PodSandbox::default() }).state;
        assert_eq!(state(1), SandboxState::NotReady);
        assert_eq!(
            (state(0), state(2), state(-1)),
            (SandboxState::Ready, SandboxState::Ready, SandboxState::Ready)
        );
    }

    #[test]
    fn a_sandbox_of_a_static_pod_is_told_by_its_annotation() {
        let annotations =
            [Label { key: LabelKey::ConfigSource, value: "file".to_owned() }].into_iter().collect();
        assert!(sandbox(PodSandbox { annotations, ..PodSandbox::default() }).is_static());
        assert!(!sandbox(PodSandbox::default()).is_static());
    }
}
