//! Composition: builds a whole collector out of the other modules.
//!
//! | module | content |
//! |---|---|
//! | `collector` | the public [`Collector`](collector::Collector): in a process of somebody else, without listeners |
//! | `run` | the long-running process of `kube-gc run`: connect, serve, elect a leader, collect, shut down |
//! | `served` | a collector and its two listeners, with TLS and authorization |
//! | `controller` | which actors there are, and which of them know each other |
//! | `connect` | the client, by the settings; checks that the API server is reachable and that the credentials are sufficient |
//! | `insight` | the process of commands that answer, such as `kube-gc tree` |
//! | `node` | the process of `kube-gc node` |
//! | `process` | runtimes and threads, signals, the parent process, and the file of `--ready-file` |
//!
//! The command line, the demo and the library all start here. Nothing here depends on `cli`.

pub mod collector;
pub mod connect;
pub mod controller;
#[cfg(feature = "cli")]
pub mod insight;
#[cfg(feature = "node")]
pub mod node;
pub mod process;
#[cfg(feature = "cli")]
mod run;
#[cfg(feature = "cli")]
pub mod served;

use std::fmt;

#[cfg(feature = "cli")]
pub use run::{RunOptions, Target, run};

/// What kind of problem an [`Error`] reports. The exit code of `kube-gc` depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting has a value that cannot be used.
    Settings,
    /// An argument of a call has one.
    Argument,
    /// The kubeconfig cannot be read or understood, or does not have the requested context.
    Kubeconfig,
    /// The API server does not answer.
    Unreachable,
    /// The API server rejects the credentials (401), or its certificate is not trusted.
    Credentials,
    /// The API server accepts the credentials but does not allow what a garbage collector needs.
    Forbidden,
    /// A listener cannot bind its address.
    Address,
    /// Anything else: the operating system provides no thread or file, or a part of the collector failed.
    Internal,
}

/// Says what failed and, where there is something to do about it, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string() }
    }

    /// The kind of problem.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
