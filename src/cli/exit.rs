//! Exit codes, for scripts and supervisors.

use std::process::ExitCode;

use crate::app::ErrorKind;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    Success = 0,
    /// Or a finding. The own failures of commands that find something are [`Unanswered`](Self::Unanswered).
    Failure = 1,
    /// clap uses the same code.
    Usage = 2,
    Kubeconfig = 3,
    Unreachable = 4,
    Credentials = 5,
    Forbidden = 6,
    Incomplete = 7,
    NoSuchObject = 8,
    Unanswered = 9,
    Address = 10,
    /// `EX_SOFTWARE`. A half-updated graph is worse than a restart, so the supervisor of the process should
    /// restart it.
    Panicked = 70,
}

/// What each code means for which commands. "node" stands for all of its subcommands. docs/operations.md has the
/// same table.
const MEANINGS: &[(Exit, &str, &str)] = &[
    (Exit::Success, "done", "all"),
    (Exit::Success, "ended by SIGTERM or SIGINT", "run, node run"),
    (Exit::Failure, "failed in a way that has no code of its own", "run, node"),
    (Exit::Failure, "ended by SIGTERM or SIGINT before anything was removed", "node once"),
    (Exit::Failure, "findings that `--fail-on` counts", "check"),
    (Exit::Failure, "more objects are deleted than `--fail-above` allows", "plan"),
    (Exit::Failure, "something is stuck", "stuck"),
    (Exit::Failure, "something below stays (`--watch`)", "tree"),
    (Exit::Usage, "bad arguments or configuration", "all"),
    (Exit::Kubeconfig, "kubeconfig unreadable or malformed, or without the context asked for", "all"),
    (Exit::Unreachable, "API server unreachable", "all but node"),
    (Exit::Unreachable, "API server or container runtime unreachable", "node"),
    (Exit::Credentials, "credentials refused (401), or the server's certificate not trusted", "all"),
    (Exit::Forbidden, "not allowed to discover or list (403)", "all but node"),
    (Exit::Forbidden, "not allowed to read pods (403), or to use the runtime's socket", "node"),
    (Exit::Incomplete, "not everything could be looked at", "tree, explain, check, plan, stuck"),
    (Exit::Incomplete, "not everything could be seen, removed or freed, as after SIGTERM", "node once"),
    (Exit::NoSuchObject, "no such object, namespace or type of objects", "tree, explain, check, plan, stuck"),
    (Exit::Unanswered, "failed in another way", "tree, explain, check, plan, stuck"),
    (Exit::Address, "address of a listener not available, such as a port in use", "run, node run"),
    (Exit::Panicked, "a part of the graph panicked; restart it", "run"),
];

/// The end of a command's `--help`: examples, and its own exit codes.
pub fn after(examples: &str, command: &str) -> String {
    let is_its_own = |whose: &str| {
        let is_of =
            |of: &str| command.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        whose == "all" || is_of(whose) || whose.strip_prefix("all but ").is_some_and(|of| !is_of(of))
    };
    let own = MEANINGS.iter().filter(|(_, _, whose)| whose.split(", ").any(is_its_own));
    let lines = own.map(|(exit, meaning, _)| format!("\n  {:>2}  {}", exit.code(), meaning.replace('`', "")));
    format!("{examples}\n\nExit codes:{}", lines.collect::<String>())
}

impl Exit {
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Settings | ErrorKind::Argument => Self::Usage,
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
        for (exit, meaning, whose) in MEANINGS {
            let row = format!("| {} | {meaning} | {whose} |", exit.code());
            assert!(page.contains(&row), "docs/operations.md lacks {row}");
        }
    }

    #[test]
    fn the_help_of_a_command_has_its_own_codes_alone() {
        let codes = |command: &str| -> Vec<String> {
            let lines = after("", command).lines().skip(3).map(str::to_owned).collect::<Vec<_>>();
            lines.iter().filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
        };
        assert_eq!(codes("node plan"), ["0", "1", "2", "3", "4", "5", "6"]);
        assert_eq!(codes("node once"), ["0", "1", "1", "2", "3", "4", "5", "6", "7"]);
        assert_eq!(codes("node run"), ["0", "0", "1", "2", "3", "4", "5", "6", "10"]);
        assert_eq!(codes("tree"), ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
        assert_eq!(codes("plan"), ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    }
}
