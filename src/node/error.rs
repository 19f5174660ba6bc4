//! Why node collection cannot begin.

use kube_gc_cri as cri;

/// Why a node cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The container runtime cannot be used.
    #[error("{0}")]
    Runtime(#[from] cri::Error),
    /// A plan breaks one of its own invariants. Nothing was removed.
    #[error("the plan contradicts itself, so nothing was removed: {0}; this is a bug of kube-gc")]
    Unsafe(String),
}

/// What kind of problem an error is, for exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The endpoint is wrong.
    Settings,
    /// Nothing answers there.
    Unreachable,
    /// It is not open to this user.
    Forbidden,
    /// Anything else.
    Other,
}

impl NodeError {
    /// What kind of problem this is.
    #[must_use]
    pub const fn problem(&self) -> Problem {
        use cri::Error as E;
        match self {
            Self::Runtime(error) => match error {
                E::MalformedEndpoint { .. }
                | E::SeveralRuntimes { .. }
                | E::NotASocket { .. }
                | E::NotCri { .. } => Problem::Settings,
                E::NoRuntime
                | E::NoSocket { .. }
                | E::NotListening { .. }
                | E::Connect { .. }
                | E::Deadline { .. }
                | E::Disconnected { .. }
                | E::NotReady { .. } => Problem::Unreachable,
                E::NoPermission { .. } => Problem::Forbidden,
                E::TooLarge { .. }
                | E::NotFound { .. }
                | E::Unimplemented { .. }
                | E::Runtime { .. }
                | E::NothingNamed { .. } => Problem::Other,
            },
            Self::Unsafe(_) => Problem::Other,
        }
    }
}
