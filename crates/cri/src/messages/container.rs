//! Containers: lists, states, stop and removal.

use std::collections::BTreeMap;

use super::ImageSpec;
use crate::labels::Labels;

/// What a container does, according to the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ContainerState {
    /// Created and not started yet.
    ContainerCreated = 0,
    /// Running.
    ContainerRunning = 1,
    /// Ended.
    ContainerExited = 2,
    /// The runtime cannot tell: it lost track of the container, for example in a crash.
    ContainerUnknown = 3,
}

impl ContainerState {
    /// All states, so that a container only moves on to later ones. Lists of one state after the other
    /// in this order miss no container that moves on in the meantime.
    pub const ALL: [Self; 4] =
        [Self::ContainerCreated, Self::ContainerRunning, Self::ContainerUnknown, Self::ContainerExited];
}

/// A container's name within its sandbox.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerMetadata {
    /// The name in the pod's specification.
    #[prost(string, tag = "1")]
    pub name: String,
    /// How often the container was created before.
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
}

/// Selects containers by state; a message of its own, because 0 is a state, too.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ContainerStateValue {
    /// The state.
    #[prost(enumeration = "ContainerState", tag = "1")]
    pub state: i32,
}

/// Selects the containers that fulfil all that is set.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerFilter {
    /// One container.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The containers in one state.
    #[prost(message, optional, tag = "2")]
    pub state: Option<ContainerStateValue>,
    /// The containers of one sandbox.
    #[prost(string, tag = "3")]
    pub pod_sandbox_id: String,
    /// The containers with these labels.
    #[prost(btree_map = "string, string", tag = "4")]
    pub label_selector: BTreeMap<String, String>,
}

/// Asks for a list of containers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListContainersRequest {
    /// Which containers; all of them without a filter.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<ContainerFilter>,
}

/// A container, as it appears in a list.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Container {
    /// What the other calls name the container by.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The sandbox that the container belongs to.
    #[prost(string, tag = "2")]
    pub pod_sandbox_id: String,
    /// The container's name and attempt.
    #[prost(message, optional, tag = "3")]
    pub metadata: Option<ContainerMetadata>,
    /// The image as the container's creator named it.
    #[prost(message, optional, tag = "4")]
    pub image: Option<ImageSpec>,
    /// The image in use: its id, or, with some runtimes, its digest.
    #[prost(string, tag = "5")]
    pub image_ref: String,
    /// The state; [`Container::state`] reads it.
    #[prost(enumeration = "ContainerState", tag = "6")]
    pub state: i32,
    /// When the container was created, in nanoseconds since 1970.
    #[prost(int64, tag = "7")]
    pub created_at: i64,
    /// The labels, among them those by which the kubelet names the pod.
    #[prost(message, repeated, tag = "8")]
    pub labels: Labels,
    /// The id of the image in use. Runtimes before Kubernetes 1.30 leave it empty.
    #[prost(string, tag = "10")]
    pub image_id: String,
}

/// A list of containers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListContainersResponse {
    /// The containers.
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<Container>,
}

/// Asks for a list of containers in parts.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StreamContainersRequest {
    /// Which containers; all of them without a filter.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<ContainerFilter>,
}

/// One part of a list of containers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StreamContainersResponse {
    /// The containers of this part.
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<Container>,
}

/// Asks for one container's status.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerStatusRequest {
    /// Which container.
    #[prost(string, tag = "1")]
    pub container_id: String,
}

/// What a container has mounted.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Mount {
    /// Where the container sees it.
    #[prost(string, tag = "1")]
    pub container_path: String,
    /// The path on the host; empty for an image volume.
    #[prost(string, tag = "2")]
    pub host_path: String,
    /// The image of an image volume, which the container uses as much as its own.
    #[prost(message, optional, tag = "9")]
    pub image: Option<ImageSpec>,
}

/// One container's status: more than a list has.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerStatus {
    /// The container.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The container's name and attempt.
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<ContainerMetadata>,
    /// The state.
    #[prost(enumeration = "ContainerState", tag = "3")]
    pub state: i32,
    /// When the container was created, in nanoseconds since 1970.
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    /// When the container was started; 0 before.
    #[prost(int64, tag = "5")]
    pub started_at: i64,
    /// When the container ended; 0 before.
    #[prost(int64, tag = "6")]
    pub finished_at: i64,
    /// What the container ended with.
    #[prost(int32, tag = "7")]
    pub exit_code: i32,
    /// The image, by a name for people.
    #[prost(message, optional, tag = "8")]
    pub image: Option<ImageSpec>,
    /// The image in use, often by its digest.
    #[prost(string, tag = "9")]
    pub image_ref: String,
    /// Why the container is in its state, in one word.
    #[prost(string, tag = "10")]
    pub reason: String,
    /// The labels, among them those by which the kubelet names the pod.
    #[prost(message, repeated, tag = "12")]
    pub labels: Labels,
    /// What is mounted, image volumes among it.
    #[prost(message, repeated, tag = "14")]
    pub mounts: Vec<Mount>,
    /// The path of the container's log on the host.
    #[prost(string, tag = "15")]
    pub log_path: String,
}

/// One container's status.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerStatusResponse {
    /// The status.
    #[prost(message, optional, tag = "1")]
    pub status: Option<ContainerStatus>,
}

/// Stops a container. The runtime answers after the container has ended.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StopContainerRequest {
    /// Which container.
    #[prost(string, tag = "1")]
    pub container_id: String,
    /// For how many seconds the runtime waits before it kills the container.
    #[prost(int64, tag = "2")]
    pub timeout: i64,
}

/// The container is stopped.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StopContainerResponse {}

/// Removes a container. **The runtime kills one that runs**: whoever asks looks first.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RemoveContainerRequest {
    /// Which container.
    #[prost(string, tag = "1")]
    pub container_id: String,
}

/// The container is gone, or was before.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RemoveContainerResponse {}
