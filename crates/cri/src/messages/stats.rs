//! How much containers have written.

use super::FilesystemUsage;

/// Asks how much each container uses.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ListContainerStatsRequest {}

/// Names a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerAttributes {
    /// The container.
    #[prost(string, tag = "1")]
    pub id: String,
}

/// What one container uses.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerStats {
    /// The container.
    #[prost(message, optional, tag = "1")]
    pub attributes: Option<ContainerAttributes>,
    /// What it has written to its own layer.
    #[prost(message, optional, tag = "4")]
    pub writable_layer: Option<FilesystemUsage>,
}

/// What containers use.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListContainerStatsResponse {
    /// The containers. Some runtimes leave out those that do not run.
    #[prost(message, repeated, tag = "1")]
    pub stats: Vec<ContainerStats>,
}
