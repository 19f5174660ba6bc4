//! What the collector does: the graph, resource types, lists and watches, the pools and their limits,
//! replicas, and requests to the API server.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use kube_gc_core::brake::{Limits, Share};
use kube_gc_core::object::GroupResource;

use super::text;

/// The upper bound for the default number of partitions. Each takes a thread and some
/// memory, and events rarely keep more of them busy.
const MAX_DEFAULT_PARTITIONS: usize = 8;

/// With so few cores, reading what the API server sends keeps all of them busy.
const FEW_CORES: usize = 2;

/// The number of cores that this process may use.
#[must_use]
pub fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// `[graph]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSettings {
    /// Partitions; 0 means one for each core, at most 8. See [`GraphSettings::partition_count`].
    pub partitions: u16,
    /// The threads that the partitions run on. See [`GraphSettings::has_own_threads`].
    pub threads: GraphThreads,
    /// Capacity of the cache of absent owners.
    pub absent_owner_capacity: usize,
    /// How old a dependent must be before a GET that does not find its owner counts.
    #[serde(with = "text::duration")]
    pub birth_grace: Duration,
}

/// The threads that the partitions of the graph run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GraphThreads {
    /// `Own` on a machine with more than two cores, `Shared` otherwise.
    #[default]
    Auto,
    /// One thread for each partition.
    Own,
    /// The thread that runs the actors and the requests about single objects.
    Shared,
}

impl GraphSettings {
    /// The number of partitions on a machine with this many cores.
    #[must_use]
    pub fn partition_count(&self, cores: usize) -> usize {
        match self.partitions {
            0 => cores.clamp(1, MAX_DEFAULT_PARTITIONS),
            count => count.into(),
        }
    }

    /// Whether each partition has its own thread on a machine with this many cores.
    #[must_use]
    pub fn has_own_threads(&self, cores: usize) -> bool {
        match self.threads {
            GraphThreads::Auto => cores > FEW_CORES,
            GraphThreads::Own => true,
            GraphThreads::Shared => false,
        }
    }
}

/// The upper bound for the default number of list threads. The API server does not send
/// faster than these read.
const MAX_DEFAULT_LIST_THREADS: usize = 4;

/// `[discovery]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscoverySettings {
    /// The interval between rounds of discovery that no event has triggered.
    #[serde(with = "text::duration")]
    pub interval: Duration,
    /// How long a part of the API that cannot be listed holds owners that orphan their dependents.
    #[serde(with = "text::duration")]
    pub orphan_wait: Duration,
    /// Resource types that are neither watched nor collected.
    #[serde(with = "text::group_resources")]
    pub ignored: Vec<GroupResource>,
}

impl DiscoverySettings {
    /// Events. A cluster has many of them, they expire soon, and they have no owners.
    #[must_use]
    pub fn never_collected() -> [GroupResource; 2] {
        [GroupResource::new("", "events"), GroupResource::new("events.k8s.io", "events")]
    }
}

/// `[watch]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchSettings {
    /// Objects in one page of a list.
    pub page_size: u32,
    /// Whether to ask for lists as streams (WatchList), until the API server refuses it.
    pub streaming_lists: bool,
    /// Threads that read lists and write HTTP pages; 0 means one for each core, at most 4.
    /// See [`WatchSettings::list_thread_count`].
    pub list_threads: u16,
    /// The first backoff after a list or watch failed.
    #[serde(with = "text::duration")]
    pub min_backoff: Duration,
    /// The longest backoff after lists or watches failed.
    #[serde(with = "text::duration")]
    pub max_backoff: Duration,
}

impl WatchSettings {
    /// The number of list threads on a machine with this many cores.
    #[must_use]
    pub fn list_thread_count(&self, cores: usize) -> usize {
        match self.list_threads {
            0 => cores.clamp(1, MAX_DEFAULT_LIST_THREADS),
            count => count.into(),
        }
    }
}

/// `[workers]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSettings {
    /// Workers of the delete pool.
    pub delete: usize,
    /// Workers of the orphan pool.
    pub orphan: usize,
    /// Dependents that all orphan workers together release at a time.
    pub release: usize,
}

/// `[retry]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrySettings {
    /// The backoff after the first failure of an object.
    #[serde(with = "text::duration")]
    pub min: Duration,
    /// The longest backoff between two attempts at an object.
    #[serde(with = "text::duration")]
    pub max: Duration,
}

/// `[comparison]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparisonSettings {
    /// How long another collector may take to do what a dry run decided.
    #[serde(with = "text::duration")]
    pub grace: Duration,
}

/// `[events]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSettings {
    /// How long an object is stuck before a Warning event about it; zero for no such events.
    #[serde(with = "text::duration")]
    pub stuck_after: Duration,
}

/// `[namespaces]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceSettings {
    /// For how long looks must have shown nothing before a namespace is finalized.
    #[serde(with = "text::duration")]
    pub quiet: Duration,
}

/// `[brake]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrakeSettings {
    /// The most deletions in a minute; 0 means no limit.
    pub deletions_per_minute: u32,
    /// The most deletions in a minute in one namespace; 0 means no limit.
    pub namespace_deletions_per_minute: u32,
    /// The highest percentage of a resource type's objects that may be deleted within
    /// `window`; 0 means no limit.
    pub percent: u32,
    /// How many objects of a type may be deleted within `window` whatever the percentage.
    pub percent_floor: u32,
    /// The window of `percent`.
    #[serde(with = "text::duration")]
    pub window: Duration,
}

impl BrakeSettings {
    /// The limits that the brake enforces.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let Self {
            deletions_per_minute,
            namespace_deletions_per_minute,
            percent,
            percent_floor: floor,
            window,
        } = *self;
        Limits {
            per_minute: NonZeroU32::new(deletions_per_minute),
            namespace_per_minute: NonZeroU32::new(namespace_deletions_per_minute),
            share: NonZeroU32::new(percent).map(|percent| Share { percent, window, floor }),
        }
    }
}

/// `[leader]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaderSettings {
    /// Whether replicas elect a leader, which alone writes.
    pub enabled: bool,
    /// The namespace of the Lease; empty means that of the pod or of the kubeconfig's context.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The identity of this replica in the Lease; empty means the hostname. A random suffix
    /// is added.
    pub identity: String,
    /// How long other replicas wait for a renewal.
    #[serde(with = "text::duration")]
    pub lease_duration: Duration,
    /// How long this replica writes after a renewal.
    #[serde(with = "text::duration")]
    pub renew_deadline: Duration,
    /// The interval between attempts to acquire or renew the Lease.
    #[serde(with = "text::duration")]
    pub retry_period: Duration,
}

/// `[client]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientSettings {
    /// Requests about single objects per second; 0 means no limit.
    pub qps: u32,
    /// How many of these requests may exceed `qps` at once; 0 means as many as `qps`.
    pub burst: u32,
    /// The encoding that lists and watches request.
    pub encoding: Encoding,
    /// Whether lists accept compressed responses.
    pub compression: bool,
    /// The HTTP version of watches.
    pub watch_protocol: WatchProtocol,
    /// The timeout of one request, from sending it to the end of its response. It does not
    /// apply to watches.
    #[serde(with = "text::duration")]
    pub request_timeout: Duration,
}

/// The encoding of lists and watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Protobuf, or JSON for resource types without protobuf.
    #[default]
    Protobuf,
    /// JSON.
    Json,
}

/// The HTTP version of watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WatchProtocol {
    /// HTTP/2, if the API server offers it.
    #[default]
    Http2,
    /// HTTP/1.1.
    Http1,
}
