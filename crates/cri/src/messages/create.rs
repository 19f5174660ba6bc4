//! Creating sandboxes and containers: what tests need to make something that can be removed.

use std::collections::BTreeMap;

use super::{ContainerMetadata, ImageSpec, Mount, PodSandboxMetadata};

/// Whose namespace a sandbox uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum NamespaceMode {
    /// One for the pod.
    Pod = 0,
    /// One for each container.
    Container = 1,
    /// The node's: with it, a sandbox needs no network plugin.
    Node = 2,
    /// That of another container.
    Target = 3,
}

/// The namespaces of a sandbox.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct NamespaceOption {
    /// The network.
    #[prost(enumeration = "NamespaceMode", tag = "1")]
    pub network: i32,
}

/// The isolation of a sandbox.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LinuxSandboxSecurityContext {
    /// The namespaces.
    #[prost(message, optional, tag = "1")]
    pub namespace_options: Option<NamespaceOption>,
}

/// A sandbox's settings for Linux.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LinuxPodSandboxConfig {
    /// The isolation.
    #[prost(message, optional, tag = "2")]
    pub security_context: Option<LinuxSandboxSecurityContext>,
}

/// A sandbox to create.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PodSandboxConfig {
    /// The pod.
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<PodSandboxMetadata>,
    /// The directory of the pod's logs.
    #[prost(string, tag = "3")]
    pub log_directory: String,
    /// The labels.
    #[prost(btree_map = "string, string", tag = "6")]
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    #[prost(btree_map = "string, string", tag = "7")]
    pub annotations: BTreeMap<String, String>,
    /// The settings for Linux.
    #[prost(message, optional, tag = "8")]
    pub linux: Option<LinuxPodSandboxConfig>,
}

/// Creates a sandbox and starts it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RunPodSandboxRequest {
    /// The sandbox.
    #[prost(message, optional, tag = "1")]
    pub config: Option<PodSandboxConfig>,
}

/// The sandbox runs.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RunPodSandboxResponse {
    /// The sandbox's id.
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
}

/// A container to create.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerConfig {
    /// The container's name and attempt.
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ContainerMetadata>,
    /// The image.
    #[prost(message, optional, tag = "2")]
    pub image: Option<ImageSpec>,
    /// What the container runs.
    #[prost(string, repeated, tag = "3")]
    pub command: Vec<String>,
    /// What is mounted.
    #[prost(message, repeated, tag = "7")]
    pub mounts: Vec<Mount>,
    /// The labels.
    #[prost(btree_map = "string, string", tag = "9")]
    pub labels: BTreeMap<String, String>,
    /// The log's path within the sandbox's log directory.
    #[prost(string, tag = "11")]
    pub log_path: String,
}

/// Creates a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateContainerRequest {
    /// The sandbox.
    #[prost(string, tag = "1")]
    pub pod_sandbox_id: String,
    /// The container.
    #[prost(message, optional, tag = "2")]
    pub config: Option<ContainerConfig>,
    /// The sandbox's settings once more.
    #[prost(message, optional, tag = "3")]
    pub sandbox_config: Option<PodSandboxConfig>,
}

/// The container is created.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CreateContainerResponse {
    /// The container's id.
    #[prost(string, tag = "1")]
    pub container_id: String,
}

/// Starts a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StartContainerRequest {
    /// Which container.
    #[prost(string, tag = "1")]
    pub container_id: String,
}

/// The container is started.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StartContainerResponse {}
