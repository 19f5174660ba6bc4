//! Formats the fields of each event as one line of text, whatever they contain.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

use super::escape::Escaping;

/// Writes the message and the fields of text lines as `tracing_subscriber` does, but escaped.
#[derive(Clone, Copy, Debug)]
pub(super) struct EscapedFields;

impl<'w> FormatFields<'w> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = Fields { writer, is_empty: true, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct Fields<'w> {
    writer: Writer<'w>,
    is_empty: bool,
    result: fmt::Result,
}

impl Fields<'_> {
    fn write(&mut self, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.writer.write_char(' ')?;
        }
        match field.name() {
            "message" => {}
            name if self.writer.has_ansi_escapes() => {
                write!(self.writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?;
            }
            name => write!(self.writer, "{name}=")?,
        }
        write!(Escaping(&mut self.writer), "{value:?}")
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.record_debug(field, &format_args!("{value}"));
        } else {
            self.record_debug(field, &value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.result.is_ok() {
            self.result = self.write(field, value);
        }
    }
}
