//! What can go wrong, for people: what failed, on what, why, and what to do.

use std::path::PathBuf;
use std::time::Duration;

use crate::Rpc;
use crate::endpoint::{KNOWN, Known};

/// Why a runtime cannot be used, or why it did not do what it was asked for.
///
/// What a runtime says is bounded and escaped wherever it is shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An endpoint that is none.
    #[error("{endpoint:?} is not a runtime endpoint: {why}; write unix:///path/of/the.sock")]
    MalformedEndpoint {
        /// As it was written.
        endpoint: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// None of the usual sockets exists.
    #[error("no container runtime found; looked for {}; name its socket", places(&KNOWN))]
    NoRuntime,
    /// More than one of the usual sockets exists.
    #[error("several container runtimes found: {}; name the socket of the one to use", places(found))]
    SeveralRuntimes {
        /// All of them.
        found: Vec<Known>,
    },
    /// Nothing is at the path.
    #[error("there is no socket {path:?}: the runtime is not running, or has its socket elsewhere")]
    NoSocket {
        /// Where the socket should be.
        path: PathBuf,
    },
    /// Something else is at the path.
    #[error("{path:?} is not a socket: name the socket of the container runtime")]
    NotASocket {
        /// What is no socket.
        path: PathBuf,
    },
    /// The socket is not open to this user.
    #[error("no permission to use the socket {path:?}: it is open only to its owner, usually root")]
    NoPermission {
        /// The socket.
        path: PathBuf,
    },
    /// The socket exists, but nothing accepts connections on it.
    #[error("nothing listens on the socket {path:?}: the runtime has ended or is starting")]
    NotListening {
        /// The socket.
        path: PathBuf,
    },
    /// The system refused the connection for another reason.
    #[error("cannot connect to the socket {path:?}: {}", escaped(detail))]
    Connect {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        detail: String,
    },
    /// Something listens that does not speak CRI.
    #[error(
        "{path:?} does not serve the container runtime interface ({}): name the socket of a container \
         runtime; if it is containerd, its configuration may list \"cri\" under disabled_plugins",
        escaped(detail)
    )]
    NotCri {
        /// The socket.
        path: PathBuf,
        /// What it answered.
        detail: String,
    },
    /// The runtime did not answer in time. Whether it has done what it was asked for is unknown.
    #[error("the container runtime did not answer {rpc} within {} s", after.as_secs_f64())]
    Deadline {
        /// The call.
        rpc: Rpc,
        /// How long it had.
        after: Duration,
    },
    /// The connection ended before the answer. Whether the runtime has done what it was asked for is
    /// unknown.
    #[error("the connection to the container runtime ended during {rpc}: {}", escaped(detail))]
    Disconnected {
        /// The call.
        rpc: Rpc,
        /// What is known of the reason.
        detail: String,
    },
    /// The runtime answers that it cannot answer now, for example because it is starting.
    #[error("the container runtime is not ready for {rpc}: {}", escaped(detail))]
    NotReady {
        /// The call.
        rpc: Rpc,
        /// What the runtime says.
        detail: String,
    },
    /// A list is longer than a message may be.
    #[error("the answer to {rpc} is too large: {}", escaped(detail))]
    TooLarge {
        /// The call.
        rpc: Rpc,
        /// What the runtime says.
        detail: String,
    },
    /// The runtime does not have what the call is about.
    #[error("the container runtime does not have what {rpc} asked for: {}", escaped(detail))]
    NotFound {
        /// The call.
        rpc: Rpc,
        /// What the runtime says.
        detail: String,
    },
    /// The runtime does not serve the call.
    #[error("the container runtime does not serve {rpc}: {}", escaped(detail))]
    Unimplemented {
        /// The call.
        rpc: Rpc,
        /// What the runtime says.
        detail: String,
    },
    /// The runtime refused or failed.
    #[error("the container runtime failed at {rpc}: {} ({code})", escaped(detail))]
    Runtime {
        /// The call.
        rpc: Rpc,
        /// The code of gRPC, in words.
        code: &'static str,
        /// What the runtime says.
        detail: String,
    },
    /// A call without an id. Runtimes take ids by their beginnings, so an empty one could be any.
    #[error("{rpc} was not sent, because it names nothing")]
    NothingNamed {
        /// The call.
        rpc: Rpc,
    },
}

impl Error {
    /// Whether nothing has answered. If the call was sent, the runtime may have done what it was asked for.
    pub fn is_unanswered(&self) -> bool {
        use Error::{Connect, Deadline, Disconnected, NoSocket, NotListening, NotReady};
        matches!(
            self,
            Deadline { .. }
                | Disconnected { .. }
                | NotReady { .. }
                | NoSocket { .. }
                | NotListening { .. }
                | Connect { .. }
        )
    }
}

/// Lists runtimes and their sockets.
fn places(known: &[Known]) -> String {
    let place = |known: &Known| format!("{} ({})", known.path, known.name);
    known.iter().map(place).collect::<Vec<_>>().join(", ")
}

/// An error with what has caused it.
pub(crate) fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The maximum number of characters of a runtime's message that are shown.
const LONGEST: usize = 512;

/// Shows a text of a runtime: bounded, and without anything that a terminal obeys.
fn escaped(text: &str) -> String {
    let mut shown = String::new();
    for (at, character) in text.trim().chars().enumerate() {
        if at == LONGEST {
            shown.push('…');
            break;
        }
        // What Rust escapes in a literal (control characters, text direction, characters
        // without a shape), but quotes and backslashes as they are.
        match character {
            '"' | '\'' | '\\' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        let text = escaped("no \"such\" \u{1b}[2Jcontainer\r\n\u{202e}x\u{0}");
        assert_eq!(text, "no \"such\" \\u{1b}[2Jcontainer\\r\\n\\u{202e}x\\0");
        assert_eq!(escaped(" fine \n"), "fine");
        let long = escaped(&"é".repeat(100_000));
        assert_eq!(long.chars().count(), LONGEST + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn what_a_runtime_says_is_escaped_and_bounded() {
        let detail = format!("\u{1b}]0;owned\u{7}{}", "x".repeat(100_000));
        for error in [
            Error::NotFound { rpc: Rpc::StopContainer, detail: detail.clone() },
            Error::Runtime { rpc: Rpc::StopContainer, code: "unknown", detail: detail.clone() },
            Error::TooLarge { rpc: Rpc::ListContainers, detail: detail.clone() },
            Error::NotCri { path: "/run/x".into(), detail: detail.clone() },
            Error::Disconnected { rpc: Rpc::ListContainers, detail },
        ] {
            let text = error.to_string();
            assert!(!text.contains(['\u{1b}', '\u{7}']), "{text}");
            assert!(text.chars().count() < 1000, "{} characters", text.chars().count());
        }
    }
}
