//! `kube-gc plan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::answer::Format;
use super::arguments::CommonArgs;
use super::source::{Auto, SourceArgs};
use super::style::Style;
use super::{answer, footer, plan_text, progress};
use crate::app::insight::ask;
use crate::app::{Error, ErrorKind};
use crate::cli::exit::Exit;
use crate::config::Loader;
use crate::insight::{ObjectArgument, PlanAnswer, PlanArgument, Source, Watcher};
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
    let source = args.source(&asked)?;
    let answer = ask(&args.common.connection(), async |session, interrupted| {
        let watcher = Watcher { progress: &progress, interrupted };
        let chosen = session.choose(&source, &watcher).await?;
        chosen
            .answer(
                &watcher,
                async |collector| session.plan_from(collector, &asked, &watcher).await,
                async || session.plan(&asked, &watcher).await,
            )
            .await
    })?;
    answer::end(
        answer,
        |(answer, note)| args.written(answer, note.as_deref()),
        |(answer, _)| args.judged(answer),
    )
}

impl PlanArgs {
    /// A collector has all types in its graph, and its own limits.
    fn source(&self, asked: &PlanArgument) -> Result<Source, Error> {
        let source = self.source.source(Auto::Lists)?;
        let of_lists = if !asked.filter.is_empty() {
            "--kinds and --exclude choose what is listed"
        } else if self.config.is_some() {
            "--config has the limits of the brake, and a running collector knows its own"
        } else {
            return Ok(source);
        };
        match source {
            Source::Lists => Ok(source),
            Source::Collector(_) | Source::Found { .. } => {
                Err(Error::new(ErrorKind::Settings, format!("{of_lists}, so the plan needs --from lists")))
            }
        }
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
