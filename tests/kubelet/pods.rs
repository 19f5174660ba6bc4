//! Pods, as both collectors hear of them: kube-gc by what the API server says, the kubelet 1.20.2 by
//! its answers to `IsPodDeleted` and `IsPodTerminated`.

use kube_gc_node::testing::{Random, uid};

/// A pod, and how it stands.
#[derive(Clone, Debug)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub state: PodState,
}

/// How a pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    Running,
    Succeeded,
    Failed,
    Evicted,
    /// Being deleted, and a container runs, says its status.
    Ending,
    /// Being deleted, and none does.
    Ended,
    /// The API server has none of this name.
    Absent,
    /// The API server has another of this name.
    Replaced,
    /// A static pod that another one mirrors.
    Static,
}

impl PodState {
    /// Whether everything of the pod may go.
    pub fn is_gone(self) -> bool {
        matches!(self, Self::Evicted | Self::Ended | Self::Absent | Self::Replaced)
    }

    /// Whether the pod has terminated, and is not gone.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

    /// Whether the API server knows the pod.
    pub fn is_listed(self) -> bool {
        !matches!(self, Self::Absent | Self::Replaced)
    }
}

impl Pod {
    /// The pod with this number.
    pub fn random(random: &mut Random, number: u64) -> Self {
        use PodState::{Absent, Ended, Ending, Evicted, Failed, Replaced, Running, Static, Succeeded};
        let state = random.pick(&[
            Running, Running, Running, Succeeded, Failed, Evicted, Ending, Ended, Absent, Absent, Replaced,
            Static,
        ]);
        let namespace = random.pick(&["default", "kube-system"]).to_owned();
        let uid = match state {
            Static => format!("{number:032x}"),
            _ => uid(number),
        };
        Self { namespace, name: format!("pod-{number}"), uid, state }
    }
}

/// The uids of the pods that are not deleted to `IsPodDeleted` of 1.20.2: it has them, they were not
/// evicted, and they are not being deleted, or still run.
pub fn exist(pods: &[Pod]) -> Vec<String> {
    let exist = pods.iter().filter(|pod| !pod.state.is_gone());
    exist.map(|pod| pod.uid.clone()).collect()
}

/// The uids of those of them that have terminated to `IsPodTerminated`.
pub fn terminated(pods: &[Pod]) -> Vec<String> {
    let over = pods.iter().filter(|pod| pod.state.is_over());
    over.map(|pod| pod.uid.clone()).collect()
}
