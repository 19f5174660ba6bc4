//! `kube-gc explain`.

use std::time::SystemTime;

use clap::Args;

use super::answer::Format;
use super::arguments::CommonArgs;
use super::source::{Auto, SourceArgs, ask};
use super::style::Style;
use super::{answer, explain_text, footer};
use crate::app::{Error, ErrorKind};
use crate::cli::exit::Exit;
use crate::insight::{ExplainAnswer, ObjectArgument};

/// The end of `kube-gc explain --help`.
const EXAMPLES: &str = "\
Examples:
  Why is this pod not gone?
    kube-gc explain pod/web-7d9-x -n shop

  What will happen to it, for a script
    kube-gc explain pod/web-7d9-x -n shop -o json | jq -r .outcome

The verdict is that of the collector, whether one runs or not: the same code decides.
docs/explain.md explains each part of the answer.";

/// The arguments of `kube-gc explain`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{}", crate::cli::exit::HELP))]
pub struct ExplainArgs {
    #[command(flatten)]
    common: CommonArgs,

    #[command(flatten)]
    source: SourceArgs,

    /// Format of the answer
    ///
    /// docs/schemas/explanation.json describes the JSON.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Format,
}

/// Explains an object.
pub fn run(args: &ExplainArgs) -> Exit {
    answer::run(|| explained(args))
}

fn explained(args: &ExplainArgs) -> Result<Exit, Error> {
    let object = ObjectArgument::read(&args.common.object);
    let object = object.map_err(|error| Error::new(ErrorKind::Settings, error))?;
    let filter = args.common.filter();
    let source = args.source.source(Auto::Looks)?;
    let answer = ask(
        &args.common.connection(),
        &source,
        async |session, collector, watcher| session.explain_from(collector, &object, watcher).await,
        async |session, watcher| session.explain(&object, &filter, watcher).await,
    )?;
    answer::end(
        answer,
        |(answer, note)| args.written(answer, note.as_deref()),
        |(answer, _)| answer::complete(!answer.explanation.depends_on_unseen),
    )
}

impl ExplainArgs {
    fn written(&self, answer: &ExplainAnswer, note: Option<&str>) -> Result<String, Error> {
        let names = |answer: &ExplainAnswer| explain_text::names(&answer.explanation);
        self.output.write("Explanation", answer, names, |answer, wide| {
            let look = explain_text::Look {
                wide,
                headers: self.common.headers(),
                style: Style::detect(),
                now: SystemTime::now(),
            };
            let mut text = explain_text::text(&answer.explanation, &look);
            text += &explain_text::of_collector(answer, &look);
            text + &footer(&answer.incomplete, answer.left_out, note)
        })
    }
}
