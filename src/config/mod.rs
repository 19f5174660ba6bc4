//! The configuration: its settings, their defaults, and the sources that they come from.
//!
//! Later sources win: built-in defaults, then the TOML file, then environment
//! variables, then flags. Keys are in snake case. The environment variable of a key is
//! `KUBE_GC__SECTION__KEY`; commas separate the elements of a list. An unknown key is an
//! error that names its source.
//!
//! `config/default.toml` documents each key, and is the [`Default`] of [`Settings`].

mod collector;
mod error;
#[cfg(feature = "internals")]
pub(crate) mod fuzzing;
mod load;
mod node;
mod process;
mod rules;
mod text;

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

pub use collector::{
    BrakeSettings, ClientSettings, ComparisonSettings, DiscoverySettings, Encoding, EventSettings,
    GraphSettings, GraphThreads, LeaderSettings, NamespaceSettings, RetrySettings, WatchProtocol,
    WatchSettings, WorkerSettings, available_cores,
};
pub use error::ConfigError;
pub use load::Loader;
pub use node::{
    BesideKubelet, NodeImageSettings, NodePressureSettings, NodeRootSettings, NodeSettings, PodKnowledge,
};
pub use process::{
    AccessSettings, DebugSettings, DecisionLines, HttpSettings, Listener, Listeners, LogFormat, LogSettings,
    ShutdownSettings, StartupSettings, TlsSettings,
};

/// The validated configuration. `Loader` reads it; [`Default`] has the built-in values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Decide and report, but write nothing.
    pub dry_run: bool,
    /// Delete the content of terminating namespaces and finalize them.
    pub finish_namespaces: bool,
    /// When they are finalized.
    pub namespaces: NamespaceSettings,
    /// How a dry run compares its decisions with another collector.
    pub comparison: ComparisonSettings,
    /// How many objects are processed at a time.
    pub workers: WorkerSettings,
    /// The graph of owners and dependents.
    pub graph: GraphSettings,
    /// Which resource types are discovered.
    pub discovery: DiscoverySettings,
    /// Lists and watches.
    pub watch: WatchSettings,
    /// The backoff of failed work.
    pub retry: RetrySettings,
    /// Events about objects that are stuck.
    pub events: EventSettings,
    /// Leader election among replicas.
    pub leader: LeaderSettings,
    /// Limits on deletion.
    pub brake: BrakeSettings,
    /// The start of the process.
    pub startup: StartupSettings,
    /// Requests to the API server.
    pub client: ClientSettings,
    /// The end of the process.
    pub shutdown: ShutdownSettings,
    /// The addresses of the listeners.
    pub http: HttpSettings,
    /// TLS of the listeners.
    pub tls: TlsSettings,
    /// Authorization of requests to the listeners.
    pub access: AccessSettings,
    /// The data behind the debug pages.
    pub debug: DebugSettings,
    /// The log.
    pub log: LogSettings,
    /// Node collection: `kube-gc node`.
    pub node: NodeSettings,
}

/// The built-in values.
static DEFAULTS: LazyLock<Settings> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "see the message")]
    Loader::new().load().expect("the file is a part of the program, and every test of this module reads it")
});

impl Default for Settings {
    fn default() -> Self {
        DEFAULTS.clone()
    }
}

macro_rules! default_sections {
    ($($section:ident: $type:ty),+ $(,)?) => {$(
        impl Default for $type {
            fn default() -> Self {
                DEFAULTS.$section.clone()
            }
        }
    )+};
}
default_sections! {
    access: AccessSettings,
    brake: BrakeSettings,
    client: ClientSettings,
    comparison: ComparisonSettings,
    debug: DebugSettings,
    discovery: DiscoverySettings,
    events: EventSettings,
    graph: GraphSettings,
    http: HttpSettings,
    leader: LeaderSettings,
    log: LogSettings,
    namespaces: NamespaceSettings,
    node: NodeSettings,
    retry: RetrySettings,
    shutdown: ShutdownSettings,
    startup: StartupSettings,
    tls: TlsSettings,
    watch: WatchSettings,
    workers: WorkerSettings,
}

impl Settings {
    /// Settings that are valid but may have unexpected effects. The log shows these warnings
    /// at start, and `/readyz?verbose` those for ignored types.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.ignored_type_warnings();
        if self.client.qps == 0 && self.client.burst > 0 {
            warnings.push("`client.burst` has no effect, because `client.qps` is 0 (no limit)".to_owned());
        }
        if self.leader.enabled && self.dry_run {
            warnings.push(
                "`leader.enabled` has no effect, because this is a dry run: it writes nothing, not even the Lease"
                    .to_owned(),
            );
        }
        if self.dry_run && !self.brake.limits().is_off() {
            warnings.push("`brake` has no effect, because this is a dry run: it deletes nothing".to_owned());
        }
        warnings.extend(process::exposure_warnings(self));
        warnings
    }

    /// The first key whose value is out of bounds, in words. [`Loader`] reports it with its source;
    /// this is for settings that were made by other means.
    pub(crate) fn violation(&self) -> Option<String> {
        let broken = rules::RULES.iter().find(|rule| !(rule.holds)(self))?;
        Some(format!("`{}` is out of bounds: it must be {}", broken.key, broken.allowed))
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
