//! Every setting: its meaning, its type, and the values that it may have. `config/default.toml` has its
//! default, and explains it to users.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Loader;
use super::values::{
    BesideKubelet, DecisionLines, Encoding, GraphThreads, Listeners, LogFormat, PodKnowledge, WatchProtocol,
    duration, group_resources, is_endpoint, is_host, is_label, is_log_filter, is_name, is_pattern, is_root,
};
use kube_gc_core::object::GroupResource;

/// The built-in values.
static DEFAULTS: LazyLock<Settings> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "see the message")]
    Loader::new().load().expect("the file is a part of the program, and every test of this module reads it")
});

/// The values that one key may have.
pub(super) struct Rule {
    /// The key, with its section.
    pub(super) key: &'static str,
    /// The values in words; follows "it must be" in the error.
    pub(super) allowed: &'static str,
    /// Whether the settings obey the rule.
    pub(super) holds: fn(&Settings) -> bool,
}

/// Sections, each with its keys: a name, a type and how it is written, the values that are allowed in words,
/// and whether a section obeys that. The sections within a section come first, in brackets.
macro_rules! sections {
    ($(
        $(#[$about:meta])*
        $section:ident, $prefix:literal, $at:expr =>
        $([$($(#[$inner_doc:meta])* $inner:ident: $inner_type:ty,)*])?
        { $($(#[$doc:meta])* $key:ident: $type:ty $(as $form:literal)?, $allowed:expr, $holds:expr;)* }
    )*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
            #[serde(deny_unknown_fields)]
            #[non_exhaustive]
            pub struct $section {
                $($(#[$doc])* $(#[serde(with = $form)])? pub $key: $type,)*
                $($($(#[$inner_doc])* pub $inner: $inner_type,)*)?
            }

            impl Default for $section {
                fn default() -> Self {
                    part(&DEFAULTS, $at).clone()
                }
            }
        )*

        /// One rule for each key.
        pub(super) const RULES: &[Rule] = &[$($(Rule {
            key: concat!($prefix, stringify!($key)),
            allowed: $allowed,
            holds: |settings| {
                let holds: fn(&$section) -> bool = $holds;
                holds(part(settings, $at))
            },
        },)*)*];
    };
}

fn part<T>(settings: &Settings, at: fn(&Settings) -> &T) -> &T {
    at(settings)
}

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);

const FLAG: &str = "true or false";
const WORKERS: &str = "a whole number from 1 to 1000";
const LIMIT: &str = "a whole number from 0 (no limit) to 1000000";
const TIMEOUT: &str = r#"a duration from "100ms" to "1h", with its unit"#;
const UP_TO_AN_HOUR: &str = r#"a duration from "0s" to "1h", with its unit"#;
const MIN_PAUSE: &str = r#"a duration with its unit, from "1ms" to the maximum of this backoff"#;
const MAX_PAUSE: &str = r#"a duration up to "1h", with its unit"#;
const AGE: &str = r#"a duration from "0s" to "366d", with its unit"#;
const DEAD: &str = "a whole number from -1 (all stay) to 1000000";
const PERIOD: &str = r#"a duration from "1s" to "1d", with its unit"#;
const FREE: &str = "a whole percentage from 0 to 99";

sections! {
    /// The validated configuration. `Loader` reads it; [`Default`] has the built-in values.
    Settings, "", |settings| settings => [
        /// When namespaces are finalized.
        namespaces: NamespaceSettings,
        /// How a dry run compares its decisions with another collector.
        comparison: ComparisonSettings,
        /// How many objects are processed at a time.
        workers: WorkerSettings,
        /// The graph of owners and dependents.
        graph: GraphSettings,
        /// Which resource types are discovered.
        discovery: DiscoverySettings,
        /// Lists and watches.
        watch: WatchSettings,
        /// The backoff of failed work.
        retry: RetrySettings,
        /// Events about objects that are stuck.
        events: EventSettings,
        /// Leader election among replicas.
        leader: LeaderSettings,
        /// Limits on deletion.
        brake: BrakeSettings,
        /// The start of the process.
        startup: StartupSettings,
        /// Requests to the API server.
        client: ClientSettings,
        /// The end of the process.
        shutdown: ShutdownSettings,
        /// The addresses of the listeners.
        http: HttpSettings,
        /// TLS of the listeners.
        tls: TlsSettings,
        /// Authorization of requests to the listeners.
        access: AccessSettings,
        /// The data behind the debug pages.
        debug: DebugSettings,
        /// The log.
        log: LogSettings,
        /// Node collection: `kube-gc node`.
        node: NodeSettings,
    ] {
        /// Decide and report, but write nothing.
        dry_run: bool, FLAG, |_| true;
        /// Delete the content of terminating namespaces and finalize them.
        finish_namespaces: bool, FLAG, |_| true;
        /// Remove the finalizers that protect claims and volumes which are not used.
        remove_protection_finalizers: bool, FLAG, |_| true;
    }

    /// `[namespaces]`
    NamespaceSettings, "namespaces.", |settings| &settings.namespaces => {
        /// For how long looks must have shown nothing before a namespace is finalized.
        quiet: Duration as "duration", UP_TO_AN_HOUR, |s| s.quiet <= HOUR;
    }

    /// `[comparison]`
    ComparisonSettings, "comparison.", |settings| &settings.comparison => {
        /// How long another collector may take to do what a dry run decided.
        grace: Duration as "duration", TIMEOUT, |s| (millis(100)..=HOUR).contains(&s.grace);
    }

    /// `[workers]`
    WorkerSettings, "workers.", |settings| &settings.workers => {
        /// Workers of the delete pool.
        delete: usize, WORKERS, |s| (1..=1000).contains(&s.delete);
        /// Workers of the orphan pool.
        orphan: usize, WORKERS, |s| (1..=1000).contains(&s.orphan);
        /// Dependents that all orphan workers together release at a time.
        release: usize, WORKERS, |s| (1..=1000).contains(&s.release);
    }

    /// `[graph]`
    GraphSettings, "graph.", |settings| &settings.graph => {
        /// Partitions; 0 means one for each core, at most 8. See [`GraphSettings::partition_count`].
        partitions: u16, "a whole number from 0 (one for each core, at most 8) to 1024", |s| s.partitions <= 1024;
        /// The threads that the partitions run on. See [`GraphSettings::has_own_threads`].
        threads: GraphThreads, r#""auto", "own" or "shared""#, |_| true;
        /// Capacity of the cache of absent owners.
        absent_owner_capacity: usize, "a whole number from 1 to 10000000",
            |s| (1..=10_000_000).contains(&s.absent_owner_capacity);
        /// How old a dependent must be before a GET that does not find its owner counts.
        birth_grace: Duration as "duration", r#"a duration from "0s" to "1m", with its unit"#,
            |s| s.birth_grace <= 60 * SECOND;
    }

    /// `[discovery]`
    DiscoverySettings, "discovery.", |settings| &settings.discovery => {
        /// The interval between rounds of discovery that no event has triggered.
        interval: Duration as "duration", TIMEOUT, |s| (millis(100)..=HOUR).contains(&s.interval);
        /// How long a part of the API that cannot be listed holds owners that orphan their dependents.
        orphan_wait: Duration as "duration", UP_TO_AN_HOUR, |s| s.orphan_wait <= HOUR;
        /// Resource types that are neither watched nor collected.
        ignored: Vec<GroupResource> as "group_resources",
            r#"a list of resource types such as ["events", "jobs.batch"] (in a variable: events,jobs.batch)"#,
            |_| true;
    }

    /// `[watch]`
    WatchSettings, "watch.", |settings| &settings.watch => {
        /// Objects in one page of a list.
        page_size: u32, "a whole number from 1 to 100000", |s| (1..=100_000).contains(&s.page_size);
        /// Whether to ask for lists as streams (WatchList), until the API server refuses it.
        streaming_lists: bool, FLAG, |_| true;
        /// Threads that read lists and write HTTP pages; 0 means one for each core, at most 4.
        /// See [`WatchSettings::list_thread_count`].
        list_threads: u16, "a whole number from 0 (one for each core, at most 4) to 256", |s| s.list_threads <= 256;
        /// The first backoff after a list or watch failed.
        min_backoff: Duration as "duration", MIN_PAUSE, |s| (millis(1)..=s.max_backoff).contains(&s.min_backoff);
        /// The longest backoff after lists or watches failed.
        max_backoff: Duration as "duration", MAX_PAUSE, |s| s.max_backoff <= HOUR;
    }

    /// `[retry]`
    RetrySettings, "retry.", |settings| &settings.retry => {
        /// The backoff after the first failure of an object.
        min: Duration as "duration", MIN_PAUSE, |s| (millis(1)..=s.max).contains(&s.min);
        /// The longest backoff between two attempts at an object.
        max: Duration as "duration", MAX_PAUSE, |s| s.max <= HOUR;
    }

    /// `[events]`
    EventSettings, "events.", |settings| &settings.events => {
        /// How long an object is stuck before a Warning event about it; zero for no such events.
        stuck_after: Duration as "duration", r#"a duration from "1s" to "24h", with its unit, or "0s""#,
            |s| s.stuck_after.is_zero() || (SECOND..=DAY).contains(&s.stuck_after);
    }

    /// `[leader]`
    LeaderSettings, "leader.", |settings| &settings.leader => {
        /// Whether replicas elect a leader, which alone writes.
        enabled: bool, FLAG, |_| true;
        /// The namespace of the Lease; empty means that of the pod or of the kubeconfig's context.
        namespace: String, "the name of a namespace, or empty (that of the pod or of the kubeconfig)",
            |s| s.namespace.is_empty() || is_label(&s.namespace);
        /// The name of the Lease.
        name: String, "the name of a Lease, such as \"kube-gc\"", |s| is_name(&s.name);
        /// The identity of this replica in the Lease; empty means the hostname. A random suffix
        /// is added.
        identity: String, "a text of at most 200 printable ASCII characters without spaces, or empty",
            |s| s.identity.len() <= 200 && s.identity.chars().all(|c| c.is_ascii_graphic());
        /// How long other replicas wait for a renewal.
        lease_duration: Duration as "duration", r#"a duration in whole seconds from "1s" to "1h", with its unit"#,
            |s| s.lease_duration.subsec_nanos() == 0 && (SECOND..=HOUR).contains(&s.lease_duration);
        /// How long this replica writes after a renewal.
        renew_deadline: Duration as "duration", "a duration shorter than `leader.lease_duration`, with its unit",
            |s| s.renew_deadline < s.lease_duration;
        /// The interval between attempts to acquire or renew the Lease.
        retry_period: Duration as "duration",
            r#"a duration with its unit, from "10ms" and shorter than `leader.renew_deadline` divided by 1.2"#,
            |s| s.retry_period >= millis(10) && s.retry_period.mul_f64(1.2) < s.renew_deadline;
    }

    /// `[brake]`
    BrakeSettings, "brake.", |settings| &settings.brake => {
        /// The most deletions in a minute; 0 means no limit.
        deletions_per_minute: u32, LIMIT, |s| s.deletions_per_minute <= 1_000_000;
        /// The most deletions in a minute in one namespace; 0 means no limit.
        namespace_deletions_per_minute: u32, LIMIT, |s| s.namespace_deletions_per_minute <= 1_000_000;
        /// The highest percentage of a resource type's objects that may be deleted within
        /// `window`; 0 means no limit.
        percent: u32, "a whole number from 0 (no limit) to 100", |s| s.percent <= 100;
        /// How many objects of a type may be deleted within `window` whatever the percentage.
        percent_floor: u32, "a whole number from 0 to 1000000", |s| s.percent_floor <= 1_000_000;
        /// The window of `percent`.
        window: Duration as "duration", r#"a duration from "1s" to "24h", with its unit"#,
            |s| (SECOND..=DAY).contains(&s.window);
    }

    /// `[startup]`
    StartupSettings, "startup.", |settings| &settings.startup => {
        /// How long the workers wait for types that do not sync.
        sync_timeout: Duration as "duration", UP_TO_AN_HOUR, |s| s.sync_timeout <= HOUR;
    }

    /// `[client]`
    ClientSettings, "client.", |settings| &settings.client => {
        /// Requests about single objects per second; 0 means no limit.
        qps: u32, "a whole number from 0 (no limit) to 100000", |s| s.qps <= 100_000;
        /// How many of these requests may exceed `qps` at once; 0 means as many as `qps`.
        burst: u32, "a whole number from 0 (as many as `client.qps`) to 100000", |s| s.burst <= 100_000;
        /// The encoding that lists and watches request.
        encoding: Encoding, r#""protobuf" or "json""#, |_| true;
        /// Whether lists accept compressed responses. The library needs its feature `gzip` for that.
        compression: bool, FLAG, |_| true;
        /// The HTTP version of watches.
        watch_protocol: WatchProtocol, r#""http2" or "http1""#, |_| true;
        /// The timeout of one request, from sending it to the end of its response. It does not
        /// apply to watches.
        request_timeout: Duration as "duration", TIMEOUT, |s| (millis(100)..=HOUR).contains(&s.request_timeout);
    }

    /// `[shutdown]`
    ShutdownSettings, "shutdown.", |settings| &settings.shutdown => {
        /// How long requests in flight may take to finish.
        grace: Duration as "duration", UP_TO_AN_HOUR, |s| s.grace <= HOUR;
    }

    /// `[http]`
    HttpSettings, "http.", |settings| &settings.http => {
        /// The address for health and metrics.
        listen: SocketAddr, r#"an address with a port, such as "127.0.0.1:8080" (port 0: any free one)"#, |_| true;
        /// The address for the debug pages.
        debug_listen: SocketAddr,
            r#"an address with a port, such as "127.0.0.1:8081" (port 0: any free one), other than `http.listen`"#,
            |s| s.debug_listen.port() == 0 || s.debug_listen != s.listen;
        /// The names by which the listeners may be asked, besides IP addresses and `localhost`.
        hosts: Vec<String>,
            r#"a list of names without ports, such as ["kube-gc.example.com"] (in a variable: a.example.com,b.example.com)"#,
            |s| s.hosts.iter().all(|host| is_host(host));
    }

    /// `[tls]`. Each rule reports the key that the user has set.
    TlsSettings, "tls.", |settings| &settings.tls => {
        /// The listeners that use TLS.
        listeners: Listeners,
            r#""none" or, with `tls.certificate` and `tls.key` set, "health", "debug" or "both""#,
            |s| s.listeners == Listeners::None || (is_set(&s.certificate) && is_set(&s.key));
        /// The file with the certificate chain; empty means none.
        certificate: PathBuf, "the path of a PEM file, with `tls.key` set, or empty",
            |s| !is_set(&s.certificate) || is_set(&s.key);
        /// The file with the private key; empty means none.
        key: PathBuf, "the path of a PEM file, with `tls.certificate` set, or empty",
            |s| !is_set(&s.key) || is_set(&s.certificate);
    }

    /// `[access]`
    AccessSettings, "access.", |settings| &settings.access => {
        /// The listeners that authenticate and authorize requests through the API server.
        listeners: Listeners, r#""none", "health", "debug" or "both""#, |_| true;
    }

    /// `[debug]`
    DebugSettings, "debug.", |settings| &settings.debug => {
        /// The capacity of the decision log.
        decisions: usize, "a whole number from 0 (keep none) to 100000", |s| s.decisions <= 100_000;
    }

    /// `[log]`
    LogSettings, "log.", |settings| &settings.log => {
        /// The format of a line.
        format: LogFormat, r#""text" or "json""#, |_| true;
        /// The lines to log, in the syntax of `RUST_LOG`.
        filter: String,
            r#"a level (off, error, warn, info, debug or trace), or levels by module such as "info,kube_gc=debug""#,
            |s| is_log_filter(&s.filter);
        /// Which decisions have a line of their own.
        decisions: DecisionLines, r#""auto", "all", "summaries" or "none""#, |_| true;
    }

    /// `[node]`
    NodeSettings, "node.", |settings| &settings.node => [
        /// Images.
        images: NodeImageSettings,
        /// Pressure on the image file system.
        pressure: NodePressureSettings,
        /// Where the logs of pods are.
        roots: NodeRootSettings,
    ] {
        /// The socket of the container runtime; empty means the only one that is found.
        runtime_endpoint: String,
            r#"the socket of a container runtime, such as "unix:///run/containerd/containerd.sock", or empty (the only one that exists)"#,
            |s| is_endpoint(&s.runtime_endpoint);
        /// The name of this node; empty means the hostname in lower case.
        name: String, "the name of a node, or empty (the hostname)", |s| s.name.is_empty() || is_name(&s.name);
        /// Who knows the pods of this node.
        pods: PodKnowledge, r#""api" or "none""#, |_| true;
        /// The file with the ages of images.
        state: PathBuf, "the absolute path of a file", |s| s.state.is_absolute() && s.state.file_name().is_some();
        /// What may be removed beside a kubelet.
        beside_kubelet: BesideKubelet, r#""nothing", "images" or "all""#, |_| true;
        /// How long ago a dead container must have been created.
        min_age: Duration as "duration", AGE, |s| s.min_age <= YEAR;
        /// How many dead containers of one name in a pod stay; -1 means all.
        max_per_container: i64, DEAD, |s| (-1..=1_000_000).contains(&s.max_per_container);
        /// How many dead containers stay in all; -1 means all.
        max_total: i64, DEAD, |s| (-1..=1_000_000).contains(&s.max_total);
        /// The usage of the image file system in percent from which on images go.
        high: u8, "a whole percentage from 1 to 100", |s| (1..=100).contains(&s.high);
        /// The usage in percent down to which images go.
        low: u8, "a whole percentage from 0, below `node.high`", |s| s.low < s.high;
        /// How often dead containers, sandboxes and logs are collected.
        period: Duration as "duration", PERIOD, |s| (SECOND..=DAY).contains(&s.period);
    }

    /// `[node.images]`
    NodeImageSettings, "node.images.", |settings| &settings.node.images => {
        /// How long an image stays after it was first seen.
        min_age: Duration as "duration", AGE, |s| s.min_age <= YEAR;
        /// How long an unused image stays; zero means as long as there is space.
        max_age: Duration as "duration", r#"a duration up to ten years, with its unit; "0s" means no limit"#,
            |s| s.max_age <= 10 * YEAR;
        /// Names of images that stay; `*` stands for any text.
        keep: Vec<String>,
            "a list of at most 256 names of images without spaces and commas, in which `*` stands for any text",
            |s| s.keep.len() <= 256 && s.keep.iter().all(|pattern| is_pattern(pattern));
        /// Whether images stay that no registry has under a digest.
        keep_local: bool, FLAG, |_| true;
        /// How often images are collected.
        period: Duration as "duration", PERIOD, |s| (SECOND..=DAY).contains(&s.period);
    }

    /// `[node.pressure]`
    NodePressureSettings, "node.pressure.", |settings| &settings.node.pressure => {
        /// Whether pressure counts at all.
        enabled: bool, FLAG, |_| true;
        /// The free percentage of the bytes below which there is pressure.
        bytes: u8, FREE, |s| s.bytes <= 99;
        /// The free percentage of the inodes below which there is pressure.
        inodes: u8, FREE, |s| s.inodes <= 99;
    }

    /// `[node.roots]`
    NodeRootSettings, "node.roots.", |settings| &settings.node.roots => {
        /// The directory of the pods' logs.
        pods: String, "an absolute path of at least two parts, without `.` and `..`", |s| is_root(&s.pods);
        /// The directory of the symlinks to the containers' logs.
        containers: String,
            "an absolute path of at least two parts, without `.` and `..`, other than `node.roots.pods`",
            |s| is_root(&s.containers) && s.containers != s.pods;
    }
}

fn is_set(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}
