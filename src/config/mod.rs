//! The whole configuration: what can be set, the built-in values, and how the
//! sources are put together.
//!
//! Later sources win: built-in defaults, then the TOML file, then environment
//! variables, then flags. Keys are snake case. A variable is named
//! `KUBE_GC__SECTION__KEY`, in which lists are separated by commas. Nothing is
//! ignored silently: an unknown key is an error that names its source.
//!
//! `config/default.toml` documents each key; a test keeps it equal to the
//! [`Default`] of [`Settings`].

mod brake;
mod error;
mod exposure;
pub(crate) mod fuzzing;
mod load;
mod rules;
mod text;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use kube_gc_core::object::GroupResource;

pub use brake::BrakeSettings;
pub use error::{ConfigError, Origin};
pub use load::Loader;

/// Everything that can be configured, validated. Make one with [`Loader`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Decide and report, but write nothing.
    pub dry_run: bool,
    /// What becomes of a dry run's decisions.
    pub comparison: ComparisonSettings,
    /// How many objects are worked on at a time.
    pub workers: WorkerSettings,
    /// The graph of owners and dependents.
    pub graph: GraphSettings,
    /// Which resource types there are.
    pub discovery: DiscoverySettings,
    /// Listing and watching.
    pub watch: WatchSettings,
    /// Trying failed work again.
    pub retry: RetrySettings,
    /// Which of several replicas writes.
    pub leader: LeaderSettings,
    /// How much may be deleted.
    pub brake: BrakeSettings,
    /// Beginning.
    pub startup: StartupSettings,
    /// Requests to the API server.
    pub client: ClientSettings,
    /// Ending.
    pub shutdown: ShutdownSettings,
    /// The addresses that this process listens on.
    pub http: HttpSettings,
    /// Encryption of what is served there.
    pub tls: TlsSettings,
    /// Who may read what is served there.
    pub access: AccessSettings,
    /// What is kept for the debug pages.
    pub debug: DebugSettings,
    /// The log.
    pub log: LogSettings,
}

/// `[comparison]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparisonSettings {
    /// How long another collector may take for what a dry run would have done.
    #[serde(with = "text::duration")]
    pub grace: Duration,
}

/// `[workers]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSettings {
    /// Workers of the delete pool.
    pub delete: usize,
    /// Workers of the orphan pool.
    pub orphan: usize,
    /// Dependents that these release at a time, all together.
    pub release: usize,
}

/// `[graph]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSettings {
    /// Partitions; 0 means one for each core, up to [`MOST_PARTITIONS`]. See [`GraphSettings::partition_count`].
    pub partitions: u16,
    /// What they run on. See [`GraphSettings::has_own_threads`].
    pub threads: GraphThreads,
    /// How many identities proved absent are remembered.
    pub absent_owner_capacity: usize,
}

/// The processors that this process may use.
#[must_use]
pub fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// The most partitions of the graph that are chosen for a machine of many cores: each
/// takes a thread and some memory, and events rarely keep more of them busy.
pub const MOST_PARTITIONS: usize = 8;

/// The most threads for lists that are chosen for a machine of many cores: the API
/// server does not send faster than these read.
pub const MOST_LIST_THREADS: usize = 4;

impl GraphSettings {
    /// The number of partitions that `partitions` amounts to on a machine of so many cores.
    #[must_use]
    pub fn partition_count(&self, cores: usize) -> usize {
        match self.partitions {
            0 => cores.clamp(1, MOST_PARTITIONS),
            count => count.into(),
        }
    }

    /// Whether each partition is to have a thread of its own on a machine of so many cores.
    #[must_use]
    pub fn has_own_threads(&self, cores: usize) -> bool {
        match self.threads {
            GraphThreads::Auto => cores > FEW_CORES,
            GraphThreads::Own => true,
            GraphThreads::Shared => false,
        }
    }
}

impl WatchSettings {
    /// The number of threads that `list_threads` amounts to on a machine of so many cores.
    #[must_use]
    pub fn list_thread_count(&self, cores: usize) -> usize {
        match self.list_threads {
            0 => cores.clamp(1, MOST_LIST_THREADS),
            count => count.into(),
        }
    }
}

