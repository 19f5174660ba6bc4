//! Catches the log of a test.

#![allow(clippy::unwrap_used, reason = "only tests call it")]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use super::logging;
use kube_gc_config::{LogFormat, LogSettings};

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is logged in this format, with this filter, perhaps with colours.
pub fn logged_in(format: LogFormat, filter: &str, colours: bool, log: impl FnOnce()) -> String {
    let sink = Sink::default();
    let writer = sink.clone();
    let mut settings = LogSettings::default();
    (settings.format, settings.filter) = (format, filter.to_owned());
    let subscriber = logging::subscriber(&settings, colours, move || writer.clone()).unwrap();
    tracing::subscriber::with_default(subscriber, log);
    let bytes = sink.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

/// What is logged as text by default.
pub fn logged(log: impl FnOnce()) -> String {
    logged_in(LogFormat::Text, "info", false, log)
}
