//! The settings of the server, where real ones differ.

use std::time::{Duration, SystemTime};

/// The release to emulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// 1.20: plain discovery, no streamed lists, Ingress in two groups.
    V1_20,
    /// 1.36: aggregated discovery, streamed lists.
    V1_36,
}

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The release to emulate.
    pub release: Release,
    /// The seed of uids and generated names. The same seed gives the same names.
    pub seed: u64,
    /// The wall-clock time when the server is created. From then on, it follows tokio's clock,
    /// which tests can pause.
    pub epoch: SystemTime,
    /// The delay until a custom resource is served after its definition was created, and until it
    /// disappears after the definition was deleted.
    pub custom_resource_delay: Duration,
    /// Whether the server empties and finalizes namespaces, as the namespace controller of
    /// kube-controller-manager does.
    pub namespace_controller: bool,
    /// The number of changes of each resource that are kept for watches. Older ones are compacted
    /// automatically.
    pub history: usize,
    /// Whether to keep every change with its cause, for an oracle.
    pub journal: bool,
    /// Whether a watch from a version that is too old is rejected with 410 instead of accepted and
    /// answered by an event.
    pub gone_as_status: bool,
    /// The interval of bookmarks, for watches that request them.
    pub bookmarks: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            release: Release::V1_36,
            seed: 0,
            epoch: SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600),
            custom_resource_delay: Duration::from_millis(100),
            namespace_controller: true,
            history: 10_000,
            journal: false,
            gone_as_status: false,
            bookmarks: Duration::from_secs(60),
        }
    }
}
