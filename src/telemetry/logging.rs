//! Sets up the log: `tracing` to standard error, as text or JSON.

use std::io::IsTerminal as _;
use std::sync::{Mutex, OnceLock, PoisonError, Weak};

use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use super::format::EscapedFields;
use super::json::JsonLine;
use super::log_writer::LogWriter;
use crate::config::{LogFormat, LogSettings};

/// The writer of this process's log.
static WRITER: OnceLock<LogWriter> = OnceLock::new();

/// What has lines to write before the log ends.
static PENDING: Pending = Pending(Mutex::new(Vec::new()));

/// Something that collects before it logs.
pub trait PendingLines: Send + Sync {
    /// Logs what was collected so far, and from now on at once.
    fn write_lines(&self);
}

/// The collections that have not been written.
struct Pending(Mutex<Vec<Weak<dyn PendingLines>>>);

impl Pending {
    fn add(&self, lines: Weak<dyn PendingLines>) {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A process may start many collectors, one after the other.
        pending.retain(|lines| lines.strong_count() > 0);
        pending.push(lines);
    }

    fn write(&self) {
        // The lock must not be held while something is logged or dropped.
        let pending = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for lines in pending.iter().filter_map(Weak::upgrade) {
            lines.write_lines();
        }
    }
}

/// Why the log cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is invalid. Validated [`Settings`](crate::config::Settings) rule this out.
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

/// Registers something that has lines to write before the process exits.
pub fn before_end(lines: Weak<dyn PendingLines>) {
    PENDING.add(lines);
}

/// Waits until all lines are written. To be called before the process exits.
pub fn flush() {
    PENDING.write();
    if let Some(writer) = WRITER.get() {
        writer.flush();
    }
}

/// The number of bytes that wait to be written.
#[must_use]
pub fn waiting() -> usize {
    WRITER.get().map_or(0, LogWriter::buffered)
}

type Boxed = Box<dyn tracing::Subscriber + Send + Sync>;

pub(crate) fn subscriber<W>(settings: &LogSettings, colours: bool, writer: W) -> Result<Boxed, LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::registry().with(targets(&with_quiet_client(&settings.filter))?);
    let layer = tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(writer);
    Ok(match settings.format {
        LogFormat::Text => Box::new(lines.with(layer.fmt_fields(EscapedFields))),
        LogFormat::Json => Box::new(lines.with(layer.fmt_fields(JsonFields::new()).event_format(JsonLine))),
    })
}

/// The levels that a filter gives to modules.
///
/// # Errors
/// It is not a list of levels and modules.
pub fn targets(filter: &str) -> Result<Targets, ParseError> {
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
#[must_use]
pub const fn verbose_filter(count: u8) -> Option<&'static str> {
    match count {
        0 => None,
        1 => Some("info,kube_gc=debug"),
        2 => Some("info,kube_gc=trace"),
        _ => Some("debug,kube_gc=trace"),
    }
}

#[cfg(test)]
mod tests;
