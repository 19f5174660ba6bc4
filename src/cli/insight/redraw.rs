//! Shows a text again when it has changed.

use std::io::{IsTerminal as _, Write};

use crate::app::{Error, ErrorKind};

/// Moves to the upper left corner and clears the screen.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J\u{1b}[3J";

/// What was shown last, and how the next text replaces it.
#[derive(Debug)]
pub struct Redraw {
    last: Option<String>,
    /// What comes before a text that is not the first one.
    between: &'static str,
    /// What comes before the first one.
    before: &'static str,
}

impl Redraw {
    /// A terminal is cleared. Elsewhere, an empty line is between two texts, or nothing if each is
    /// one line of JSON.
    pub fn new(is_json: bool) -> Self {
        let is_screen = std::io::stdout().is_terminal() && !is_json;
        Self::of(is_screen, is_json)
    }

    const fn of(is_screen: bool, is_json: bool) -> Self {
        let (before, between) = match (is_screen, is_json) {
            (true, _) => (CLEAR, CLEAR),
            (false, true) => ("", ""),
            (false, false) => ("", "\n"),
        };
        Self { last: None, between, before }
    }

    /// Shows a text unless it is the last one. Ages change all the time: only a screen shows a text
    /// in which nothing else has changed. False if nobody reads it any more.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn show(&mut self, text: String, has_changed: bool) -> Result<bool, Error> {
        self.write(text, has_changed, &mut std::io::stdout().lock())
    }

    fn write(&mut self, text: String, has_changed: bool, out: &mut impl Write) -> Result<bool, Error> {
        let is_screen = !self.before.is_empty();
        if self.last.as_ref() == Some(&text) || !(has_changed || is_screen) {
            return Ok(true);
        }
        let before = if self.last.is_some() { self.between } else { self.before };
        let written = out.write_all(format!("{before}{text}").as_bytes()).and_then(|()| out.flush());
        self.last = Some(text);
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => {
                let message = format!("cannot write to standard output: {error}");
                Err(Error::new(ErrorKind::Internal, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(is_screen: bool, is_json: bool) -> String {
        let mut redraw = Redraw::of(is_screen, is_json);
        let mut out = Vec::new();
        for (text, has_changed) in [("a\n", true), ("a\n", true), ("b\n", true), ("older b\n", false)] {
            assert!(redraw.write(text.to_owned(), has_changed, &mut out).unwrap());
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_changes_are_shown() {
        assert_eq!(shown(false, false), "a\n\nb\n");
        assert_eq!(shown(false, true), "a\nb\n");
        assert_eq!(shown(true, false), format!("{CLEAR}a\n{CLEAR}b\n{CLEAR}older b\n"));
    }

    #[test]
    fn a_closed_pipe_is_the_end() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        assert!(!Redraw::of(false, false).write("a".to_owned(), true, &mut Closed).unwrap());
    }
}
