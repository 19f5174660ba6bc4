//! The configuration: its settings, their defaults, and the sources that they come from.
//!
//! Later sources win: built-in defaults, then the TOML file, then environment
//! variables, then flags. Keys are in snake case. The environment variable of a key is
//! `KUBE_GC__SECTION__KEY`; commas separate the elements of a list. An unknown key is an
//! error that names its source.
//!
//! `settings` has each key with its type and its range. `config/default.toml` documents each key for
//! users, and is the [`Default`] of [`Settings`].

mod load;
mod settings;
#[doc(hidden)]
pub mod testing;
mod values;

use std::num::{NonZeroU32, NonZeroUsize};

use kube_gc_core::brake::{Limits, Share};
use kube_gc_core::object::GroupResource;

pub use load::{ConfigError, Loader, Origin};
pub use settings::{
    AccessSettings, BrakeSettings, ClientSettings, ComparisonSettings, DebugSettings, DiscoverySettings,
    EventSettings, GraphSettings, HttpSettings, LeaderSettings, LogSettings, NamespaceSettings,
    NodeImageSettings, NodePressureSettings, NodeRootSettings, NodeSettings, RetrySettings, Settings,
    ShutdownSettings, StartupSettings, TlsSettings, WatchSettings, WorkerSettings,
};
pub use values::{
    BesideKubelet, DecisionLines, Encoding, GraphThreads, Listener, Listeners, LogFormat, PodKnowledge,
    WatchProtocol,
};

/// The number of cores that this process may use.
pub fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

impl GraphSettings {
    /// The number of partitions on a machine with this many cores. The default is at most 8: each takes
    /// a thread and some memory, and events rarely keep more of them busy.
    pub fn partition_count(&self, cores: usize) -> usize {
        match self.partitions {
            0 => cores.clamp(1, 8),
            count => count.into(),
        }
    }

    /// Whether each partition has its own thread on a machine with this many cores. With one or two,
    /// reading what the API server sends keeps all of them busy.
    pub fn has_own_threads(&self, cores: usize) -> bool {
        match self.threads {
            GraphThreads::Auto => cores > 2,
            GraphThreads::Own => true,
            GraphThreads::Shared => false,
        }
    }
}

impl WatchSettings {
    /// The number of list threads on a machine with this many cores. The default is at most 4: the API
    /// server does not send faster than these read.
    pub fn list_thread_count(&self, cores: usize) -> usize {
        match self.list_threads {
            0 => cores.clamp(1, 4),
            count => count.into(),
        }
    }
}

impl DiscoverySettings {
    /// Events. A cluster has many of them, they expire soon, and they have no owners.
    pub fn never_collected() -> [GroupResource; 2] {
        [GroupResource::new("", "events"), GroupResource::new("events.k8s.io", "events")]
    }
}

impl BrakeSettings {
    /// The limits that the brake enforces.
    #[doc(hidden)]
    pub fn limits(&self) -> Limits {
        let Self { window, percent_floor: floor, .. } = *self;
        Limits {
            per_minute: NonZeroU32::new(self.deletions_per_minute),
            namespace_per_minute: NonZeroU32::new(self.namespace_deletions_per_minute),
            share: NonZeroU32::new(self.percent).map(|percent| Share { percent, window, floor }),
        }
    }
}

impl Settings {
    /// Settings that are valid but may have unexpected effects. The log shows these warnings
    /// at start, and `/readyz?verbose` those for ignored types.
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
        warnings.extend(self.exposure_warnings());
        warnings
    }

    /// Warnings about pages and tokens that a network can read.
    fn exposure_warnings(&self) -> Vec<String> {
        let Self { http, tls, access, .. } = self;
        let mut warnings = Vec::new();
        if !http.debug_listen.ip().is_loopback() && !access.listeners.include(Listener::Debug) {
            warnings.push(format!(
                "everyone who can reach {} can read the debug pages, which show the names of all owners and \
                 dependents; set `access.listeners` to require authorization",
                http.debug_listen
            ));
        }
        for (listener, address) in [(Listener::Health, http.listen), (Listener::Debug, http.debug_listen)] {
            let in_the_clear = access.listeners.include(listener) && !tls.listeners.include(listener);
            if in_the_clear && !address.ip().is_loopback() {
                warnings.push(format!(
                    "tokens are sent to {address} without encryption, and anyone who can read that network can use them; \
                     set `tls.listeners` to require TLS"
                ));
            }
        }
        if tls.listeners == Listeners::None && !tls.certificate.as_os_str().is_empty() {
            warnings.push("`tls.certificate` has no effect, because `tls.listeners` is \"none\"".to_owned());
        }
        warnings
    }

    /// The ignored types, without events.
    pub fn ignored_types(&self) -> impl Iterator<Item = &GroupResource> {
        let harmless = DiscoverySettings::never_collected();
        self.discovery.ignored.iter().filter(move |ignored| !harmless.contains(ignored))
    }

    /// One warning for each ignored type that is not an event.
    pub fn ignored_type_warnings(&self) -> Vec<String> {
        let warning = |ignored: &GroupResource| {
            format!(
                "{ignored} is ignored: its foreground and orphan deletions will never end, because the API server \
                 still adds the finalizers"
            )
        };
        self.ignored_types().map(warning).collect()
    }

    /// The first key whose value is out of bounds, in words. [`Loader`] reports it with its source;
    /// this is for settings that were made by other means.
    pub fn violation(&self) -> Option<String> {
        let broken = settings::RULES.iter().find(|rule| !(rule.holds)(self))?;
        Some(format!("`{}` is out of bounds: it must be {}", broken.key, broken.allowed))
    }
}

#[cfg(test)]
mod tests;
