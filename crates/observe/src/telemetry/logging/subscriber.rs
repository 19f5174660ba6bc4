//! Sets up the log: `tracing` to standard error, as text or JSON.

use std::io::IsTerminal as _;

use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use super::super::lines::{EscapedFields, JsonLine};
use super::{LogWriter, Shared, WRITER};
use kube_gc_config::{LogFormat, LogSettings};

/// Why the log cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is invalid. Validated [`Settings`](kube_gc_config::Settings) rule this out.
    #[error("invalid log filter: {0}")]
    Filter(#[from] ParseError),
    /// The process has a log already.
    #[error("cannot start the log: {0}")]
    Init(#[from] TryInitError),
    /// The operating system cannot start a thread.
    #[error("cannot start the log: {0}")]
    Thread(#[from] std::io::Error),
}

/// Starts the log of this process.
///
/// The format `text` has colours on a terminal, unless `NO_COLOR` is set. The format `json`
/// has one object per line, with the event's fields at the top level next to `timestamp`,
/// `level`, `target` and `message`.
///
/// # Errors
/// If the process has a log already, or the filter is invalid.
pub fn init(settings: &LogSettings) -> Result<(), LogError> {
    let colours =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let writer = LogWriter::to(std::io::stderr())?;
    subscriber(settings, colours, writer.clone())?.try_init()?;
    // `try_init` succeeds only once, so the writer is not set yet.
    let _ = WRITER.set(writer);
    Ok(())
}

type Boxed = Box<dyn tracing::Subscriber + Send + Sync>;

/// What writes the log lines of these settings to a writer.
///
/// # Errors
///
/// If the filter is invalid.
pub fn subscriber<W>(settings: &LogSettings, colours: bool, writer: W) -> Result<Boxed, LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::registry().with(targets(&with_quiet_client(&settings.filter))?);
    let layer = tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(writer);
    Ok(match settings.format {
        LogFormat::Json => Box::new(lines.with(layer.fmt_fields(JsonFields::new()).event_format(JsonLine))),
        _ => Box::new(lines.with(layer.fmt_fields(EscapedFields))),
    })
}

/// The levels that a filter gives to modules.
///
/// # Errors
/// It is not a list of levels and modules.
fn targets(filter: &str) -> Result<Targets, ParseError> {
    filter.split(',').map(str::trim).collect::<Vec<_>>().join(",").parse()
}

/// Silences `kube_client`, which logs each error response without its request. kube-gc logs
/// the errors that matter itself, with the object and the server's message. A filter that
/// names `kube_client` keeps its lines.
fn with_quiet_client(filter: &str) -> String {
    const CLIENT: &str = "kube_client";
    if filter.contains(CLIENT) { filter.to_owned() } else { format!("{filter},{CLIENT}=off") }
}

/// The filter for `-v`, `-vv` and `-vvv`; `None` without the flag.
pub const fn verbose_filter(count: u8) -> Option<&'static str> {
    match count {
        0 => None,
        1 => Some("info,kube_gc=debug"),
        2 => Some("info,kube_gc=trace"),
        _ => Some("debug,kube_gc=trace"),
    }
}

impl<'w> MakeWriter<'w> for LogWriter {
    type Writer = &'w Shared;

    fn make_writer(&'w self) -> Self::Writer {
        &self.0
    }
}
