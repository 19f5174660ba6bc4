//! What the runtime says about itself.

use std::collections::BTreeMap;

/// Asks for the runtime's version.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VersionRequest {
    /// The version of the kubelet's interface; the kubelet says "0.1.0".
    #[prost(string, tag = "1")]
    pub version: String,
}

/// The runtime's version.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct VersionResponse {
    /// The version of the kubelet's interface.
    #[prost(string, tag = "1")]
    pub version: String,
    /// Such as "containerd".
    #[prost(string, tag = "2")]
    pub runtime_name: String,
    /// Such as "1.6.20".
    #[prost(string, tag = "3")]
    pub runtime_version: String,
    /// Such as "v1".
    #[prost(string, tag = "4")]
    pub runtime_api_version: String,
}

/// Asks for the runtime's status.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StatusRequest {
    /// Whether the answer also has the runtime's configuration.
    #[prost(bool, tag = "1")]
    pub verbose: bool,
}

/// One thing that is well with the runtime, or is not.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RuntimeCondition {
    /// Such as "RuntimeReady".
    #[prost(string, tag = "1")]
    pub r#type: String,
    /// Whether it is well.
    #[prost(bool, tag = "2")]
    pub status: bool,
    /// Why not, in one word.
    #[prost(string, tag = "3")]
    pub reason: String,
    /// Why not, in a sentence.
    #[prost(string, tag = "4")]
    pub message: String,
}

/// How the runtime is.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RuntimeStatus {
    /// The conditions.
    #[prost(message, repeated, tag = "1")]
    pub conditions: Vec<RuntimeCondition>,
}

/// One of the ways in which the runtime runs containers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RuntimeHandler {
    /// The name that sandboxes and images carry; empty for the default one.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// The runtime's status.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StatusResponse {
    /// How the runtime is.
    #[prost(message, optional, tag = "1")]
    pub status: Option<RuntimeStatus>,
    /// The runtime's configuration, as JSON, under keys of its own; only in a verbose answer.
    #[prost(btree_map = "string, string", tag = "2")]
    pub info: BTreeMap<String, String>,
    /// The runtime's handlers. Runtimes before Kubernetes 1.30 list none.
    #[prost(message, repeated, tag = "3")]
    pub runtime_handlers: Vec<RuntimeHandler>,
}
