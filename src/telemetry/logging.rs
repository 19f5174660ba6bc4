//! The log: `tracing` to standard error, for people or for machines.

use std::io::IsTerminal as _;
use std::sync::OnceLock;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::fmt::{MakeWriter, SubscriberBuilder};
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

use super::lines::Lines;
use crate::config::{LogFormat, LogSettings};

/// The way of this process's lines to standard error.
static LINES: OnceLock<Lines> = OnceLock::new();

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter cannot be read; [`Settings`](crate::config::Settings) has checked it.
    #[error("bad log filter: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// There is a log already.
    #[error("the log cannot be started: {0}")]
    Init(#[from] TryInitError),
    /// The operating system gives no thread.
    #[error("the log cannot be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// Starts the log of this process.
///
/// `text` is coloured on a terminal, unless `NO_COLOR` is set. `json` has one
/// object per line, with the event's own fields at its top level next to
/// `timestamp`, `level`, `target` and `message`.
///
/// # Errors
/// When there is a log already, or the filter is no filter.
pub fn init(settings: &LogSettings) -> Result<(), LogError> {
    let colours =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let lines = Lines::to(std::io::stderr())?;
    subscriber(settings, colours, lines.clone())?.try_init()?;
    // There is one log, or the line above has failed.
    let _ = LINES.set(lines);
    Ok(())
}

/// Waits until all that was logged before is written, if there is a log: whoever ends the process
/// calls it.
pub fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush();
    }
}

/// How many bytes wait to be written.
#[must_use]
pub fn waiting() -> usize {
    LINES.get().map_or(0, Lines::waiting)
}

type Boxed = Box<dyn tracing::Subscriber + Send + Sync>;

pub(crate) fn subscriber<W>(settings: &LogSettings, colours: bool, writer: W) -> Result<Boxed, LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let builder = SubscriberBuilder::default()
        .with_env_filter(EnvFilter::try_new(with_quiet_client(&settings.filter))?)
        .with_span_events(FmtSpan::NONE)
        .with_ansi(colours)
        .with_writer(writer);
    Ok(match settings.format {
        LogFormat::Text => Box::new(builder.finish()),
        LogFormat::Json => Box::new(builder.json().flatten_event(true).with_span_list(false).finish()),
    })
}

/// The client library logs each answer that is an error, without saying to what;
/// what matters of it is said here, with the object and the server's words. A
/// filter that names the library gets what it asks for.
fn with_quiet_client(filter: &str) -> String {
    const CLIENT: &str = "kube_client";
    if filter.contains(CLIENT) { filter.to_owned() } else { format!("{filter},{CLIENT}=off") }
}

/// The filter that `-v`, `-vv` and `-vvv` stand for; `None` without any.
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
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, filter: &str, log: impl FnOnce()) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let settings = LogSettings { format, filter: filter.to_owned() };
        let subscriber = subscriber(&settings, false, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn json_has_the_fields_of_an_event_at_its_top_level() {
        let line = logged(LogFormat::Json, "info", || {
            tracing::info!(listener = "health", address = %"127.0.0.1:1", "listening");
        });
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["message"], "listening");
        assert_eq!(line["listener"], "health");
        assert_eq!(line["address"], "127.0.0.1:1");
        assert_eq!(line["level"], "INFO");
        assert!(line["timestamp"].is_string());
    }

    #[test]
    fn the_filter_decides_what_is_logged() {
        let log = || {
            tracing::debug!("quiet");
            tracing::warn!("loud");
        };
        let text = logged(LogFormat::Text, "info", log);
        assert!(text.contains("loud") && !text.contains("quiet"), "{text}");
        assert!(!text.contains('\u{1b}'), "no colours: {text:?}");
        let text = logged(LogFormat::Text, verbose_filter(1).unwrap(), log);
        assert!(text.contains("quiet"), "{text}");
    }

    #[test]
    fn verbosity_is_a_valid_filter() {
        assert_eq!(verbose_filter(0), None);
        for count in 1..=9 {
            EnvFilter::try_new(verbose_filter(count).unwrap()).unwrap();
        }
    }
}
