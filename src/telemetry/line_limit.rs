//! Limits the length of a line of the log.
//!
//! Each text from the cluster is bounded before it is logged. Escaping can make it six times as
//! long, and a line has several of them, so all fields of a line share one limit. The longest
//! ones are shortened.

use std::borrow::Cow;

use serde_json::{Map, Value};

use kube_gc_core::text::LONGEST;
use kube_gc_core::text::escape::escape_json;

const ELLIPSIS: &str = "…";
/// How much of the end of a shortened text stays: it says how many items are left out.
const TAIL: usize = 64;
/// A shortened text is not shorter than this, so that each field says something.
const SHORTEST: usize = 16;

/// The greatest limit for each of these lengths with which they fit into a budget together. A
/// short text leaves its share to the longer ones.
pub(super) fn fair_limit(lengths: impl Iterator<Item = usize> + Clone, budget: usize) -> usize {
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
pub(super) fn shortened(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return text.into();
    }
    let room = limit.saturating_sub(ELLIPSIS.len());
    let tail = if room >= 4 * TAIL { TAIL } else { 0 };
    let beginning = (0..=room - tail).rev().find_map(|end| text.get(..end)).unwrap_or_default();
    let end = (text.len() - tail..).find_map(|start| text.get(start..)).unwrap_or_default();
    format!("{beginning}{ELLIPSIS}{end}").into()
}

/// A JSON object whose values fit into a line. `more_x` counts what an array `x` lost.
pub(super) fn shorten_members(line: &str) -> String {
    match serde_json::from_str(line) {
        Ok(members) => Value::Object(shorten_object(members, LONGEST)).to_string(),
        // It is an object that this process has written.
        Err(_) => "{}".to_owned(),
    }
}

fn shorten_object(mut members: Map<String, Value>, budget: usize) -> Map<String, Value> {
    let lengths: Vec<_> = members.values().map(written_length).collect();
    let limit = fair_limit(lengths.iter().copied(), budget);
    let names: Vec<_> = members.keys().cloned().collect();
    for (name, length) in names.into_iter().zip(lengths) {
        if length <= limit {
            continue;
        }
        let Some(value) = members.remove(&name) else { continue };
        let (value, lost) = shorten(value, limit);
        if lost > 0 {
            let more = format!("more_{name}");
            let before = members.get(&more).and_then(Value::as_u64).unwrap_or_default();
            members.insert(more, (before + lost).into());
        }
        members.insert(name, value);
    }
    members
}

/// A value with at most so many bytes, and how many items of an array are left out.
fn shorten(value: Value, limit: usize) -> (Value, u64) {
    match value {
        Value::String(text) => (Value::String(shortened_in_json(&text, limit)), 0),
        Value::Object(members) => (Value::Object(shorten_object(members, limit)), 0),
        Value::Array(items) => {
            let total = items.len();
            let mut left = limit;
            let mut kept = Vec::new();
            for item in items {
                let length = written_length(&item);
                if length > left {
                    // One item says more than none.
                    if kept.is_empty() {
                        kept.push(shorten(item, left).0);
                    }
                    break;
                }
                left -= length;
                kept.push(item);
            }
            let lost = (total - kept.len()) as u64;
            (Value::Array(kept), lost)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => (value, 0),
    }
}

/// How many bytes a value has in the log.
fn written_length(value: &Value) -> usize {
    let mut written = String::new();
    // Writing to a string cannot fail.
    let _ = escape_json(&value.to_string(), &mut written);
    written.len()
}

/// A text that has at most so many bytes in the log.
fn shortened_in_json(text: &str, limit: usize) -> String {
    let mut room = limit.saturating_sub("\"\"".len() + ELLIPSIS.len());
    let mut kept = String::new();
    for character in text.chars() {
        let length = written_length(&Value::from(character.to_string())) - "\"\"".len();
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

    #[test]
    fn an_array_counts_what_it_lost() {
        let owner = json!({"name": "\u{1b}".repeat(200), "uid": "u"});
        let line = json!({"message": "decision", "owners": vec![owner; 16], "more_owners": 5}).to_string();
        let short: Value = serde_json::from_str(&shorten_members(&line)).unwrap();
        let owners = short["owners"].as_array().unwrap().len();
        assert!((1..16).contains(&owners), "{short}");
        assert_eq!(short["more_owners"], 5 + 16 - owners, "{short}");
        assert_eq!(short["message"], "decision");
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
                prop_assert!(written_length(&shortened_in_json(&text, limit).into()) <= limit + 2 * ELLIPSIS.len());
            }
            let owner = json!({"kind": texts[0].repeat(times), "uid": "\u{1b}".repeat(times)});
            let line = json!({"texts": texts, "owners": vec![owner; 16], "error": "\u{202e}".repeat(times)});
            let short: Value = serde_json::from_str(&shorten_members(&line.to_string())).unwrap();
            let total: usize = short.as_object().unwrap().values().map(written_length).sum();
            prop_assert!(total <= LONGEST + LONGEST / 4, "{total}");
        }
    }
}
