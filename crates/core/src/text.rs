//! Bounded text for people.
//!
//! The API server accepts thousands of owner references on one object, with names, kinds and uids
//! of any length. Log lines, events, errors and debug pages show at most [`LISTED`] references and
//! [`LONGEST`] bytes, and the number of items that are left out.

pub mod escape;

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

/// The maximum length in bytes of a log field, an error, an event's message or a page's entry.
pub const LONGEST: usize = 4096;
/// The maximum number of references, or other items, in one text.
pub const LISTED: usize = 16;
/// The maximum length of a name, kind, `apiVersion` or uid. An object's name has at most 253
/// characters.
pub const LONGEST_WORD: usize = 256;

/// Marks truncated text.
const ELLIPSIS: char = '…';
/// The length of " and 18,446,744,073,709,551,615 more" with a separator, rounded up.
const LONGEST_REST: usize = 48;

/// Truncates a text to this many bytes, at a character boundary.
pub fn excerpt(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return text.into();
    }
    let mut end = limit.saturating_sub(ELLIPSIS.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ELLIPSIS}", &text[..end]).into()
}

/// Truncates a name, kind, `apiVersion` or uid to [`LONGEST_WORD`] bytes.
pub fn word(text: &str) -> Cow<'_, str> {
    excerpt(text, LONGEST_WORD)
}

/// Formats a value and truncates it to [`LONGEST`] bytes.
pub fn bounded(shown: impl Display) -> String {
    excerpt(&shown.to_string(), LONGEST).into_owned()
}

/// Lists up to [`LISTED`] items in up to [`LONGEST`] bytes, and says how many are left out. No
/// further item is requested from the iterator. `total` is the number of all items.
pub fn listed<T: Display>(separator: &str, total: usize, items: impl IntoIterator<Item = T>) -> String {
    let mut text = String::new();
    append_listed(&mut text, separator, total, items);
    text
}

/// Appends a [list](listed) to a text, which then has at most [`LONGEST`] bytes.
pub fn append_listed<T: Display>(
    text: &mut String,
    separator: &str,
    total: usize,
    items: impl IntoIterator<Item = T>,
) {
    let limit = LONGEST - LONGEST_REST;
    let mut shown = 0;
    for item in items.into_iter().take(LISTED) {
        let separator = if text.is_empty() { "" } else { separator };
        let (item, room) = (item.to_string(), limit.saturating_sub(text.len() + separator.len()));
        let is_whole = item.len() <= room;
        // An item that does not fit is left out, unless it is the only one.
        if !is_whole && (shown > 0 || room < ELLIPSIS.len_utf8()) {
            break;
        }
        text.push_str(separator);
        text.push_str(&excerpt(&item, room));
        shown += 1;
        if !is_whole {
            break;
        }
    }
    if shown < total {
        let rest = Thousands(total - shown);
        let separator = if shown == 0 { "" } else { separator };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}and {rest} more");
    }
}

/// A number with thousands separators: `7,984`.
#[derive(Clone, Copy, Debug)]
pub struct Thousands(pub usize);

impl Display for Thousands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                f.write_char(',')?;
            }
            f.write_char(digit)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_text_is_shown_as_it_is() {
        assert_eq!(word("shop").to_string(), "shop");
        assert_eq!(bounded(format_args!("{} of {}", 1, 2)), "1 of 2");
        assert_eq!(listed("; ", 2, ["a", "b"]), "a; b");
        assert_eq!(listed::<&str>("; ", 0, []), "");
    }

    #[test]
    fn omitted_items_are_counted() {
        let made = Cell::new(0);
        let items = (0..8000).inspect(|_| made.set(made.get() + 1)).map(|number| format!("r{number}"));
        let text = listed("; ", 8000, items);
        assert_eq!(made.get(), LISTED);
        assert!(text.starts_with("r0; r1; ") && text.ends_with("; r15; and 7,984 more"), "{text}");
        let long = listed(", ", 3, ["x".repeat(3000), "y".repeat(3000), "z".to_owned()]);
        assert!(long.ends_with("x, and 2 more") && long.len() < 3050, "{} bytes", long.len());
        let longest = listed(", ", 2, ["x".repeat(5000), "y".to_owned()]);
        assert!(longest.ends_with("x…, and 1 more") && longest.len() <= LONGEST);
    }

    proptest! {
        /// Rule 7.3.
        // A `String` is UTF-8 whatever was cut; that nothing panics is the point.
        #[test]
        fn any_text_is_cut_to_the_limit(text in ".{0,3000}", limit in 3_usize..6000) {
            prop_assert!(excerpt(&text, limit).to_string().len() <= limit);
            let shown = bounded(&text);
            prop_assert!(shown.len() <= LONGEST);
            prop_assert!(shown == text || text.starts_with(shown.trim_end_matches(ELLIPSIS)));
            prop_assert_eq!(text.len() > LONGEST, shown != text);
        }

        #[test]
        fn a_shortened_list_states_the_total_count(items in prop::collection::vec("[^\u{1}]{1,700}", 0..40)) {
            let shown = listed("\u{1}", items.len(), &items);
            prop_assert!(shown.len() <= LONGEST);
            let mut parts: Vec<&str> = shown.split('\u{1}').filter(|part| !part.is_empty()).collect();
            let rest = parts.last().and_then(|last| last.strip_prefix("and ")?.strip_suffix(" more")?.parse().ok());
            let rest: usize = rest.unwrap_or_default();
            if rest > 0 {
                parts.pop();
            }
            prop_assert!(parts.len() <= LISTED);
            prop_assert_eq!(parts.len() + rest, items.len());
        }
    }
}
