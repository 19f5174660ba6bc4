//! Subcommands that this build leaves out: an error about one says where it is.

use clap::Error;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

/// An optional feature with subcommands.
struct Feature {
    subcommands: &'static [&'static str],
    /// Whether this build has it.
    is_on: bool,
    /// Where it is, if this build does not have it.
    tip: &'static str,
}

const FEATURES: [Feature; 3] = [
    Feature {
        subcommands: &["check", "completion", "explain", "plan", "stuck", "tree"],
        is_on: cfg!(feature = "commands"),
        tip: "this build has no commands for people; the archive of each release has them, also as the plugin \
              `kubectl gc`",
    },
    Feature {
        subcommands: &["demo"],
        is_on: cfg!(feature = "demo"),
        tip: "this build has no demo; `cargo install` and `make demo` build it",
    },
    Feature {
        subcommands: &["node"],
        is_on: cfg!(feature = "node"),
        tip: "this build does not collect nodes; the image and the archive of each release do",
    },
];

/// Adds a tip to the error about a subcommand that other builds have.
pub fn with_tip(error: Error) -> Error {
    tipped(error, |feature| feature.is_on)
}

fn tipped(mut error: Error, is_on: fn(&Feature) -> bool) -> Error {
    if let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand)
        && let Some(feature) = FEATURES.iter().find(|feature| feature.subcommands.contains(&name.as_str()))
        && !is_on(feature)
    {
        let tip = ContextValue::StyledStrs(vec![StyledStr::from(feature.tip)]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    fn error_about(name: &str, is_on: fn(&Feature) -> bool) -> String {
        let command = Command::new("kube-gc").subcommand(Command::new("run"));
        tipped(command.try_get_matches_from(["kube-gc", name]).unwrap_err(), is_on).to_string()
    }

    #[test]
    fn the_error_about_a_subcommand_of_other_builds_says_where_it_is() {
        for feature in &FEATURES {
            for name in feature.subcommands {
                let text = error_about(name, |_| false);
                assert!(text.contains(&format!("unrecognized subcommand '{name}'")), "{text}");
                assert!(text.contains(&format!("tip: {}", feature.tip)), "{text}");
            }
        }
    }

    #[test]
    fn other_words_get_no_tip() {
        for text in [error_about("colect", |_| false), error_about("tree", |_| true)] {
            assert!(text.contains("unrecognized subcommand") && !text.contains("tip: "), "{text}");
        }
    }
}
