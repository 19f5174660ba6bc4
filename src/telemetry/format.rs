//! Formats the fields of each event as one line of text, whatever they contain.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

use super::line_limit::{fair_limit, shortened};
use kube_gc_core::text::LONGEST;
use kube_gc_core::text::escape::Escaping;

/// Writes the message and the fields of text lines as `tracing_subscriber` does, but escaped and
/// with a limit for all of them together.
#[derive(Clone, Copy, Debug)]
pub(super) struct EscapedFields;

impl<'w> FormatFields<'w> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = Fields { text: String::new(), ends: Vec::new(), result: Ok(()) };
        fields.record(&mut visitor);
        visitor.write(writer)
    }
}

/// The fields of an event so far, and where in the text each of them ends.
struct Fields {
    text: String,
    ends: Vec<(&'static str, usize)>,
    result: fmt::Result,
}

impl Fields {
    fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> + Clone {
        self.ends.iter().scan(0, |start, (name, end)| {
            let text = &self.text[*start..*end];
            *start = *end;
            Some((*name, text))
        })
    }

    fn write(&self, mut writer: Writer<'_>) -> fmt::Result {
        self.result?;
        let limit = fair_limit(self.texts().map(|(_, text)| text.len()), LONGEST);
        for (number, (name, text)) in self.texts().enumerate() {
            if number > 0 {
                writer.write_char(' ')?;
            }
            match name {
                "message" => {}
                name if writer.has_ansi_escapes() => {
                    write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?;
                }
                name => write!(writer, "{name}=")?,
            }
            writer.write_str(&shortened(text, limit))?;
        }
        Ok(())
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.record_debug(field, &format_args!("{value}"));
        } else {
            self.record_debug(field, &value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.result.is_ok() {
            self.result = write!(Escaping(&mut self.text), "{value:?}");
            self.ends.push((field.name(), self.text.len()));
        }
    }
}
