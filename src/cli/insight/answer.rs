//! What these commands have in common: the formats of an answer, and how a command ends.

use clap::ValueEnum;
use serde::Serialize;

use super::{failed, json, print, unanswered};
use crate::app::Error;
use crate::cli::exit::Exit;
use crate::insight::InsightError;

/// The format of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people.
    #[default]
    Table,
    /// The same with more detail, such as uids.
    Wide,
    /// One line of JSON.
    Json,
    /// Only the names of objects.
    Name,
}

impl Format {
    /// An answer in this format. The text may be wide.
    pub fn write<A: Serialize>(
        self,
        kind: &'static str,
        answer: &A,
        names: impl FnOnce(&A) -> String,
        text: impl FnOnce(&A, bool) -> String,
    ) -> Result<String, Error> {
        match self {
            Self::Json => json(kind, answer),
            Self::Name => Ok(names(answer)),
            Self::Table => Ok(text(answer, false)),
            Self::Wide => Ok(text(answer, true)),
        }
    }
}

/// Runs a command to its exit code.
pub fn run(command: impl FnOnce() -> Result<Exit, Error>) -> Exit {
    command().unwrap_or_else(|error| failed(&error))
}

/// Prints an answer and says what it means, or why there is none.
///
/// # Errors
///
/// The answer cannot be written.
pub fn end<A>(
    answer: Result<A, InsightError>,
    write: impl FnOnce(&A) -> Result<String, Error>,
    exit: impl FnOnce(&A) -> Exit,
) -> Result<Exit, Error> {
    match answer {
        Ok(answer) => {
            print(&write(&answer)?)?;
            Ok(exit(&answer))
        }
        Err(error) => Ok(unanswered(&error)),
    }
}

/// The exit code of an answer with nothing to report.
pub const fn complete(is_complete: bool) -> Exit {
    if is_complete { Exit::Success } else { Exit::Incomplete }
}
