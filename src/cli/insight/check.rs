//! `kube-gc check`.

use clap::{Args, ValueEnum};

use super::answer::Format;
use super::arguments::ScopeArgs;
use super::source::ListsArgs;
use super::style::Style;
use super::{answer, check_text, footer, progress};
use crate::app::insight::ask;
use crate::app::{Error, ErrorKind};
use crate::cli::exit::Exit;
use crate::insight::{CheckAnswer, CheckQuery, Watcher};
use kube_gc_insight::EffectCounts;

/// The end of `kube-gc check --help`.
const EXAMPLES: &str = "\
Examples:
  Which owner references of a namespace are wrong?
    kube-gc check -n shop

  Fail in CI if anything in the cluster would be deleted
    kube-gc check -A --fail-on deletes

  The objects that would be deleted
    kube-gc check -A -o json | jq '.findings[] | select(.effect == \"deletes\") | .object'

The effect of an object is the verdict of the collector, whether one runs or not: the same code
decides. docs/check.md explains each class.";

/// The arguments of `kube-gc check`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{}", crate::cli::exit::HELP))]
pub struct CheckArgs {
    #[command(flatten)]
    scope: ScopeArgs,

    #[command(flatten)]
    source: ListsArgs,

    /// Exit with 1 if there are findings with this effect or a worse one
    #[arg(long, value_name = "EFFECT", value_enum, default_value_t)]
    fail_on: FailOn,

    /// Format of the findings
    ///
    /// docs/schemas/check.json describes the JSON.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,
}

/// Which findings are a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// The collector deletes an object.
    Deletes,
    /// The same, or an object stays for ever.
    #[default]
    Leaks,
    /// Any finding.
    Odd,
    /// None.
    Never,
}

/// Finds what is wrong with owner references.
pub fn run(args: &CheckArgs) -> Exit {
    answer::run(|| checked(args))
}

fn checked(args: &CheckArgs) -> Result<Exit, Error> {
    args.source.refuse_a_collector().map_err(|error| Error::new(ErrorKind::Settings, error))?;
    let query = CheckQuery {
        everywhere: args.scope.all_namespaces,
        filter: args.scope.filter(),
        selector: args.scope.selector.clone(),
    };
    let answer = ask(&args.scope.connection(), async |session, interrupted| {
        session.check(&query, &Watcher { progress: &progress, interrupted }).await
    })?;
    answer::end(
        answer,
        |answer| args.written(answer),
        |answer| {
            if args.fail_on.is_met_by(answer.report.broken_objects) {
                Exit::Failure
            } else {
                answer::complete(answer.incomplete.is_empty())
            }
        },
    )
}

impl CheckArgs {
    fn written(&self, answer: &CheckAnswer) -> Result<String, Error> {
        let names = |answer: &CheckAnswer| check_text::names(&answer.report);
        self.output.write("Check", answer, names, |answer, wide| {
            let look = check_text::Look {
                namespaces: wide || self.scope.all_namespaces,
                wide,
                headers: self.scope.headers(),
                style: Style::detect(),
            };
            let summary = check_text::summary(&answer.report);
            let footer = footer(&answer.incomplete, answer.left_out, None);
            let between = if footer.is_empty() { "\n" } else { " " };
            check_text::table(&answer.report, &look) + &summary + between + &footer
        })
    }
}

impl FailOn {
    const fn is_met_by(self, found: EffectCounts) -> bool {
        let EffectCounts { deletes, leaks, unknown, odd } = found;
        match self {
            Self::Deletes => deletes > 0,
            Self::Leaks => deletes + leaks > 0,
            Self::Odd => deletes + leaks + unknown + odd > 0,
            Self::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_threshold_includes_what_is_worse() {
        let one = |deletes, leaks, unknown, odd| EffectCounts { deletes, leaks, unknown, odd };
        let kinds = [one(1, 0, 0, 0), one(0, 1, 0, 0), one(0, 0, 1, 0), one(0, 0, 0, 1), one(0, 0, 0, 0)];
        let met = |fail_on: FailOn| kinds.map(|found| fail_on.is_met_by(found));
        assert_eq!(met(FailOn::Deletes), [true, false, false, false, false]);
        assert_eq!(met(FailOn::Leaks), [true, true, false, false, false]);
        assert_eq!(met(FailOn::Odd), [true, true, true, true, false]);
        assert_eq!(met(FailOn::Never), [false; 5]);
    }
}
