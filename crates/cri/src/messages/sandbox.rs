//! Sandboxes: what the containers of a pod share.

use std::collections::BTreeMap;

use crate::labels::Labels;

/// Whether a sandbox can run containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum PodSandboxState {
    /// The sandbox runs.
    SandboxReady = 0,
    /// The sandbox was stopped, or its state is unknown.
    SandboxNotready = 1,
}

/// The pod of a sandbox.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PodSandboxMetadata {
    /// The pod's name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The pod's uid.
    #[prost(string, tag = "2")]
    pub uid: String,
    /// The pod's namespace.
    #[prost(string, tag = "3")]
    pub namespace: String,
    /// How often the sandbox was created before.
    #[prost(uint32, tag = "4")]
    pub attempt: u32,
}

/// Selects sandboxes by state; a message of its own, because 0 is a state, too.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct PodSandboxStateValue {
    /// The state.
    #[prost(enumeration = "PodSandboxState", tag = "1")]
    pub state: i32,
}

/// Selects the sandboxes that fulfil all that is set.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PodSandboxFilter {
    /// One sandbox.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The sandboxes in one state.
    #[prost(message, optional, tag = "2")]
    pub state: Option<PodSandboxStateValue>,
    /// The sandboxes with these labels.
    #[prost(btree_map = "string, string", tag = "3")]
    pub label_selector: BTreeMap<String, String>,
}

/// Asks for a list of sandboxes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListPodSandboxRequest {
    /// Which sandboxes; all of them without a filter.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<PodSandboxFilter>,
}

/// A sandbox, as it appears in a list.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PodSandbox {
    /// What the other calls name the sandbox by.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The pod.
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<PodSandboxMetadata>,
    /// The state; [`PodSandbox::state`] reads it.
    #[prost(enumeration = "PodSandboxState", tag = "3")]
    pub state: i32,
    /// When the sandbox was created, in nanoseconds since 1970.
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    /// The labels, among them those by which the kubelet names the pod.
    #[prost(message, repeated, tag = "5")]
    pub labels: Labels,
    /// The annotations, among them the one that says where the pod comes from.
    #[prost(message, repeated, tag = "6")]
    pub annotations: Labels,
    /// Which of the runtime's handlers runs the sandbox; empty for the default one.
    #[prost(string, tag = "7")]
    pub runtime_handler: String,
}

/// A list of sandboxes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListPodSandboxResponse {
    /// The sandboxes.
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<PodSandbox>,
}

/// Asks for a list of sandboxes in parts.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StreamPodSandboxesRequest {
    /// Which sandboxes; all of them without a filter.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<PodSandboxFilter>,
}

/// One part of a list of sandboxes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StreamPodSandboxesResponse {
    /// The sandboxes of this part.
    #[prost(message, repeated, tag = "1")]
    pub pod_sandboxes: Vec<PodSandbox>,
}

/// Asks for one sandbox's status.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PodSandboxStatusRequest {
    /// Which sandbox.
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
}

/// One sandbox's status.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PodSandboxStatus {
    /// The sandbox.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The pod.
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<PodSandboxMetadata>,
    /// The state.
    #[prost(enumeration = "PodSandboxState", tag = "3")]
    pub state: i32,
    /// When the sandbox was created, in nanoseconds since 1970.
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    /// The labels, among them those by which the kubelet names the pod.
    #[prost(message, repeated, tag = "7")]
    pub labels: Labels,
    /// The annotations, among them the one that says where the pod comes from.
    #[prost(message, repeated, tag = "8")]
    pub annotations: Labels,
    /// Which of the runtime's handlers runs the sandbox; empty for the default one.
    #[prost(string, tag = "9")]
    pub runtime_handler: String,
}

/// One sandbox's status.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PodSandboxStatusResponse {
    /// The status.
    #[prost(message, optional, tag = "1")]
    pub status: Option<PodSandboxStatus>,
}

/// Stops a sandbox. **The runtime kills all containers in it.**
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StopPodSandboxRequest {
    /// Which sandbox.
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
}

/// The sandbox is stopped.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StopPodSandboxResponse {}

/// Removes a sandbox. **The runtime kills and removes all containers in it.**
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RemovePodSandboxRequest {
    /// Which sandbox.
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
}

/// The sandbox is gone, or was before.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RemovePodSandboxResponse {}
