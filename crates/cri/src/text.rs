//! Text of others, for logs and errors: bounded, and without anything that a terminal obeys.

use std::fmt::{self, Display, Write};

/// The maximum number of characters of a runtime's message that are shown.
const LONGEST: usize = 512;

/// Shows a text of a runtime.
pub(crate) fn escaped(text: &str) -> Escaped<'_> {
    Escaped(text)
}

/// See [`escaped`].
pub(crate) struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, character) in self.0.trim().chars().enumerate() {
            if at == LONGEST {
                return f.write_char('…');
            }
            // What Rust escapes in a literal (control characters, text direction, characters
            // without a shape), but quotes and backslashes as they are.
            match character {
                '"' | '\'' | '\\' => f.write_char(character)?,
                _ => write!(f, "{}", character.escape_debug())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        let text = escaped("no \"such\" \u{1b}[2Jcontainer\r\n\u{202e}x\u{0}").to_string();
        assert_eq!(text, "no \"such\" \\u{1b}[2Jcontainer\\r\\n\\u{202e}x\\0");
        assert_eq!(escaped(" fine \n").to_string(), "fine");
    }

    #[test]
    fn a_long_text_is_cut() {
        let text = escaped(&"é".repeat(100_000)).to_string();
        assert_eq!(text.chars().count(), LONGEST + 1);
        assert!(text.ends_with('…'));
    }
}
