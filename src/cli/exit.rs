//! Exit codes, for scripts and supervisors.

use std::process::ExitCode;

use crate::app::ErrorKind;

/// The codes, each with its meaning for `--help`. docs/operations.md has the same table.
macro_rules! exits {
    ($($(#[$doc:meta])* $exit:ident = $code:literal, $meaning:literal;)*) => {
        /// How the process ends.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Exit {
            $($(#[$doc])* #[doc = $meaning] $exit = $code,)*
        }

        /// The codes and their meanings.
        const MEANINGS: &[(u8, &str)] = &[$(($code, $meaning)),*];
    };
}

exits! {
    Success = 0, "done, or ended on request (SIGTERM or SIGINT)";
    /// The last line of output says which. `check`, `plan` and `stuck` have found something, or too much;
    /// their own failures are [`Unanswered`](Self::Unanswered).
    Failure = 1, "failed in a way that has no code of its own; with findings (check, plan, stuck)";
    /// clap uses the same code.
    Usage = 2, "bad arguments or configuration";
    Kubeconfig = 3, "kubeconfig unreadable or malformed, or without the context asked for";
    Unreachable = 4, "API server or container runtime unreachable";
    Credentials = 5, "credentials refused (401), or the server's certificate not trusted";
    Forbidden = 6, "not allowed to discover or list (403), or to use the container runtime's socket";
    Incomplete = 7, "not everything could be freed or removed (node), or looked at (questions about objects)";
    NoSuchObject = 8, "no such object (tree, explain, plan) or namespace (check, stuck)";
    Unanswered = 9, "failed in another way (tree, explain, check, plan, stuck)";
    Address = 10, "address of a listener not available, such as a port in use";
    /// `EX_SOFTWARE`. A half-updated graph is worse than a restart, so the supervisor of the process should
    /// restart it.
    Panicked = 70, "a part of the graph panicked; restart it";
}

/// The end of `--help`.
pub fn help() -> String {
    let lines = MEANINGS.iter().map(|(code, meaning)| format!("\n  {code:>2}  {meaning}"));
    format!("Exit codes:{}", lines.collect::<String>())
}

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

    #[test]
    fn every_code_is_in_the_documentation() {
        let page = include_str!("../../docs/operations.md");
        for (code, meaning) in MEANINGS {
            assert!(page.contains(&format!("| {code} | {meaning} |")), "{code} is not in docs/operations.md");
        }
    }
}
