//! Why a collector did not start, or did not end well.

use std::fmt;

/// What kind of problem an [`Error`] reports. The exit code of `kube-gc` depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting has a value that cannot be used.
    Settings,
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
    /// Anything else: the operating system provides no thread, or a part of the collector failed.
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
    #[must_use]
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
