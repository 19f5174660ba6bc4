//! The name under which this process was started. As `kubectl-gc` it is a plugin of kubectl, and
//! as `kubectl_complete-gc` it completes command lines for kubectl.

use std::ffi::OsStr;
use std::path::Path;

use clap::Command;

/// How this process was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invoked {
    /// As itself.
    Directly,
    /// As `kubectl gc`.
    AsPlugin,
    /// By kubectl, for the candidates of a word.
    ToComplete,
}

impl Invoked {
    /// By the first argument of this process.
    pub fn detect() -> Self {
        Self::of(std::env::args_os().next().as_deref().unwrap_or_default())
    }

    fn of(program: &OsStr) -> Self {
        let name = Path::new(program).file_stem().and_then(OsStr::to_str).unwrap_or_default();
        match name {
            "kubectl-gc" => Self::AsPlugin,
            "kubectl_complete-gc" => Self::ToComplete,
            _ => Self::Directly,
        }
    }

    /// What a user types.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Directly => "kube-gc",
            Self::AsPlugin | Self::ToComplete => "kubectl gc",
        }
    }

    /// The command line as the user knows it: with the same name everywhere in help and errors.
    pub fn adapt(self, command: Command) -> Command {
        if self == Self::Directly {
            return command;
        }
        let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
        renamed(command, &names).bin_name(self.program())
    }
}

/// Replaces `kube-gc tree` by `kubectl gc tree` in all texts.
fn renamed(mut command: Command, names: &[String]) -> Command {
    let replaced = |text: &dyn std::fmt::Display| {
        let rename = |text: String, name: &String| {
            text.replace(&format!("kube-gc {name}"), &format!("{} {name}", Invoked::AsPlugin.program()))
        };
        names.iter().fold(text.to_string(), rename)
    };
    if let Some(text) = command.get_after_long_help().map(|text| replaced(text)) {
        command = command.after_long_help(text);
    }
    if let Some(text) = command.get_long_about().map(|text| replaced(text)) {
        command = command.long_about(text);
    }
    command = command.mut_args(|argument| match argument.get_long_help().map(|text| replaced(text)) {
        Some(text) => argument.long_help(text),
        None => argument,
    });
    command.mut_subcommands(|sub| renamed(sub, names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_decides() {
        for (program, invoked) in [
            ("/usr/bin/kubectl-gc", Invoked::AsPlugin),
            ("kubectl-gc.exe", Invoked::AsPlugin),
            ("./kubectl_complete-gc", Invoked::ToComplete),
            ("kube-gc", Invoked::Directly),
            ("/kubectl-gc/kube-gc", Invoked::Directly),
            ("", Invoked::Directly),
        ] {
            assert_eq!(Invoked::of(OsStr::new(program)), invoked, "{program}");
        }
    }
}
