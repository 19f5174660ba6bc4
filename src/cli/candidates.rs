//! What completes the names of types, objects, namespaces and contexts: what the cluster answers within a
//! second, as in kubectl.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::{ArgMatches, Command, CommandFactory as _, FromArgMatches as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use kube::config::Kubeconfig;

use super::Cli;
use crate::app::Target;
use crate::app::insight::{Connection, ask};
use crate::insight::Session;

/// The time that a person waits for a key.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same command, whose arguments complete from the cluster.
pub fn from_cluster(command: Command) -> Command {
    command.mut_subcommands(|sub| {
        sub.mut_args(|argument| match argument.get_id().as_str() {
            "object" | "objects" => argument.add(ArgValueCompleter::new(objects)),
            "namespace" | "collector_namespace" => argument.add(ArgValueCompleter::new(|current: &OsStr| {
                candidates(current, asked(&Line::read(), async |session| names(session, "namespaces").await))
            })),
            "context" => argument.add(ArgValueCompleter::new(contexts)),
            _ => argument,
        })
    })
}

/// Types, and the names of objects after a type: `TYPE/NAME...`, `TYPE NAME...` or, with a selector, `TYPE,TYPE...`.
fn objects(current: &OsStr) -> Vec<CompletionCandidate> {
    let (word, line) = (current.to_string_lossy(), Line::read());
    let first = line.first("object").or(line.first("objects"));
    let of_type = first.filter(|first| !first.contains(['/', ':']) && line.first("selector").is_none());
    let found = asked(&line, async |session| match (word.split_once('/'), word.rsplit_once(','), of_type) {
        (Some((of_type, _)), ..) => {
            let names = names(session, of_type).await.into_iter();
            names.map(|name| format!("{of_type}/{name}")).collect()
        }
        (None, Some((types, _)), _) => {
            session.types_to_name().into_iter().map(|name| format!("{types},{name}")).collect()
        }
        (None, None, Some(of_type)) => names(session, of_type).await,
        (None, None, None) => session.types_to_name(),
    });
    candidates(current, found)
}

async fn names(session: &Session, of_type: &str) -> Vec<String> {
    session.names(of_type).await.unwrap_or_default()
}

fn contexts(current: &OsStr) -> Vec<CompletionCandidate> {
    let read = match Line::read().connection().target.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let contexts = read.unwrap_or_default().contexts.into_iter();
    candidates(current, contexts.map(|context| context.name).collect())
}

/// What the cluster answers.
fn asked(line: &Line, question: impl AsyncFnOnce(&Session) -> Vec<String>) -> Vec<String> {
    std::thread::spawn(|| {
        std::thread::sleep(PATIENCE);
        std::process::exit(0);
    });
    let answer = ask(&line.connection(), |_, _| {}, async |session| Ok(question(session).await));
    answer.ok().and_then(Result::ok).unwrap_or_default()
}

/// Those that begin with a word. A tenant chooses names, and a shell runs what it is given: of no type may a
/// name have other characters than these.
fn candidates(word: &OsStr, all: Vec<String>) -> Vec<CompletionCandidate> {
    let word = word.to_string_lossy();
    let is_harmless = |text: &String| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:/@,".contains(&byte))
            && !text.starts_with('-')
    };
    let mut fitting: Vec<String> =
        all.into_iter().filter(|text| text.starts_with(&*word) && is_harmless(text)).collect();
    fitting.sort();
    fitting.dedup();
    fitting.into_iter().map(CompletionCandidate::new).collect()
}

/// What was typed before the word that is completed, as far as it can be understood.
struct Line(ArgMatches);

impl Line {
    fn read() -> Self {
        let mut words: Vec<OsString> = std::env::args_os().collect();
        // A script of a shell gives the whole line after `--`, and where the word is in it.
        let index = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse().ok());
        if let (Some(index), Some(begin)) = (index, words.iter().position(|word| word == "--")) {
            words.drain(..=begin);
            words.truncate(index);
        } else {
            words.pop();
        }
        Self::of(words)
    }

    fn of(words: Vec<OsString>) -> Self {
        let matches = Cli::command().ignore_errors(true).try_get_matches_from(words).unwrap_or_default();
        Self(matches.subcommand().map(|(_, sub)| sub.clone()).unwrap_or_default())
    }

    /// The first value of an argument.
    fn first(&self, id: &str) -> Option<&String> {
        self.0.try_get_many(id).ok().flatten()?.next()
    }

    fn connection(&self) -> Connection {
        // It panics if the subcommand is not known, or has no such arguments.
        let has_target = self.0.try_contains_id("kubeconfig").is_ok();
        let target = has_target.then(|| Target::from_arg_matches(&self.0).ok()).flatten().unwrap_or_default();
        Connection { target, request_timeout: Some(PATIENCE), namespace: self.first("namespace").cloned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_not_understood_is_connected_by_default() {
        for (line, context) in [
            ("kube-gc --context x plan", None),
            ("kube-gc plan --context x", Some("x")),
            ("kube-gc --kubeconfig x explain", None),
            ("kube-gc -- explain c", None),
            ("kube-gc completion", None),
            ("kube-gc nothing", None),
            ("", None),
        ] {
            let connection = Line::of(line.split(' ').map(OsString::from).collect()).connection();
            assert_eq!(connection.target.context.as_deref(), context, "{line}");
            assert_eq!(connection.target.kubeconfig, None, "{line}");
        }
    }

    #[test]
    fn only_names_that_no_shell_runs_are_offered() {
        let all =
            ["web", "web", "we$(id)", "we b", "we`id`", "we;id", "other", "system:web"].map(str::to_owned);
        let offered = |word: &str| -> Vec<String> {
            let found = candidates(OsStr::new(word), all.to_vec());
            found.iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(offered("we"), ["web"]);
        assert_eq!(offered("system:"), ["system:web"]);
        assert_eq!(candidates(OsStr::new(""), vec!["--help".to_owned()]).len(), 0);
    }
}
