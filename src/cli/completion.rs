//! `kube-gc completion`, and the completion of `kubectl gc`.

use std::ffi::OsString;

use clap::builder::PossibleValue;
use clap::{Args, Command};
use clap_complete::CompleteEnv;
use clap_complete::env::{Bash, Fish, Shells, Zsh};

use super::exit::Exit;
use super::invoked::Invoked;
use super::report;
use super::text::print;
use crate::app::{Error, ErrorKind};
use kube_gc_core::text::escape::Escaped;

/// The end of `kube-gc completion --help`.
const EXAMPLES: &str = "\
Examples:
  For this shell
    source <(kube-gc completion bash)

  For every new one
    kube-gc completion fish > ~/.config/fish/completions/kube-gc.fish

kubectl completes `kubectl gc` by itself if this program is in the PATH as kubectl-gc and as
kubectl_complete-gc.";

/// What kubectl does with the candidates: it does not add the names of files
/// (`ShellCompDirectiveNoFileComp`).
const NO_FILES: &str = ":4\n";

/// The arguments of `kube-gc completion`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_parser = shells())]
    shell: String,
}

/// The shells that ask this program.
const SHELLS: Shells<'static> = Shells(&[&Bash, &Zsh, &Fish]);

fn shells() -> [PossibleValue; 3] {
    [("bash", "Bash"), ("zsh", "Zsh"), ("fish", "Fish")]
        .map(|(name, help)| PossibleValue::new(name).help(help))
}

/// The variable with which a script asks for the candidates of a word.
const VARIABLE: &str = "_KUBE_GC_COMPLETE";

/// Prints the script with which a shell completes command lines. It asks this program for each word.
pub fn run(args: &CompletionArgs, invoked: Invoked) -> Exit {
    let name = if invoked == Invoked::Directly { "kube-gc" } else { "kubectl-gc" };
    let mut script = Vec::new();
    if let Some(shell) = SHELLS.completer(&args.shell) {
        // Writing to memory cannot fail.
        let _ = shell.write_registration(VARIABLE, name, name, name, &mut script);
    }
    printed(&String::from_utf8_lossy(&script))
}

/// Prints the candidates of a word if the script of a shell has started this process, and returns its exit
/// code. Otherwise, this process runs a command.
pub fn asked(command: impl Fn() -> Command) -> Option<Exit> {
    let completion = CompleteEnv::with_factory(command).var(VARIABLE).shells(SHELLS);
    match completion.try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref()) {
        Ok(true) => Some(Exit::Success),
        Ok(false) => None,
        Err(error) => Some(report(&Error::new(ErrorKind::Settings, error))),
    }
}

/// Prints the candidates for the last word of a command line, as kubectl asks for them.
pub fn candidates(command: Command) -> Exit {
    printed(&answer(command, std::env::args_os().collect()))
}

fn answer(mut command: Command, mut words: Vec<OsString>) -> String {
    if words.len() < 2 {
        words.push(OsString::new());
    }
    let last = words.len().saturating_sub(1);
    // Without candidates, the user goes on typing.
    let here = std::env::current_dir().ok();
    let found =
        clap_complete::engine::complete(&mut command, words, last, here.as_deref()).unwrap_or_default();
    let mut text = String::new();
    for candidate in found.iter().filter(|candidate| !candidate.is_hide_set()) {
        text.push_str(&Escaped(candidate.get_value().to_string_lossy()).to_string());
        if let Some(help) = candidate.get_help() {
            let help = help.to_string();
            text.push('\t');
            text.push_str(&Escaped(help.lines().next().unwrap_or_default()).to_string());
        }
        text.push('\n');
    }
    // A directory is not the end of a path, so no space follows (`ShellCompDirectiveNoSpace`, too).
    let directive = if text.ends_with("/\n") { ":6\n" } else { NO_FILES };
    text + directive
}

fn printed(text: &str) -> Exit {
    match print(text) {
        Ok(_) => Exit::Success,
        Err(error) => report(&error),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn completed(line: &[&str]) -> Vec<String> {
        let command = Command::new("kube-gc")
            .subcommand(Command::new("tree").about("Show\nmore").arg(clap::Arg::new("output").long("output")))
            .subcommand(
                Command::new("plan").arg(clap::arg!(-f <FILE>).value_parser(clap::value_parser!(PathBuf))),
            )
            .subcommand(Command::new("check").about("Check"));
        let words = std::iter::once("kubectl_complete-gc").chain(line.iter().copied()).map(OsString::from);
        answer(command, words.collect()).lines().map(str::to_owned).collect()
    }

    #[test]
    fn kubectl_gets_one_candidate_per_line_and_a_directive() {
        assert_eq!(completed(&["tr"]), ["tree\tShow", ":4"]);
        assert_eq!(completed(&["tree", "--out"]), ["--output", ":4"]);
        assert_eq!(completed(&["nothing", "x"]), [":4"]);
        assert_eq!(completed(&["plan", "-f", "Cargo.t"]), ["Cargo.toml", ":4"]);
        assert_eq!(completed(&["plan", "-f", "crates/ins"]), ["crates/insight/", ":6"]);
        assert!(completed(&[]).contains(&"check\tCheck".to_owned()));
    }
}
