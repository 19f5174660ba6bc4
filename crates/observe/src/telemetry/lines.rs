//! Formats each event as one line of the log, as text or as JSON, whatever its fields contain.
//!
//! Each text from the cluster is bounded before it is logged. Escaping can make it six times as
//! long, and a line has several of them, so all fields of a line share one limit. The longest
//! ones are shortened.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Write as _};

use serde::{Serialize, Serializer};
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::fields::{Place, Structured};
use kube_gc_core::text::LONGEST;
use kube_gc_core::text::escape::{Escaping, escaped_json};

/// Writes the message and the fields of text lines as `tracing_subscriber` does, but escaped and
/// with a limit for all of them together.
#[derive(Clone, Copy, Debug)]
pub(super) struct EscapedFields;

impl<'w> FormatFields<'w> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut texts = Texts(Vec::new());
        fields.record(&mut texts);
        let limit = fair_limit(texts.0.iter().map(|(_, text)| text.len()), LONGEST);
        for (number, (name, text)) in texts.0.iter().enumerate() {
            if number > 0 {
                writer.write_char(' ')?;
            }
            match *name {
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

/// The fields of an event so far.
struct Texts(Vec<(&'static str, String)>);

impl Visit for Texts {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.record_debug(field, &format_args!("{value}"));
        } else {
            self.record_debug(field, &value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write!(Escaping(&mut text), "{value:?}");
        self.0.push((field.name(), text));
    }
}

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
        let mut members = Members::default();
        members.add("timestamp", now);
        members.add("level", event.metadata().level().as_str());
        event.record(&mut members);
        members.add("target", event.metadata().target());
        if let Some(span) = context.lookup_current() {
            // `JsonFields` has made them an object.
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>() {
                members.add("span", serde_json::from_str::<Value>(&fields.fields).unwrap_or_default());
            }
        }
        let mut line = written(&members);
        if line.len() > LONGEST {
            line = written(&Members(shorten_members(members.0, LONGEST)));
        }
        writeln!(writer, "{line}")
    }
}

/// The members of a line so far, in order.
#[derive(Default)]
struct Members(Vec<(String, Value)>);

impl Members {
    fn add(&mut self, name: &str, value: impl Into<Value>) {
        self.0.push((name.to_owned(), value.into()));
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// JSON as the log has it.
fn written(value: &impl Serialize) -> String {
    // Only maps with other keys than strings cannot be written.
    escaped_json(&serde_json::to_string(value).unwrap_or_default())
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
        match value.downcast_ref::<Structured>() {
            Some(Structured { json: Value::Object(members), place: Place::TopLevel, .. }) => {
                self.0.extend(members.clone());
            }
            Some(structured) => self.add(field.name(), structured.json.clone()),
            None => self.add(field.name(), value.to_string()),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field.name(), format!("{value:?}"));
    }
}

const ELLIPSIS: &str = "…";
/// How much of the end of a shortened text stays: it says how many items are left out.
const TAIL: usize = 64;
/// A shortened text is not shorter than this, so that each field says something.
const SHORTEST: usize = 16;

/// The greatest limit for each of these lengths with which they fit into a budget together. A
/// short text leaves its share to the longer ones.
fn fair_limit(lengths: impl Iterator<Item = usize> + Clone, budget: usize) -> usize {
    if lengths.clone().sum::<usize>() <= budget {
        return usize::MAX;
    }
    let mut lengths: Vec<_> = lengths.collect();
    lengths.sort_unstable();
    let (mut left, mut count) = (budget, lengths.len());
    for length in lengths {
        let share = left / count;
        if length > share {
            return share.max(SHORTEST);
        }
        left -= length;
        count -= 1;
    }
    usize::MAX
}

/// A text with at most so many bytes: its beginning and, if there is room, its end.
fn shortened(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return text.into();
    }
    let room = limit.saturating_sub(ELLIPSIS.len());
    let tail = if room >= 4 * TAIL { TAIL } else { 0 };
    let beginning = (0..=room - tail).rev().find_map(|end| text.get(..end)).unwrap_or_default();
    let end = (text.len() - tail..).find_map(|start| text.get(start..)).unwrap_or_default();
    format!("{beginning}{ELLIPSIS}{end}").into()
}

/// Members whose values fit into a budget.
fn shorten_members(members: Vec<(String, Value)>, budget: usize) -> Vec<(String, Value)> {
    let (names, values): (Vec<_>, Vec<_>) = members.into_iter().unzip();
    names.into_iter().zip(shorten_values(values, budget)).collect()
}

fn shorten_values(values: Vec<Value>, budget: usize) -> Vec<Value> {
    let lengths: Vec<_> = values.iter().map(|value| written(value).len()).collect();
    let limit = fair_limit(lengths.iter().copied(), budget);
    let each = values.into_iter().zip(lengths);
    each.map(|(value, length)| if length <= limit { value } else { shorten(value, limit) }).collect()
}

/// A value whose texts have at most so many bytes.
fn shorten(value: Value, limit: usize) -> Value {
    match value {
        Value::String(text) => Value::String(shortened_in_json(&text, limit)),
        Value::Object(members) => shorten_members(members.into_iter().collect(), limit).into_iter().collect(),
        Value::Array(items) => shorten_values(items, limit).into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

/// A text that has at most so many bytes in the log.
fn shortened_in_json(text: &str, limit: usize) -> String {
    let mut room = limit.saturating_sub("\"\"".len() + ELLIPSIS.len());
    let mut kept = String::new();
    for character in text.chars() {
        let length = written(&character).len() - "\"\"".len();
        if length > room {
            break;
        }
        room -= length;
        kept.push(character);
    }
    kept + ELLIPSIS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn short_texts_leave_their_share_to_long_ones() {
        assert_eq!(fair_limit([10, 20].into_iter(), 30), usize::MAX);
        assert_eq!(fair_limit([10, 1000, 1000].into_iter(), 210), 100);
        assert_eq!(fair_limit([500, 10].into_iter(), 100), 90);
        assert_eq!(fair_limit([100; 50].into_iter(), 100), SHORTEST);
    }

    #[test]
    fn a_shortened_text_keeps_the_count_at_its_end() {
        let text = format!("{} and 7,984 more", "owner, ".repeat(1000));
        let short = shortened(&text, 1000);
        assert!(short.len() <= 1000 && short.starts_with("owner, "), "{short}");
        assert!(short.ends_with(" and 7,984 more") && short.contains('…'), "{short}");
        assert_eq!(shortened("short", 1000), "short");
    }

    proptest! {
        #[test]
        fn values_fit_whatever_they_are(
            texts in prop::collection::vec(any::<String>(), 1..6),
            times in 1_usize..500,
            limit in 64_usize..5000,
        ) {
            for text in &texts {
                let text = text.repeat(times);
                prop_assert!(shortened(&text, limit).len() <= limit);
                prop_assert!(written(&shortened_in_json(&text, limit)).len() <= limit + 2 * ELLIPSIS.len());
            }
            let owner = json!({"kind": texts[0].repeat(times), "uid": "\u{1b}".repeat(times)});
            let line = json!({"texts": texts, "owners": vec![owner; 16], "error": "\u{202e}".repeat(times)});
            let Value::Object(line) = line else { unreachable!() };
            let short = shorten_members(line.into_iter().collect(), LONGEST);
            let total: usize = short.iter().map(|(_, value)| written(value).len()).sum();
            prop_assert!(total <= LONGEST + LONGEST / 4, "{total}");
        }
    }
}
