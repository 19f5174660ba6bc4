//! What there is on a node, as plain data.
//!
//! Whoever fills these in does not judge: text is passed on as it came, however odd it is.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Serialize;

use crate::Timestamp;
use crate::pressure::Usage;
use crate::rule::escaped;
use crate::rules::Label;

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
    /// The images that sandboxes and containers of other clients of the runtime use, by any name. Lists over CRI lack
    /// them.
    pub foreign_images: Vec<String>,
    /// The image of sandboxes.
    pub sandbox_image: SandboxImage,
}

/// The image of sandboxes, by the runtime's verbose status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SandboxImage {
    /// The runtime names none.
    #[default]
    None,
    /// By one of its names.
    Named(String),
    /// The runtime could not be asked, so it may be any.
    Unknown,
}

/// The state of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
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

impl Container {
    /// Its name for people: `NAMESPACE/POD/CONTAINER`, or the id without one of them.
    pub(crate) fn label(&self) -> String {
        label([&self.pod_namespace, &self.pod_name, &self.name], &self.id)
    }
}

/// The parts of a name, or an id without one of them.
pub(crate) fn label<const N: usize>(parts: [&String; N], id: &str) -> String {
    match parts.iter().any(|part| part.is_empty()) {
        true => escaped(id),
        false => parts.map(|part| escaped(part)).join("/"),
    }
}

/// The state of a pod sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
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
    /// Those of [`crate::Rules::labels`] that it has; nothing if its labels are not known.
    pub labels: Option<Vec<Label>>,
}

impl Image {
    /// By what the ledger knows it.
    pub fn key(&self) -> Cow<'_, str> {
        image_key(&self.id, self.runtime_handler.as_deref())
    }

    /// Its names with tags and digests, without the runtime's placeholders.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tags().chain(self.repo_digests.iter().map(String::as_str).filter(|name| is_name(name)))
    }

    /// Its names with tags.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.repo_tags.iter().map(String::as_str).filter(|name| is_name(name))
    }

    /// Whether it can be pulled again: some registry has it under a digest.
    pub fn has_repo_digest(&self) -> bool {
        self.repo_digests.iter().any(|name| is_name(name))
    }
}

/// By what the ledger knows an image: the id, and the runtime handler if there is one.
pub(crate) fn image_key<'a>(id: &'a str, runtime_handler: Option<&str>) -> Cow<'a, str> {
    match runtime_handler {
        Some(handler) if !handler.is_empty() => format!("{id},{handler}").into(),
        _ => id.into(),
    }
}

/// Runtimes write `<none>` where an image has lost a name.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with("<none>")
}

/// The ids that occur more than once.
pub(crate) fn duplicates<'a>(ids: impl Iterator<Item = &'a str>) -> HashSet<&'a str> {
    let mut seen = HashSet::new();
    ids.filter(|id| !seen.insert(*id)).collect()
}

/// The pods of this node.
#[derive(Clone, Debug, Default)]
pub enum PodView {
    /// There is no API server (`pods = "none"`): no pod is ever gone.
    #[default]
    None,
    /// There is one, but it does not tell all pods now: no pod is gone.
    Unavailable {
        /// Why not, for people.
        why: String,
        /// The pods that were known last, which hold their images (B2); nothing if none was ever read.
        known: Option<Vec<Pod>>,
    },
    /// All pods that are bound to this node.
    Listed(Listed),
}

impl PodView {
    /// The pods that are known.
    pub fn pods(&self) -> &[Pod] {
        match self {
            Self::Listed(Listed { pods, .. }) | Self::Unavailable { known: Some(pods), .. } => pods,
            Self::None | Self::Unavailable { known: None, .. } => &[],
        }
    }
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
    /// 403. The Node authorizer says that of pods that do not exist.
    Forbidden,
    /// No answer, or one that says nothing.
    Failed,
}

/// A pod, as the runtime and the log directories name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct PodRef {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub name: String,
    /// The uid of the pod; that of a static pod is a hash.
    pub uid: String,
}

impl PodRef {
    /// A pod by its three parts.
    pub fn new(namespace: &str, name: &str, uid: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned(), uid: uid.to_owned() }
    }

    /// Whether the API server could have such a pod.
    pub fn is_plausible(&self) -> bool {
        is_label(&self.namespace) && is_subdomain(&self.name) && is_uid(&self.uid)
    }
}