/// So many have enough to do with reading what the API server sends.
const FEW_CORES: usize = 2;

/// What the partitions of the graph run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GraphThreads {
    /// Threads of their own where there are more than two cores.
    #[default]
    Auto,
    /// A thread each.
    Own,
    /// The one that carries the actors and the requests about single objects.
    Shared,
}

/// `[discovery]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscoverySettings {
    /// Between two rounds of discovery that nothing else has caused.
    #[serde(with = "text::duration")]
    pub interval: Duration,
    /// Resource types that are neither watched nor touched.
    #[serde(with = "text::group_resources")]
    pub ignored: Vec<GroupResource>,
}

/// `[watch]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchSettings {
    /// Objects in one page of a list.
    pub page_size: u32,
    /// Threads that read lists and write pages; 0 means one for each core, up to
    /// [`MOST_LIST_THREADS`]. See [`WatchSettings::list_thread_count`].
    pub list_threads: u16,
    /// The first pause after a list or watch that failed.
    #[serde(with = "text::duration")]
    pub min_backoff: Duration,
    /// The longest pause after lists or watches that failed.
    #[serde(with = "text::duration")]
    pub max_backoff: Duration,
}

/// `[retry]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrySettings {
    /// The pause after the first failure of an object.
    #[serde(with = "text::duration")]
    pub min: Duration,
    /// The longest pause between two attempts at an object.
    #[serde(with = "text::duration")]
    pub max: Duration,
}

/// `[leader]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaderSettings {
    /// Whether there may be other replicas, of which only one is to write.
    pub enabled: bool,
    /// The namespace of the Lease; empty: that of the pod or of the kubeconfig's context.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// What this replica is called in the Lease; empty: as its host. A random part is added.
    pub identity: String,
    /// How long the others wait for a renewal.
    #[serde(with = "text::duration")]
    pub lease_duration: Duration,
    /// How long this replica writes after a renewal.
    #[serde(with = "text::duration")]
    pub renew_deadline: Duration,
    /// Between two tries.
    #[serde(with = "text::duration")]
    pub retry_period: Duration,
}

/// `[startup]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartupSettings {
    /// How long the workers wait for types that do not sync.
    #[serde(with = "text::duration")]
    pub sync_timeout: Duration,
}

/// `[client]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientSettings {
    /// Writes and reads of single objects per second; 0 means no limit.
    pub qps: u32,
    /// How many of them may come at once; 0 means as many as `qps`.
    pub burst: u32,
    /// What lists and watches are asked for in.
    pub encoding: Encoding,
    /// Whether lists may come compressed.
    pub compression: bool,
    /// What watches are carried by.
    pub watch_protocol: WatchProtocol,
    /// For one request, from sending it to the end of its answer; not for watches.
    #[serde(with = "text::duration")]
    pub request_timeout: Duration,
}

/// How the API server is to write lists and watches, if it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// In protobuf or, what does not know it, in JSON.
    #[default]
    Protobuf,
    /// In JSON.
    Json,
}

/// What watches are carried by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WatchProtocol {
    /// HTTP/2, if the API server offers it.
    #[default]
    Http2,
    /// HTTP/1.1.
    Http1,
}

/// `[shutdown]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShutdownSettings {
    /// How long requests that are under way may take to finish.
    #[serde(with = "text::duration")]
    pub grace: Duration,
}

/// `[http]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSettings {
    /// Health and metrics.
    pub listen: SocketAddr,
    /// The debug pages.
    pub debug_listen: SocketAddr,
}

/// `[debug]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DebugSettings {
    /// How many decisions are kept.
    pub decisions: usize,
}

/// One of the two addresses of `[http]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Listener {
    /// Health and metrics: `http.listen`.
    Health,
    /// The debug pages: `http.debug_listen`.
    Debug,
}

impl Listener {
    /// The name, in settings, the log and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Debug => "debug",
        }
    }
}

