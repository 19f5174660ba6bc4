//! What the container runtime says.

use std::borrow::Cow;

use crate::Timestamp;

/// How much of a list is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    #[default]
    Whole,
    /// Only a part, because the runtime could not send the whole list (rule B1). What is missing
    /// may exist nevertheless.
    Slice,
}

/// Everything that the runtime says about itself at one time.
#[derive(Clone, Debug, Default)]
pub struct RuntimeView {
    /// The containers, in any state.
    pub containers: Vec<Container>,
    /// Whether these are all containers.
    pub containers_extent: Extent,
    /// The pod sandboxes, in any state.
    pub sandboxes: Vec<Sandbox>,
    /// Whether these are all sandboxes.
    pub sandboxes_extent: Extent,
    /// The images.
    pub images: Vec<Image>,
    /// Whether these are all images.
    pub images_extent: Extent,
    /// The images that containers mount as volumes, by any name.
    pub image_volumes: Vec<String>,
    /// The image of sandboxes, by the runtime's verbose status.
    pub sandbox_image: Option<String>,
}

/// The state of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// Created, and not started yet.
    Created,
    /// Running.
    Running,
    /// Exited.
    Exited,
    /// The runtime does not know: it may be running.
    Unknown,
}

/// A container.
#[derive(Clone, Debug)]
pub struct Container {
    /// The runtime's id.
    pub id: String,
    /// The id of its sandbox.
    pub sandbox_id: String,
    /// The name in the pod, by the runtime's metadata.
    pub name: String,
    /// The label `io.kubernetes.pod.uid`; empty if there is none.
    pub pod_uid: String,
    /// The label `io.kubernetes.pod.namespace`.
    pub pod_namespace: String,
    /// The label `io.kubernetes.pod.name`.
    pub pod_name: String,
    /// How often the kubelet had created it before.
    pub attempt: u32,
    /// The state.
    pub state: ContainerState,
    /// When it was created.
    pub created_at: Timestamp,
    /// The names by which the runtime refers to its image: the image of its spec, the reference
    /// and the id.
    pub image_refs: Vec<String>,
    /// The path of its log. Lists do not contain it, so it is only known after a look at the
    /// container's status.
    pub log_path: Option<String>,
    /// The size of its writable layer.
    pub layer_bytes: Option<u64>,
}

/// The state of a pod sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxState {
    /// Ready: its network and namespaces are there.
    Ready,
    /// Not ready.
    NotReady,
}

/// A pod sandbox.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// The runtime's id.
    pub id: String,
    /// The uid of its pod, by the runtime's metadata.
    pub uid: String,
    /// The namespace of its pod.
    pub namespace: String,
    /// The name of its pod.
    pub name: String,
    /// How often the kubelet had created it before.
    pub attempt: u32,
    /// The state.
    pub state: SandboxState,
    /// When it was created.
    pub created_at: Timestamp,
    /// The annotation `kubernetes.io/config.source`: `api`, or `file` or `http` for static pods.
    pub config_source: Option<String>,
}

impl Sandbox {
    /// Whether the kubelet made it for a pod that the API server does not own.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.config_source.as_deref().is_some_and(|source| source != "api")
    }
}

/// An image.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// The runtime's id.
    pub id: String,
    /// Names with tags.
    pub repo_tags: Vec<String>,
    /// Names with digests. An image that was built or imported on the node has none.
    pub repo_digests: Vec<String>,
    /// The size. Layers that images share count for each of them.
    pub bytes: u64,
    /// Whether the runtime asks not to remove it.
    pub pinned: bool,
    /// The runtime handler that it was pulled for, if the runtime tells.
    pub runtime_handler: Option<String>,
}

impl Image {
    /// By what the ledger knows it: the id, and the runtime handler if there is one.
    #[must_use]
    pub fn key(&self) -> Cow<'_, str> {
        match &self.runtime_handler {
            Some(handler) if !handler.is_empty() => format!("{},{handler}", self.id).into(),
            _ => self.id.as_str().into(),
        }
    }

    /// Its names with tags and digests, without the runtime's placeholders.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.repo_tags.iter().chain(&self.repo_digests).map(String::as_str).filter(|name| is_name(name))
    }

    /// Whether it can be pulled again: some registry has it under a digest.
    #[must_use]
    pub fn has_repo_digest(&self) -> bool {
        self.repo_digests.iter().any(|name| is_name(name))
    }
}

/// Runtimes write `<none>` where an image has lost a name.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with("<none>")
}
