//! Formats each event of the log as one JSON object.

use std::error::Error;
use std::fmt::{self, Write as _};

use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::line_limit::shorten_members;
use super::structured::Structured;
use kube_gc_core::text::LONGEST;
use kube_gc_core::text::escape::escape_json;

/// One JSON object with the event's fields next to `timestamp`, `level`, `target` and `message`.
/// Characters that change how a terminal shows a line are escaped; JSON already escapes line
/// breaks. All values together have a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut now = String::new();
        SystemTime.format_time(&mut Writer::new(&mut now))?;
        let mut members = Members { line: "{".to_owned(), comma: false };
        members.add("timestamp", &now);
        members.add("level", event.metadata().level().as_str());
        event.record(&mut members);
        members.add("target", event.metadata().target());
        if let Some(span) = context.lookup_current() {
            // `JsonFields` has made them an object.
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>() {
                let fields = if fields.fields.is_empty() { "{}" } else { &fields.fields };
                member(&mut members.line, &mut members.comma, "span", fields);
            }
        }
        members.line.push('}');
        let mut line = String::with_capacity(members.line.len());
        escape_json(&members.line, &mut line)?;
        if line.len() > LONGEST {
            line.clear();
            escape_json(&shorten_members(&members.line), &mut line)?;
        }
        writeln!(writer, "{line}")
    }
}

/// The members of a line so far.
struct Members {
    line: String,
    comma: bool,
}

impl Members {
    fn add(&mut self, name: &str, value: impl Serialize) {
        // Text and numbers can always be written.
        let json = serde_json::to_string(&value).unwrap_or_else(|_| "null".to_owned());
        member(&mut self.line, &mut self.comma, name, &json);
    }
}

/// Adds a member whose value is JSON already.
pub(super) fn member(line: &mut String, comma: &mut bool, name: &str, json: &str) {
    if std::mem::replace(comma, true) {
        line.push(',');
    }
    let name = serde_json::Value::from(name);
    // Writing to a string cannot fail.
    let _ = write!(line, "{name}:{json}");
}

impl Visit for Members {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field.name(), value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        match Structured::of(value) {
            Some(structured) => structured.write_json(field.name(), &mut self.line, &mut self.comma),
            None => self.add(field.name(), value.to_string()),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field.name(), format!("{value:?}"));
    }
}
