//! `kube-gc explain`.

use std::time::SystemTime;

use clap::{Args, ValueEnum};

use super::arguments::CommonArgs;
use super::source::{Auto, SourceArgs};
use super::style::Style;
use super::{explain_text, failed, footer, json, print, progress, unanswered};
use crate::app::insight::ask;
use crate::app::{Error, ErrorKind};
use crate::cli::exit::Exit;
use crate::insight::{ExplainAnswer, ObjectArgument, Watcher};

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

/// The format of an explanation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text with tables.
    #[default]
    Table,
    /// The same with uids.
    Wide,
    /// One line of JSON.
    Json,
    /// The names of the objects that hold it.
    Name,
}

/// Explains an object.
pub fn run(args: &ExplainArgs) -> Exit {
    match explained(args) {
        Ok(exit) => exit,
        Err(error) => failed(&error),
    }
}

fn explained(args: &ExplainArgs) -> Result<Exit, Error> {
    let object = ObjectArgument::read(&args.common.object);
    let object = object.map_err(|error| Error::new(ErrorKind::Settings, error))?;
    let filter = args.common.filter();
    let source = args.source.source(Auto::Looks)?;
    let answer = ask(&args.common.connection(), async |session, interrupted| {
        let watcher = Watcher { progress: &progress, interrupted };
        let chosen = session.choose(&source, &watcher).await?;
        chosen
            .answer(
                &watcher,
                async |collector| session.explain_from(collector, &object, &watcher).await,
                async || session.explain(&object, &filter, &watcher).await,
            )
            .await
    })?;
    match answer {
        Ok((answer, note)) => {
            print(&args.written(&answer, note.as_deref())?)?;
            let depends = answer.explanation.depends_on_unseen;
            Ok(if depends { Exit::Incomplete } else { Exit::Success })
        }
        Err(error) => Ok(unanswered(&error)),
    }
}

impl ExplainArgs {
    fn written(&self, answer: &ExplainAnswer, note: Option<&str>) -> Result<String, Error> {
        Ok(match self.output {
            Format::Json => json("Explanation", answer)?,
            Format::Name => explain_text::names(&answer.explanation),
            Format::Table | Format::Wide => {
                let look = explain_text::Look {
                    wide: self.output == Format::Wide,
                    headers: self.common.headers(),
                    style: Style::detect(),
                    now: SystemTime::now(),
                };
                let mut text = explain_text::text(&answer.explanation, &look);
                text += &explain_text::of_collector(answer, &look);
                text + &footer(&answer.incomplete, answer.left_out, note)
            }
        })
    }
}
