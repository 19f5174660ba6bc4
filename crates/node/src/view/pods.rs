//! What the API server says about the pods of this node.

use crate::PodRef;

/// The pods of this node.
#[derive(Clone, Debug, Default)]
pub enum PodView {
    /// There is no API server (`pods = "none"`): no pod is ever gone.
    #[default]
    None,
    /// There is one, but it has not told all pods yet: no pod is gone for now.
    Unavailable {
        /// Why not, for people.
        why: String,
    },
    /// All pods that are bound to this node.
    Listed(Listed),
}

/// An answer of the API server.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// The pods with `spec.nodeName` of this node.
    pub pods: Vec<Pod>,
    /// Whether the list was consistent: not from a cache that may be behind.
    pub consistent: bool,
    /// What live GETs of missing pods have answered in this pass.
    pub proofs: Vec<Proof>,
}

/// A pod, as far as the rules need it.
#[derive(Clone, Debug, Default)]
pub struct Pod {
    /// Namespace, name and uid.
    pub pod: PodRef,
    /// `status.phase`.
    pub phase: Phase,
    /// Whether `status.reason` is `Evicted`.
    pub evicted: bool,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether a status says that a container runs: neither terminated nor waiting.
    pub containers_running: bool,
    /// The images of its spec: of containers, init containers, ephemeral containers and volumes.
    pub images: Vec<String>,
    /// Whether its spec certainly has no image as a volume. Volumes of a pod never change.
    pub without_image_volumes: bool,
    /// The uid of the static pod that it mirrors, by the annotation `kubernetes.io/config.mirror`.
    pub mirror_of: Option<String>,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Not all containers have started.
    #[default]
    Pending,
    /// Running.
    Running,
    /// All containers have ended well.
    Succeeded,
    /// All containers have ended, one of them badly.
    Failed,
    /// The API server does not know, or says something new.
    Unknown,
}

/// What a live GET by namespace and name has answered.
#[derive(Clone, Debug)]
pub struct Proof {
    /// Who was asked for, and the uid that is missing.
    pub pod: PodRef,
    /// The answer.
    pub answer: Answer,
}

/// The answer to a live GET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The API server's own 404 for this pod; no proxy's, and not one for its namespace or type.
    NotFound,
    /// A pod of this name with another uid.
    OtherUid {
        /// The static pod that it mirrors.
        mirror_of: Option<String>,
    },
    /// The very pod.
    SameUid,
    /// No answer, or one that says nothing.
    Failed,
}
