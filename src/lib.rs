//! kube-gc: a garbage collector for Kubernetes.
//!
//! When an object is deleted, something has to delete its dependents, orphan them, or keep the
//! object until they are gone. In most clusters kube-controller-manager does that. This library
//! does it inside any process: next to a bare API server, in tests of a controller, or in a control
//! plane of your own. The binary of the same name runs it as a process of its own.
//!
//! ```no_run
//! use kube_gc::Collector;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = kube::Config::infer().await?;
//! let collector = Collector::builder(config).start().await?;
//! // … delete an owner …
//! collector.wait_idle().await?;
//! collector.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`kube`] and [`k8s_openapi`] are the versions that fit. [`Collector`] has an example that runs, and so has
//! `examples/collect.rs`. `ARCHITECTURE.md`
//! describes the inside: the rules are pure functions over plain data (the crate `kube_gc_core`),
//! thin actors feed them (`kube_gc_controller`), and one crate talks to the API server (`kube_gc_client`).

// What only the program calls.
#![cfg_attr(not(feature = "cli"), allow(dead_code, unused_imports))]

mod app;
#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "demo")]
mod demo;
#[cfg(feature = "cli")]
mod insight;
mod introspect;
#[cfg(feature = "node")]
mod node;

#[doc(hidden)]
pub mod internals;

pub use app::collector::{Builder, Collector, QueueStatus, ResourceStatus, Status};
pub use app::{Error, ErrorKind};
pub use {k8s_openapi, kube};

/// The settings of a collector. `config/default.toml` documents each of them. [`Loader`](settings::Loader) reads
/// some of them from TOML; the others keep their defaults.
pub mod settings {
    pub use kube_gc_config::{
        AccessSettings, BesideKubelet, BrakeSettings, ClientSettings, ComparisonSettings, ConfigError,
        DebugSettings, DecisionLines, DiscoverySettings, Encoding, EventSettings, GraphSettings,
        GraphThreads, HttpSettings, LeaderSettings, Listener, Listeners, Loader, LogFormat, LogSettings,
        NamespaceSettings, NodeImageSettings, NodePressureSettings, NodeRootSettings, NodeSettings, Origin,
        PodKnowledge, RetrySettings, Settings, ShutdownSettings, StartupSettings, TlsSettings, WatchProtocol,
        WatchSettings, WorkerSettings,
    };
    pub use kube_gc_core::object::GroupResource;
}

#[cfg(feature = "cli")]
/// The binary: parses the arguments of this process and returns its exit code.
#[doc(hidden)]
#[must_use]
pub fn main() -> std::process::ExitCode {
    cli::main()
}

// The example's tests name the library as its users do.
#[cfg(test)]
extern crate self as kube_gc;
