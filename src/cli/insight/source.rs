//! The arguments that choose between lists and a collector.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::app::{Error, ErrorKind};
use crate::insight::{self, CollectorOptions, Source};

/// Where the answer comes from.
#[derive(Args, Clone, Debug, Default)]
pub struct SourceArgs {
    /// Where the answer comes from
    #[arg(long, value_name = "SOURCE", value_enum, default_value_t)]
    from: From,

    /// URL of a collector's debug pages, such as http://127.0.0.1:8081
    #[arg(long, value_name = "URL")]
    collector: Option<String>,

    /// File with a token for protected debug pages
    ///
    /// It is sent only over https, or to this machine.
    #[arg(long, value_name = "FILE", requires = "collector")]
    collector_token_file: Option<PathBuf>,

    /// File with the certificates that sign the collector's, for https
    #[arg(long, value_name = "FILE", requires = "collector")]
    collector_ca_file: Option<PathBuf>,
}

/// The source of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum From {
    /// The collector of --collector, and without it lists
    #[default]
    Auto,
    /// Lists and reads of the API server
    Lists,
    /// The graph of a running collector
    Collector,
}

impl SourceArgs {
    /// The source.
    ///
    /// # Errors
    /// The arguments contradict each other, or name a file that cannot be used.
    pub fn source(&self) -> Result<Source, Error> {
        let from = match self.from {
            From::Auto => insight::From::Auto,
            From::Lists => insight::From::Lists,
            From::Collector => insight::From::Collector,
        };
        let options = self.collector.as_ref().map(|url| CollectorOptions {
            url: url.clone(),
            token: self.collector_token_file.clone(),
            authority: self.collector_ca_file.clone(),
        });
        Source::choose(from, options.as_ref()).map_err(|error| Error::new(ErrorKind::Settings, error))
    }
}
