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

/// A list returned an older version than before: the store was restored from a backup.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct StoreRestored {
    /// For the log: which list, and which versions.
    pub detail: String,
}
