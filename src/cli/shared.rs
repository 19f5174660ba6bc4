//! What several subcommands share: arguments, the start, and the end.

use clap::{ArgAction, Args, ValueEnum};

use super::exit::Exit;
use crate::app::{Error, ErrorKind};
use kube_gc_config::{ConfigError, Loader, LogFormat, Settings};
use kube_gc_core::object::PropagationPolicy;
use kube_gc_observe::telemetry::logging::{self, verbose_filter};

/// A propagation policy, as kubectl spells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Cascade {
    /// The object goes first, and its dependents follow.
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

/// How much to log, and in which format.
#[derive(Args, Clone, Debug, Default)]
pub struct LogArgs {
    /// Format of the log on standard error [default: text]
    #[arg(long, value_name = "FORMAT", value_enum)]
    log_format: Option<LogFormat>,

    /// Log more: -v decisions in detail, -vv everything in kube-gc, -vvv libraries, too
    ///
    /// These stand for a `log.filter` of "info,kube_gc=debug", "info,kube_gc=trace" and
    /// "debug,kube_gc=trace". They override RUST_LOG.
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
}

impl LogArgs {
    /// Adds these flags to the sources of the configuration.
    pub fn add_to(&self, loader: Loader) -> Loader {
        let Self { log_format, verbose } = self;
        loader.flag("--log-format", "log.format", log_format.as_ref().and_then(name)).flag(
            "--verbose",
            "log.filter",
            verbose_filter(*verbose),
        )
    }
}

/// The name of a value on the command line, which is that in the settings.
pub fn name(value: &impl ValueEnum) -> Option<String> {
    Some(value.to_possible_value()?.get_name().to_owned())
}

/// Starts the log as the loaded settings say.
///
/// # Errors
/// The settings could not be loaded, or the log cannot be started.
pub fn begin(loaded: Result<Settings, ConfigError>) -> Result<Settings, Error> {
    let settings = loaded.map_err(|error| Error::new(ErrorKind::Settings, error))?;
    logging::init(&settings.log).map_err(|error| Error::new(ErrorKind::Internal, error))?;
    Ok(settings)
}

/// The exit code of a collector that has ended. The log has its error.
pub fn ended(result: Result<(), Error>) -> Exit {
    match result {
        Ok(()) => Exit::Success,
        Err(error) => {
            let exit = Exit::from(error.kind());
            tracing::error!(exit_code = exit.code(), "{error}");
            exit
        }
    }
}
