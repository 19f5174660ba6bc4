//! Composition: builds a whole collector out of the other modules.
//!
//! | module | content |
//! |---|---|
//! | `collector` | the public [`Collector`](collector::Collector): in a process of somebody else, without listeners |
//! | `run` | the long-running process of `kube-gc run`: connect, serve, elect, collect, shut down |
//! | `served` | a collector and its two listeners |
//! | `controller` | which actors there are, and which of them know each other |
//! | `connect` | checks that the API server is reachable and that the credentials are sufficient |
//! | `election`, `protection` | leader election; TLS and authorization of the listeners |
//! | `insight` | the process of `kube-gc tree` and `kube-gc explain` |
//! | `node` | the process of `kube-gc node` |
//! | `settings` | translates [`Settings`](crate::config::Settings) into those of the client and the actors |
//! | `ready_file`, `parent` | what tells a program that started the collector that it is ready, and the other way round |
//! | `threads`, `signals` | runtimes and their threads, SIGTERM and SIGINT |
//!
//! The command line, the demo and the library all start here. Nothing here depends on `cli`.

pub mod collector;
mod connect;
pub mod controller;
mod election;
mod error;
pub mod insight;
#[cfg(feature = "node")]
pub mod node;
mod parent;
mod protection;
mod ready_file;
mod request_metrics;
mod run;
mod served;
mod settings;
mod signals;
mod threads;

pub use error::{Error, ErrorKind};
#[cfg(feature = "demo")]
pub use protection::Protections;
pub use run::{RunOptions, Target, run};
#[cfg(feature = "demo")]
pub use served::ServedCollector;
#[cfg(feature = "demo")]
pub use settings::api as api_settings;
#[cfg(feature = "demo")]
pub use signals::termination;
#[cfg(feature = "demo")]
pub use threads::{Threads, block_on_one_runtime};
