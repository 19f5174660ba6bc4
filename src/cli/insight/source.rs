//! The arguments that choose between lists and a collector.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::progress;
use crate::app::insight::Connection;
use crate::app::{Error, ErrorKind};
use crate::insight::{self, Collector, Credentials, InsightError, Session, Source, SourceChoice, Watcher};

/// Where the answer comes from.
#[derive(Args, Clone, Debug, Default)]
pub struct SourceArgs {
    /// Where the answer comes from
    ///
    /// docs/tree.md says which collector is asked, and what that takes.
    #[arg(long, value_name = "SOURCE", value_enum, default_value_t)]
    from: From,

    /// URL of a collector's debug pages, such as http://127.0.0.1:8081
    ///
    /// Without it, --from collector looks for pods labelled app.kubernetes.io/name=kube-gc, and
    /// connects to the leader's through the API server, as kubectl port-forward does.
    #[arg(long, value_name = "URL")]
    collector: Option<String>,

    /// Namespace in which a collector is looked for
    #[arg(long, value_name = "NAME", conflicts_with = "collector")]
    collector_namespace: Option<String>,

    /// File with a token for protected debug pages
    ///
    /// It is sent only over https, to this machine, or through the API server to a pod in the
    /// namespace kube-gc or --collector-namespace.
    #[arg(long, value_name = "FILE")]
    collector_token_file: Option<PathBuf>,

    /// File with the certificates that sign the collector's, for https
    #[arg(long, value_name = "FILE")]
    collector_ca_file: Option<PathBuf>,
}

/// Where the answer comes from, of a command that no collector answers.
#[derive(Args, Clone, Debug, Default)]
pub struct ListsArgs {
    /// Where the answer comes from: lists and reads of the API server, with auto as well as with lists
    ///
    /// A collector does not answer: to find objects that own each other in a circle, or that share a
    /// uid, all objects are looked at together, and the graph of a collector has other work.
    #[arg(long, value_name = "SOURCE", value_enum, default_value_t, hide_possible_values = true)]
    from: From,

    /// Other commands have this flag, so people try it.
    #[arg(long, value_name = "URL", hide = true)]
    collector: Option<String>,
}

/// The source of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum From {
    /// The collector of --collector; explain and stuck also ask one that they find in the namespace
    /// kube-gc; otherwise lists
    #[default]
    Auto,
    /// Lists and reads of the API server
    Lists,
    /// The graph of a running collector
    Collector,
}

/// Whether a command looks for a collector without being told of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auto {
    /// It does.
    Looks,
    /// It asks lists.
    Lists,
}

impl ListsArgs {
    /// Checks that no collector is meant.
    ///
    /// # Errors
    /// One is.
    pub const fn refuse_a_collector(&self) -> Result<(), &'static str> {
        match (self.from, &self.collector) {
            (From::Auto | From::Lists, None) => Ok(()),
            _ => Err("no collector answers this, because all objects are looked at together; \
                      use --from lists, without --collector"),
        }
    }
}

impl SourceArgs {
    /// The source.
    ///
    /// # Errors
    /// The arguments contradict each other, or name a file that cannot be used.
    pub fn source(&self, auto: Auto) -> Result<Source, Error> {
        let choice = SourceChoice {
            from: match self.from {
                From::Auto => insight::From::Auto,
                From::Lists => insight::From::Lists,
                From::Collector => insight::From::Collector,
            },
            url: self.collector.clone(),
            namespace: self.collector_namespace.clone(),
            credentials: Credentials {
                token: self.collector_token_file.clone(),
                authority: self.collector_ca_file.clone(),
            },
            looks: auto == Auto::Looks,
        };
        Source::choose(choice).map_err(|error| Error::new(ErrorKind::Settings, error))
    }

    /// Lists, which alone can answer.
    ///
    /// # Errors
    /// A collector is meant; the error says `why` it cannot answer.
    pub fn only_lists(&self, why: &str) -> Result<Source, Error> {
        match self.source(Auto::Lists)? {
            Source::Lists => Ok(Source::Lists),
            Source::Collector(_) | Source::Found { .. } => Err(Error::new(ErrorKind::Settings, why)),
        }
    }
}

/// Asks the collector that a source stands for, or lists, and says where the answer is from.
///
/// # Errors
/// The API server cannot be used.
pub fn ask<A>(
    connection: &Connection,
    source: &Source,
    of_collector: impl AsyncFnOnce(&Session, &Collector, &Watcher<'_>) -> Result<A, InsightError>,
    of_lists: impl AsyncFnOnce(&Session, &Watcher<'_>) -> Result<A, InsightError>,
) -> Result<Result<(A, Option<String>), InsightError>, Error> {
    crate::app::insight::ask(connection, async |session, interrupted| {
        let watcher = Watcher { progress: &progress, interrupted };
        let chosen = session.choose(source, &watcher).await?;
        chosen
            .answer(
                &watcher,
                async |collector| of_collector(session, collector, &watcher).await,
                async || of_lists(session, &watcher).await,
            )
            .await
    })
}
