//! Messages to Lifecycle.

use actix::Message;

/// Monitors started, synced or lost their sync.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct SyncProgress {
    /// Which rebuild of the graph they belong to; see [`Resume`](super::Resume).
    pub rebuild: u64,
    /// Whether every type that is served is synced.
    pub all_synced: bool,
}

/// A monitor's list went back in time: the store was restored from a backup.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct StoreRestored {
    /// Where it was noticed, and what was seen: for the log.
    pub detail: String,
}
