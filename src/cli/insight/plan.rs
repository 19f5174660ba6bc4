//! `kube-gc plan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::answer::Format;
use super::arguments::CommonArgs;
use super::source::{Auto, SourceArgs, ask};
use super::style::Style;
use super::{answer, footer, plan_text};
use crate::app::{Error, ErrorKind};
use crate::cli::exit::Exit;
use crate::config::Loader;
use crate::insight::{ObjectArgument, PlanAnswer, PlanArgument, Source};
use kube_gc_core::brake::Limits;
use kube_gc_core::object::PropagationPolicy;

/// The end of `kube-gc plan --help`.
const EXAMPLES: &str = "\
Examples:
  What happens if a deployment is deleted?
    kube-gc plan deploy/web -n shop --cascade foreground

  Each object that a definition takes along
    kube-gc plan crd/widgets.example.com -o wide

  Fail in a pipeline if more than 100 objects go
    kube-gc plan ns/old --fail-above 100

Nothing is deleted. The collector's own code decides what would happen.
docs/plan.md explains each part of the answer.";

/// The arguments of `kube-gc plan`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{}", crate::cli::exit::HELP))]
pub struct PlanArgs {
    #[command(flatten)]
    common: CommonArgs,

    #[command(flatten)]
    source: SourceArgs,

    /// How the object would be deleted, as in kubectl delete
    #[arg(long, value_name = "POLICY", value_enum, default_value_t)]
    cascade: Cascade,

    /// Exit with 1 if more than this many objects are deleted, the object itself included
    #[arg(long, value_name = "COUNT")]
    fail_above: Option<usize>,

    /// Configuration file of the collector, to say whether its brake would engage
    ///
    /// A running collector knows its own limits, so this is for plans from lists.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Format of the plan
    ///
    /// docs/schemas/plan.json describes the JSON.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,
}

/// A propagation policy, as kubectl spells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Cascade {
    /// The object goes at once, and its dependents follow.
    #[default]
    Background,
    /// The dependents that block it go first.
    Foreground,
    /// The dependents stay, without their reference to it.
    Orphan,
}

impl From<Cascade> for PropagationPolicy {
    fn from(cascade: Cascade) -> Self {
        match cascade {
            Cascade::Background => Self::Background,
            Cascade::Foreground => Self::Foreground,
            Cascade::Orphan => Self::Orphan,
        }
    }
}

/// Plans a deletion.
pub fn run(args: &PlanArgs) -> Exit {
    answer::run(|| planned(args))
}

fn planned(args: &PlanArgs) -> Result<Exit, Error> {
    let object = ObjectArgument::read(&args.common.object);
    let object = object.map_err(|error| Error::new(ErrorKind::Settings, error))?;
    // Before the file is read, which may be needless.
    let source = args.source()?;
    let asked = PlanArgument {
        object,
        policy: args.cascade.into(),
        filter: args.common.filter(),
        listed: match args.output {
            Format::Table => plan_text::NAMED,
            Format::Wide | Format::Json | Format::Name => usize::MAX,
        },
        brake: args.brake()?,
    };
    let answer = ask(
        &args.common.connection(),
        &source,
        async |session, collector, watcher| session.plan_from(collector, &asked, watcher).await,
        async |session, watcher| session.plan(&asked, watcher).await,
    )?;
    answer::end(
        answer,
        |(answer, note)| args.written(answer, note.as_deref()),
        |(answer, _)| args.judged(answer),
    )
}

impl PlanArgs {
    /// A collector has all types in its graph, and its own limits.
    fn source(&self) -> Result<Source, Error> {
        let of_lists = if !self.common.filter().is_empty() {
            "--kinds and --exclude choose what is listed"
        } else if self.config.is_some() {
            "--config has the limits of the brake, and a running collector knows its own"
        } else {
            return self.source.source(Auto::Lists);
        };
        self.source.only_lists(&format!("{of_lists}, so the plan needs --from lists"))
    }

    /// The limits of the brake. Without a file they are not known: the collector has its own.
    fn brake(&self) -> Result<Option<Limits>, Error> {
        let Some(file) = &self.config else { return Ok(None) };
        let settings = Loader::new().file(Some(file)).load();
        let settings = settings.map_err(|error| Error::new(ErrorKind::Settings, error))?;
        Ok(Some(settings.brake.limits()))
    }

    /// What is certain comes first: too many is too many, whatever could not be looked at.
    fn judged(&self, answer: &PlanAnswer) -> Exit {
        let plan = &answer.plan;
        match (plan.exists, self.fail_above) {
            (Some(false), _) => Exit::NoSuchObject,
            (_, Some(most)) if plan.deletes > most => Exit::Failure,
            _ => answer::complete(!plan.depends_on_unseen),
        }
    }

    fn written(&self, answer: &PlanAnswer, note: Option<&str>) -> Result<String, Error> {
        let names = |answer: &PlanAnswer| plan_text::names(&answer.plan);
        self.output.write("Plan", answer, names, |answer, wide| {
            let look = plan_text::Look { wide, headers: self.common.headers(), style: Style::detect() };
            plan_text::text(&answer.plan, &look) + &footer(&answer.incomplete, answer.left_out, note)
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        plan: PlanArgs,
    }

    fn refused(more: &[&str]) -> String {
        let line = ["plan", "pod/a", "--config", "/nowhere/kube-gc.toml"].iter().chain(more);
        planned(&Line::parse_from(line).plan).unwrap_err().to_string()
    }

    /// The file may not exist, and what it says would not matter.
    #[test]
    fn a_configuration_beside_a_collector_is_refused_before_it_is_read() {
        let why = refused(&["--collector", "http://127.0.0.1:1"]);
        assert!(why.contains("needs --from lists"), "{why}");
        let why = refused(&[]);
        assert!(why.contains("/nowhere/kube-gc.toml"), "{why}");
    }
}
