//! Exit codes, for scripts and supervisors.

use std::process::ExitCode;

use crate::app::ErrorKind;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Done, or ended on request (SIGTERM, SIGINT).
    Success = 0,
    /// Failed for a reason without a code of its own. The last line of output says which. `check`,
    /// `plan` and `stuck` have found something, or too much; their own failures are
    /// [`Unanswered`](Self::Unanswered).
    Failure = 1,
    /// Bad arguments or configuration. clap uses the same code.
    Usage = 2,
    /// The kubeconfig cannot be read or understood, or does not have the requested context.
    Kubeconfig = 3,
    /// The API server or the container runtime cannot be reached.
    Unreachable = 4,
    /// The API server rejects the credentials (401), or its certificate is not trusted.
    Credentials = 5,
    /// The credentials are valid but do not allow enough (403), or the socket of the container
    /// runtime is not open to this user.
    Forbidden = 6,
    /// A pass of node collection could not free or remove all that it was to, or not everything
    /// could be looked at that an answer depends on.
    Incomplete = 7,
    /// There is no such object, or no such type.
    NoSuchObject = 8,
    /// A question about the cluster failed for a reason without a code of its own.
    Unanswered = 9,
    /// A listener cannot bind its address: another process uses the port, or the address does
    /// not belong to this machine.
    Address = 10,
    /// A part of the graph panicked: `EX_SOFTWARE`. A half-updated graph is worse than a restart,
    /// so the supervisor of the process should restart it.
    Panicked = 70,
}

/// The end of `--help`. docs/operations.md has the same table.
pub(super) const HELP: &str = "\
Exit codes:
   0  done, or ended on request (SIGTERM or SIGINT)
   1  failed in a way that has no code of its own; with findings (check, plan, stuck)
   2  bad arguments or configuration
   3  kubeconfig unreadable or malformed, or without the context asked for
   4  API server or container runtime unreachable
   5  credentials refused (401), or the server's certificate not trusted
   6  not allowed to discover or list (403), or to use the container runtime's socket
   7  not everything could be freed or removed (node), or looked at (questions about objects)
   8  no such object (tree, explain, plan)
   9  failed in another way (tree, explain, check, plan, stuck)
  10  address of a listener not available, such as a port in use
  70  a part of the graph panicked; restart it";

impl Exit {
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Settings => Self::Usage,
            ErrorKind::Kubeconfig => Self::Kubeconfig,
            ErrorKind::Unreachable => Self::Unreachable,
            ErrorKind::Credentials => Self::Credentials,
            ErrorKind::Forbidden => Self::Forbidden,
            ErrorKind::Address => Self::Address,
            ErrorKind::Internal => Self::Failure,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Exit; 12] = [
        Exit::Success,
        Exit::Failure,
        Exit::Usage,
        Exit::Kubeconfig,
        Exit::Unreachable,
        Exit::Credentials,
        Exit::Forbidden,
        Exit::Incomplete,
        Exit::NoSuchObject,
        Exit::Unanswered,
        Exit::Address,
        Exit::Panicked,
    ];

    #[test]
    fn every_code_is_documented_in_the_help_and_in_the_documentation() {
        let page = include_str!("../../docs/operations.md");
        for exit in ALL {
            let code = exit.code();
            let (_, meaning) = HELP
                .lines()
                .filter_map(|line| line.trim().split_once("  "))
                .find(|(number, _)| *number == code.to_string())
                .unwrap_or_else(|| panic!("{code} is not in the help"));
            assert!(page.contains(&format!("| {code} | {meaning} |")), "{code} is not in docs/operations.md");
        }
    }
}