/// Which of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Listeners {
    /// Neither.
    #[default]
    None,
    /// Health and metrics.
    Health,
    /// The debug pages.
    Debug,
    /// Both.
    Both,
}

impl Listeners {
    /// Whether this one is meant.
    #[must_use]
    pub const fn include(self, listener: Listener) -> bool {
        match self {
            Self::None => false,
            Self::Health => matches!(listener, Listener::Health),
            Self::Debug => matches!(listener, Listener::Debug),
            Self::Both => true,
        }
    }
}

/// `[tls]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// Which listeners speak TLS.
    pub listeners: Listeners,
    /// The file with the certificate and those that vouch for it; empty: none.
    pub certificate: PathBuf,
    /// The file with its private key; empty: none.
    pub key: PathBuf,
}

/// `[access]`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessSettings {
    /// Which listeners ask the API server who may read their pages.
    pub listeners: Listeners,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// How a line looks.
    pub format: LogFormat,
    /// Which lines there are, in the notation of `RUST_LOG`.
    pub filter: String,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl Default for ComparisonSettings {
    fn default() -> Self {
        Self { grace: Duration::from_secs(60) }
    }
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self { delete: 100, orphan: 5, release: 64 }
    }
}

impl Default for GraphSettings {
    fn default() -> Self {
        Self { partitions: 0, threads: GraphThreads::default(), absent_owner_capacity: 500 }
    }
}

impl Default for DiscoverySettings {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), ignored: Self::never_collected().to_vec() }
    }
}

impl DiscoverySettings {
    /// Events: the one kind that is many, short-lived, and owned by nothing.
    #[must_use]
    pub fn never_collected() -> [GroupResource; 2] {
        [GroupResource::new("", "events"), GroupResource::new("events.k8s.io", "events")]
    }
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            page_size: 500,
            list_threads: 0,
            min_backoff: Duration::from_millis(800),
            max_backoff: Duration::from_secs(30),
        }
    }
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self { min: Duration::from_millis(5), max: Duration::from_secs(1000) }
    }
}

impl Default for LeaderSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            namespace: String::new(),
            name: "kube-gc".to_owned(),
            identity: String::new(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl Default for StartupSettings {
    fn default() -> Self {
        Self { sync_timeout: Duration::from_secs(30) }
    }
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            qps: 0,
            burst: 0,
            encoding: Encoding::default(),
            compression: false,
            watch_protocol: WatchProtocol::default(),
            request_timeout: Duration::from_secs(30),
        }
    }
}

impl Default for ShutdownSettings {
    fn default() -> Self {
        Self { grace: Duration::from_secs(20) }
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        let loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        Self { listen: loopback(8080), debug_listen: loopback(8081) }
    }
}

impl Default for DebugSettings {
    fn default() -> Self {
        Self { decisions: 1000 }
    }
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".to_owned() }
    }
}

impl Settings {
    /// What is allowed but should be known to whoever runs this: said at start
    /// and, for ignored types, in `/readyz?verbose`.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.ignored_type_warnings();
        if self.client.qps == 0 && self.client.burst > 0 {
            warnings.push("`client.burst` has no effect, because `client.qps` is 0 (no limit)".to_owned());
        }
        if self.leader.enabled && self.dry_run {
            warnings.push(
                "`leader.enabled` has no effect, because this is a dry run: it writes nothing, not even the lease"
                    .to_owned(),
            );
        }
        if self.dry_run && !self.brake.limits().is_off() {
            warnings.push("`brake` has no effect, because this is a dry run: it deletes nothing".to_owned());
        }
        warnings.extend(exposure::warnings(self));
        warnings
    }

    /// One warning for each ignored type that is not an event.
    #[must_use]
    pub fn ignored_type_warnings(&self) -> Vec<String> {
        let harmless = DiscoverySettings::never_collected();
        self.discovery
            .ignored
            .iter()
            .filter(|ignored| !harmless.contains(ignored))
            .map(|ignored| {
                format!(
                    "{ignored} is ignored: its foreground and orphan deletions will never end, because the API server \
                     still adds the finalizers"
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
