//! The values of labels that have a fixed set of values.

use std::time::Duration;

use kube_gc_core::graph::StuckCause;

/// Enums whose variants are the values of a label.
macro_rules! labels {
    ($($(#[doc = $about:literal])+ $name:ident { $($(#[doc = $doc:literal])+ $variant:ident = $text:literal,)+ })+) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub enum $name {
                $($(#[doc = $doc])+ $variant,)+
            }

            impl $name {
                /// All variants.
                pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

                /// The words for all variants.
                pub(super) const NAMES: &[&str] = &[$($text),+];

                /// The word for it in metrics, in the log and on the debug pages.
                pub const fn name(self) -> &'static str {
                    match self {
                        $(Self::$variant => $text,)+
                    }
                }
            }
        )+
    };
}

labels! {
    /// A work queue, with Kubernetes' name for it.
    Queue {
        /// Changes from the watches that the graph has not applied.
        GraphChanges = "garbage_collector_graph_changes",
        /// The queue of the delete pool.
        AttemptToDelete = "garbage_collector_attempt_to_delete",
        /// The class of the delete pool for objects with very many owners.
        AttemptToDeleteLarge = "garbage_collector_attempt_to_delete_large",
        /// The queue of the orphan pool.
        AttemptToOrphan = "garbage_collector_attempt_to_orphan",
    }

    /// The kind of an incoming event.
    EventKind {
        /// An object in a list.
        Listed = "listed",
        /// ADDED.
        Added = "added",
        /// MODIFIED.
        Modified = "modified",
        /// DELETED.
        Deleted = "deleted",
        /// BOOKMARK.
        Bookmark = "bookmark",
    }

    /// The state of a monitor.
    MonitorState {
        /// The first list is in progress, without an error so far.
        Syncing = "syncing",
        /// The graph contains its list and all later events.
        Synced = "synced",
        /// Its type cannot be listed or watched.
        Failing = "failing",
        /// Its type is no longer served, and the graph is applying the last events.
        Draining = "draining",
    }

    /// Why an owner reference is invalid.
    InvalidReference {
        /// The owner is in another namespace.
        NamespaceMismatch = "namespace_mismatch",
        /// A cluster-scoped object names a namespaced kind of owner.
        InvalidScope = "invalid_scope",
    }

    /// The server whose 429 lowers a concurrency limit.
    ApiSide {
        /// The API server itself.
        Kubernetes = "kubernetes",
        /// An aggregated API.
        Aggregated = "aggregated",
        /// The API server, when it limits the writing of events.
        Events = "events",
    }

    /// What follows a conflict of a patch.
    PatchConflict {
        /// The object is read and patched again.
        Retry = "retry",
        /// The object is re-evaluated.
        Requeue = "requeue",
    }

    /// A change of leadership of this replica.
    LeaseTransition {
        /// This replica acquired the Lease.
        Acquired = "acquired",
        /// It could not renew the Lease, or another replica holds it.
        Lost = "lost",
        /// It released the Lease at shutdown.
        Released = "released",
    }

    /// Why a connection or a request was rejected.
    HttpRefusal {
        /// The TLS handshake failed or timed out.
        Handshake = "handshake",
        /// No request arrived in time.
        Silent = "silent",
        /// The headers of the request are too large.
        Head = "head",
        /// The request is for another host.
        Host = "host",
        /// The method is neither GET nor HEAD.
        Method = "method",
        /// The request has a body.
        Body = "body",
        /// Too many requests were in flight.
        Busy = "busy",
        /// The token is missing or unknown to the API server.
        Unauthenticated = "unauthenticated",
        /// The user lacks permission.
        Forbidden = "forbidden",
        /// The API server could not review the request.
        Unavailable = "unavailable",
        /// The response took too long.
        Timeout = "timeout",
    }

    /// Why an object is not finished yet. A worker gives one of these when it puts a key back, and
    /// the graph gives the ones that no worker retries.
    StuckReason {
        /// The object changed between the decision and the write.
        Conflict = "conflict",
        /// The API server, RBAC or an admission webhook denies the write.
        Denied = "denied",
        /// The API server failed or did not answer.
        Failed = "failed",
        /// The API server answered with 429 and asked for a later retry.
        Throttled = "throttled",
        /// The worker panicked on it.
        Panicked = "panicked",
        /// The kind or version of an owner is not served, or the lookup of the owner failed.
        Unresolved = "unresolved",
        /// An owner exists that no monitor has shown yet.
        NotObserved = "not_observed",
        /// Dependents block its foreground deletion.
        Blocked = "blocked",
        /// Its dependents are being orphaned.
        Orphaning = "orphaning",
        /// A cluster-scoped object that names a namespaced kind of owner.
        InvalidScope = "invalid_scope",
        /// kube-gc wrote the object, and the watch has not shown that write.
        UnseenWrite = "unseen_write",
        /// The brake is engaged. Nothing is deleted until a person resumes deletion.
        Braked = "braked",
        /// The request was not sent: the API server is unreachable, or requests of this kind hang.
        Deferred = "deferred",
        /// It was deleted and is still there: others have to remove a finalizer or to end it.
        Held = "held",
    }
}

impl Queue {
    /// The queues that have workers.
    pub const POOLS: [Self; 3] = [Self::AttemptToDelete, Self::AttemptToDeleteLarge, Self::AttemptToOrphan];
}

/// The names of the queues that have workers.
pub(super) const POOLS: &[&str] = &[Queue::POOLS[0].name(), Queue::POOLS[1].name(), Queue::POOLS[2].name()];

impl From<StuckCause> for StuckReason {
    fn from(cause: StuckCause) -> Self {
        match cause {
            StuckCause::Blocked => Self::Blocked,
            StuckCause::InvalidScope => Self::InvalidScope,
            StuckCause::UnseenWrite => Self::UnseenWrite,
            StuckCause::Held => Self::Held,
        }
    }
}

impl StuckReason {
    /// The age from which on an object is stuck that waits for what is normal for a while.
    pub const OLD: Duration = Duration::from_secs(60);

    /// Whether the object waits for something else to change, and not for a request to succeed.
    pub const fn is_parked(self) -> bool {
        match self {
            Self::Unresolved
            | Self::NotObserved
            | Self::Blocked
            | Self::Orphaning
            | Self::InvalidScope
            | Self::UnseenWrite
            | Self::Held
            | Self::Braked => true,
            Self::Conflict
            | Self::Denied
            | Self::Failed
            | Self::Throttled
            | Self::Panicked
            | Self::Deferred => false,
        }
    }

    /// How long an object must have been in this state to count as stuck, if what is normal for a
    /// while does so after `older`. A single conflict or a late list ends within moments; a denial
    /// does not.
    pub const fn patience(self, older: Duration) -> Duration {
        match self {
            Self::Denied | Self::Panicked | Self::InvalidScope | Self::Braked => Duration::ZERO,
            Self::Conflict | Self::Failed | Self::Unresolved | Self::NotObserved => Duration::from_secs(2),
            Self::Deferred
            | Self::Throttled
            | Self::Blocked
            | Self::Orphaning
            | Self::UnseenWrite
            | Self::Held => older,
        }
    }
}

/// The actions of decisions.
pub(super) const ACTIONS: &[&str] =
    &["delete", "keep", "orphan", "remove_finalizer", "remove_references", "stop_blocking"];

/// The outcomes of decisions.
pub(super) const OUTCOMES: &[&str] = &[
    "already_being_deleted",
    "already_gone",
    "braked",
    "conflict",
    "deferred",
    "deleted",
    "deletion_pending",
    "denied",
    "dry_run",
    "failed",
    "not_being_deleted",
    "parked",
    "patched",
    "reevaluated",
    "removed",
    "throttled",
    "unknown",
    "unneeded",
];

/// The purposes of threads, however many threads there are.
pub(super) const THREADS: [&str; 9] =
    ["requests", "watches", "lists", "lease", "graph", "log", "supervisor", "allocator", "other"];

/// The verbs of requests.
pub(super) const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "discover", "get", "list", "patch", "update", "watch"];

/// The writes that a dry run compares.
pub(super) const COMPARED: &[&str] =
    &["delete", "orphan", "remove_finalizer", "remove_references", "stop_blocking"];

/// What follows a conflict of a deletion.
pub(super) const CONFLICTS: &[&str] =
    &["absent", "backoff", "being_deleted", "delete_with_new_version", "delete_with_uid_alone", "reevaluate"];

/// The outcomes of a turn of a namespace.
pub(super) const TURNS: &[&str] = &["dry_run", "empty", "failed", "finalized", "gone", "held", "progress"];

/// The limits of the brake.
pub(super) const LIMITS: &[&str] = &["deletions_per_minute", "namespace_deletions_per_minute", "percent"];

/// What is removed from a node.
pub(super) const ITEMS: &[&str] = &["container", "image", "log_directory", "log_symlink", "sandbox"];

/// The scopes of passes on a node.
pub(super) const SCOPES: &[&str] = &["containers", "images"];

/// What the file system of the images is filled with.
pub(super) const SPACE: &[&str] = &["dead_containers", "free", "in_use", "kept", "other", "unused"];

/// The listeners.
pub(super) const LISTENERS: &[&str] = &["health", "debug"];
