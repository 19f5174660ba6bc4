//! How the embedded server behaves where real ones differ.

use std::time::{Duration, SystemTime};

/// Which release's behaviour is shown where releases differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// 1.20: plain discovery, no streamed lists, Ingress in two groups.
    V1_20,
    /// 1.36: aggregated discovery, streamed lists.
    V1_36,
}

/// Settings of an embedded server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose behaviour is shown.
    pub release: Release,
    /// Where uids and generated names come from: the same seed, the same names.
    pub seed: u64,
    /// The wall clock's time when the server is made; from there on it follows
    /// tokio's clock, which tests pause.
    pub epoch: SystemTime,
    /// How long it takes until a custom resource is served after its definition was
    /// created, and until it has vanished after that was deleted.
    pub custom_resource_delay: Duration,
    /// Whether namespaces are emptied and finalized here, as the namespace
    /// controller of kube-controller-manager would.
    pub namespace_controller: bool,
    /// How many changes of each resource are kept for watches; older ones are
    /// compacted away by themselves.
    pub history: usize,
    /// Whether every change is kept for ever with its cause, for an oracle.
    pub journal: bool,
    /// Whether a watch from a version that is too old is refused with 410, instead
    /// of being accepted and answered by an event that says so.
    pub gone_as_status: bool,
    /// How often a watch that asked for bookmarks gets one.
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
