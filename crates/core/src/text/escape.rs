//! Escapes text from the cluster so that it is safe to show on one line.
//!
//! The author of an object chooses its owner references, uids and kinds, and a webhook its
//! messages. A line break in them would forge a line of the log, an escape sequence would
//! control the reader's terminal, and a character that changes the writing direction would
//! make a line look like another one.

use std::fmt::{self, Display, Write};

/// Displays a value on one line, with Rust's escape sequences for characters that are not
/// printable. All other characters, including quotation marks and backslashes, stay.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<T>(pub T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

/// Escapes what is written to another writer.
#[derive(Debug)]
pub struct Escaping<'a, W>(pub &'a mut W);

impl<W: Write> Write for Escaping<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        escape(text, self.0, |out, character| write!(out, "{}", character.escape_debug()))
    }
}

/// Escapes text that is JSON already, where such characters occur only in strings.
///
/// # Errors
///
/// Those of the writer.
pub fn escape_json(text: &str, out: &mut impl Write) -> fmt::Result {
    escape(text, out, |out, character| {
        character.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
    })
}

/// The same of JSON on several lines, between which the line breaks stay.
pub fn escaped_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len() + 1);
    for (number, line) in json.lines().enumerate() {
        if number > 0 {
            escaped.push('\n');
        }
        // Writing to a string cannot fail.
        let _ = escape_json(line, &mut escaped);
    }
    escaped
}

fn escape<W: Write>(text: &str, out: &mut W, escaped: impl Fn(&mut W, char) -> fmt::Result) -> fmt::Result {
    let mut rest = text;
    while let Some((at, character)) = rest.char_indices().find(|(_, character)| !is_printable(*character)) {
        let (plain, others) = rest.split_at(at);
        out.write_str(plain)?;
        escaped(out, character)?;
        rest = &others[character.len_utf8()..];
    }
    out.write_str(rest)
}

/// Whether a character is neither a control or format character nor a separator other than
/// the space: the standard library does not escape such a character in the middle of a text.
pub fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    let mut text = [b'a'; 5];
    let length = 1 + character.encode_utf8(&mut text[1..]).len();
    std::str::from_utf8(&text[..length]).is_ok_and(|text| text.escape_debug().nth(1) == Some(character))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Characters that change what a reader sees, or that some programs treat as a line break.
    const HARMFUL: &str = "\n\r\t\0\u{7}\u{8}\u{b}\u{c}\u{1b}\u{7f}\u{80}\u{85}\u{9b}\u{ad}\u{61c}\u{200b}\u{200e}\
        \u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2060}\u{2066}\u{2067}\u{2068}\u{2069}\
        \u{feff}\u{fff9}\u{e0001}\u{e0041}\u{f0000}";

    #[test]
    fn what_changes_the_line_is_escaped() {
        for character in HARMFUL.chars() {
            let escaped = Escaped(character).to_string();
            assert!(escaped.starts_with('\\') && escaped.is_ascii(), "{escaped}");
        }
        let line = Escaped("a\nb\r\u{1b}[31mc\u{202e}d").to_string();
        assert_eq!(line, r"a\nb\r\u{1b}[31mc\u{202e}d");
    }

    #[test]
    fn what_can_be_read_stays() {
        let readable =
            r#"admission webhook "a.b" denied: C:\x — größer, 日本語, Ελληνικά, עברית, e\u0301: ✓ 🦀"#;
        assert_eq!(Escaped(readable).to_string(), readable);
        assert_eq!(Escaped("e\u{301}").to_string(), "e\u{301}", "a mark belongs to its letter");
    }

    proptest! {
        #[test]
        fn nothing_but_printable_characters_is_left(text in any::<String>()) {
            let escaped = Escaped(&text).to_string();
            prop_assert!(escaped.chars().all(is_printable), "{escaped:?}");
            prop_assert!(escaped.chars().all(|c| !c.is_control() && !HARMFUL.contains(c)));
        }

        #[test]
        fn json_says_the_same_afterwards(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            let mut escaped = String::new();
            escape_json(&json, &mut escaped).unwrap();
            prop_assert!(escaped.chars().all(is_printable), "{escaped:?}");
            prop_assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
        }
    }
}