/// Whether this can be a pod's uid: short, and of letters, digits, hyphens and dots.
pub fn is_uid(text: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    (1..=128).contains(&text.len())
        && text.bytes().all(fine)
        && text.bytes().any(|byte| byte.is_ascii_alphanumeric())
}

/// Whether this has the form of the uids that the API server gives: 8-4-4-4-12 hexadecimal digits.
/// Uids of static pods are hashes without hyphens.
pub fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether this is a valid name of a namespace.
fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_part(text)
}

/// Whether this is a valid name of a pod.
fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// The log directories, the symlinks to logs, and how full the image file system is.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The entries of `/var/log/pods`.
    pub log_directories: Vec<LogDirectory>,
    /// The entries of `/var/log/containers`.
    pub log_symlinks: Vec<LogSymlink>,
    /// How full the file system of the images is; nothing if it could not be measured.
    pub image_usage: Option<Usage>,
    /// Where the layers of containers are.
    pub container_disk: ContainerDisk,
}

/// The file system of the containers' writable layers (KEP-4191: `container_filesystems` of `ImageFsInfo`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContainerDisk {
    /// That of the images.
    #[default]
    OfImages,
    /// Another one, and how full it is; nothing if it could not be measured.
    Own(Option<Usage>),
}

impl Files {
    /// How full the file system of the containers' layers is.
    pub const fn container_usage(&self) -> Option<&Usage> {
        match &self.container_disk {
            ContainerDisk::OfImages => self.image_usage.as_ref(),
            ContainerDisk::Own(usage) => usage.as_ref(),
        }
    }
}

/// An entry of the directory of the pods' logs.
#[derive(Clone, Debug)]
pub struct LogDirectory {
    /// The name in that directory: `NAMESPACE_NAME_UID`, or `UID` by old kubelets.
    pub name: String,
    /// Whether it is a directory; a symlink to one is none.
    pub is_directory: bool,
    /// The size of what is in it.
    pub bytes: u64,
    /// When something was last created or removed directly in it.
    pub modified: Timestamp,
}

/// An entry of the directory of symlinks to the containers' logs.
#[derive(Clone, Debug)]
pub struct LogSymlink {
    /// The name in that directory: `POD_NAMESPACE_CONTAINER-ID.log`.
    pub name: String,
    /// Where it leads.
    pub state: SymlinkState,
    /// What the symlink says; empty for other files.
    pub target: String,
}

/// Where a symlink leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymlinkState {
    /// To a file.
    Leads,
    /// Nowhere: there is no such file.
    Dangling,
    /// It is not known: the symlink could not be followed.
    Unknown,
    /// It is no symlink.
    NotASymlink,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_api_server_accepts_is_plausible() {
        let uid = "0b7b9c1e-3a52-4a44-9d8e-0d5b1a3a8f10";
        assert!(PodRef::new("default", "web-0", uid).is_plausible());
        assert!(PodRef::new("kube-system", "kube-apiserver-a.example", "0123456789abcdef").is_plausible());
        for (namespace, name, uid) in [
            ("", "web-0", uid),
            ("default", "", uid),
            ("default", "web-0", ""),
            ("Default", "web-0", uid),
            ("default", "../../x", uid),
            ("default", "web_0", uid),
            ("default", "web-0", "a/b"),
            ("default", "web-0", ".."),
            ("default", "a..b", uid),
            (&"a".repeat(64), "web-0", uid),
        ] {
            assert!(!PodRef::new(namespace, name, uid).is_plausible(), "{namespace}/{name}/{uid}");
        }
        assert!(!is_uid(&"a".repeat(129)));
    }

    #[test]
    fn uids_of_the_api_server_have_hyphens() {
        assert!(is_uuid("0b7b9c1e-3a52-4a44-9d8e-0d5b1a3a8f10"));
        assert!(!is_uuid("0123456789abcdef0123456789abcdef"));
        assert!(!is_uuid("0b7b9c1e-3a52-4a44-9d8e-0d5b1a3a8f1z"));
    }
}
