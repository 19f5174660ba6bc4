//! Text for people: colours, tables, ages and names, and how it is written.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{IsTerminal as _, Write};
use std::time::SystemTime;

use crate::app::{Error, ErrorKind};
use kube_gc_core::object::split_api_version;
use kube_gc_core::text::escape::{Escaped, escaped_json};
use kube_gc_core::text::{excerpt, listed};
use kube_gc_insight::ObjectName;
pub use kube_gc_insight::age;

/// How many finalizers, or owners, a row names.
const IN_A_ROW: usize = 3;

/// How an answer is shown.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// With more detail, such as uids.
    pub wide: bool,
    /// With the namespaces of objects.
    pub namespaces: bool,
    /// With the names of the columns.
    pub headers: bool,
    /// Whether there are colours.
    pub is_coloured: bool,
    /// Whether nothing is drawn with other characters.
    pub is_ascii: bool,
    /// The columns of the terminal, if texts are cut to fit.
    pub room: Option<usize>,
    /// The present time.
    pub now: SystemTime,
}

/// A colour of the terminal's palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// As it is.
    Plain,
    /// Less important.
    Dim,
    /// The object of the question.
    Bold,
    /// Goes, or waits.
    Yellow,
    /// Is wrong, or missing.
    Red,
}

impl Look {
    /// Colours if standard output is a terminal and `NO_COLOR` is not set.
    pub fn new(wide: bool, headers: bool) -> Self {
        let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_coloured = std::io::stdout().is_terminal() && !is_refused;
        // As for systemctl, a locale that nobody has set, as in a container, says nothing.
        let mut locales = ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(std::env::var_os);
        let locale = locales.find(|locale| !locale.is_empty());
        let is_ascii = locale.is_some_and(|locale| is_ascii(&locale.to_string_lossy()));
        let room = if wide { None } else { columns() };
        Self { wide, namespaces: wide, headers, is_coloured, is_ascii, room, now: SystemTime::now() }
    }

    /// Without colours, at a time.
    #[cfg(test)]
    pub fn plain(wide: bool, now: &str) -> Self {
        let now = humantime::parse_rfc3339_weak(now).unwrap();
        Self { wide, namespaces: wide, headers: true, is_coloured: false, is_ascii: false, room: None, now }
    }

    /// A text in a colour. It must have been escaped.
    pub fn paint(&self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Plain => return text.to_owned(),
            _ if !self.is_coloured || text.is_empty() => return text.to_owned(),
            Colour::Dim => "2",
            Colour::Bold => "1",
            Colour::Yellow => "33",
            Colour::Red => "31",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// The lines of a tree.
    pub fn lines(&self, prefix: &str) -> String {
        if !self.is_ascii {
            return prefix.to_owned();
        }
        prefix.replace('└', "`").replace(['├', '│'], "|").replace('─', "-")
    }

    /// Rows under the names of their columns; empty without rows. A column without a name is not shown.
    pub fn table<R: IntoIterator<Item = Cell>>(
        &self,
        names: &[Option<&str>],
        rows: impl IntoIterator<Item = R>,
    ) -> String {
        let shown = |row: R| -> Vec<Cell> {
            row.into_iter().zip(names).filter(|(_, name)| name.is_some()).map(|(cell, _)| cell).collect()
        };
        let mut rows: Vec<Vec<Cell>> = rows.into_iter().map(shown).collect();
        if self.headers && !rows.is_empty() {
            rows.insert(0, names.iter().flatten().map(Cell::new).collect());
        }
        self.columns(&rows)
    }

    /// Adds a table after an empty line.
    pub fn section<R: IntoIterator<Item = Cell>>(
        &self,
        text: &mut String,
        names: &[Option<&str>],
        rows: impl IntoIterator<Item = R>,
    ) {
        let table = self.table(names, rows);
        if !table.is_empty() {
            text.push('\n');
            text.push_str(&table);
        }
    }

    /// A text that may be long, cut to a third of the terminal: what follows it must remain in sight.
    pub fn cut<'t>(&self, text: &'t str) -> Cow<'t, str> {
        excerpt(text, self.room.map_or(usize::MAX, |room| (room / 3).max(24)))
    }

    /// Rows with columns of equal width; the last one has any.
    pub fn columns(&self, rows: &[Vec<Cell>]) -> String {
        let mut widths: Vec<usize> = Vec::new();
        for row in rows {
            widths.resize(widths.len().max(row.len()), 0);
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.text.chars().count().max(*width);
            }
        }
        let mut text = String::new();
        for row in rows {
            let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or_default();
            for (column, cell) in row.iter().enumerate().take(last + 1) {
                text.push_str(&self.paint(cell.colour, &cell.text));
                if column < last {
                    let padding = widths[column].saturating_sub(cell.text.chars().count()) + 2;
                    text.extend(std::iter::repeat_n(' ', padding));
                }
            }
            text.push('\n');
        }
        text
    }

    /// How long ago a time in RFC 3339 was, as kubectl writes it; `None` if it is no time.
    pub fn age(&self, time: &str) -> Option<String> {
        let time = humantime::parse_rfc3339_weak(time).ok()?;
        Some(age(self.now.duration_since(time).unwrap_or_default().as_secs()))
    }

    /// The same at this time in RFC 3339, if it is one: that of the API server.
    pub fn at(self, time: Option<&str>) -> Self {
        let now = time.and_then(|time| humantime::parse_rfc3339_weak(time).ok());
        Self { now: now.unwrap_or(self.now), ..self }
    }
}

/// The columns of the terminal that standard output is, if it is one.
pub fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// The end of a text with at most so many characters: the end of a name tells more than its beginning.
#[cfg(feature = "node")]
pub fn end(text: String, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text;
    }
    std::iter::once('…').chain(text.chars().skip(count - most.saturating_sub(1))).collect()
}

/// A cell of a table. Its text is escaped.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    colour: Colour,
}

impl Cell {
    pub fn new(text: impl Display) -> Self {
        Self { text: Escaped(text).to_string(), colour: Colour::Plain }
    }

    pub fn coloured(mut self, colour: Colour) -> Self {
        self.colour = colour;
        self
    }
}

/// An object as kubectl names it: `pod/web`, `deployment.apps/web`. The text is escaped.
pub fn kubectl_name(object: &ObjectName) -> String {
    let (group, _) = split_api_version(&object.api_version);
    let dot = if group.is_empty() { "" } else { "." };
    let kind = object.kind.to_lowercase();
    format!("{}{dot}{}/{}", Escaped(kind), Escaped(group), Escaped(&object.name))
}

/// Objects as kubectl names them, one on a line, each once.
pub fn kubectl_names<'a>(objects: impl IntoIterator<Item = &'a ObjectName>) -> String {
    let mut known = std::collections::HashSet::new();
    let new = objects.into_iter().filter(|object| known.insert(*object));
    new.map(|object| kubectl_name(object) + "\n").collect()
}

/// The first of several things.
pub fn first(all: &[String]) -> String {
    listed(", ", all.len(), all.iter().take(IN_A_ROW))
}

fn is_ascii(locale: &str) -> bool {
    !locale.to_lowercase().replace('-', "").contains("utf8")
}

/// The plural of a kind.
pub fn plural(kind: &str, count: usize) -> String {
    match kind.strip_suffix('y') {
        _ if count == 1 => kind.to_owned(),
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if kind.ends_with(['s', 'x']) => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

/// Adds a line that is escaped.
pub fn line(text: &mut String, line: impl Display) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", Escaped(line));
}

/// JSON in which nothing controls a terminal.
pub fn json(text: &str) -> String {
    escaped_json(text) + "\n"
}

/// Writes to standard output. False if nobody reads it any more, which is no error.
///
/// # Errors
/// It cannot be written.
pub fn print(text: &str) -> Result<bool, Error> {
    write(text, &mut std::io::stdout().lock())
}

fn write(text: &str, out: &mut impl Write) -> Result<bool, Error> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            Err(Error::new(ErrorKind::Internal, format!("cannot write to standard output: {error}")))
        }
    }
}

/// Goes to the alternate screen, so that the terminal keeps what was on it, and cuts long lines.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?7l";
/// Moves to the upper left corner and clears the screen.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";
/// Undoes [`ENTER`].
const LEAVE: &str = "\u{1b}[?7h\u{1b}[?1049l";

/// Shows a text again when it has changed: what was shown last, and how the next text replaces it.
#[derive(Debug)]
pub struct Redraw {
    last: Option<String>,
    is_screen: bool,
    is_json: bool,
}

impl Redraw {
    /// A terminal is cleared. Elsewhere, an empty line is between two texts, or nothing if each is
    /// one line of JSON.
    pub fn new(is_json: bool) -> Self {
        Self { last: None, is_screen: std::io::stdout().is_terminal() && !is_json, is_json }
    }

    /// What to write for a text, unless it is the last one. Ages change all the time: only a screen shows a
    /// text in which nothing else has changed.
    pub fn next(&mut self, text: String, has_changed: bool) -> Option<String> {
        if self.last.as_ref() == Some(&text) || !(has_changed || self.is_screen) {
            return None;
        }
        let shown = match (self.is_screen, &self.last) {
            (true, last) => {
                let enter = if last.is_none() { ENTER } else { "" };
                format!("{enter}{CLEAR}{}", cut(&text, height()))
            }
            (false, Some(_)) if !self.is_json => format!("\n{text}"),
            (false, _) => text.clone(),
        };
        self.last = Some(text);
        Some(shown)
    }

    /// What to write at the end: back to what was on the terminal before.
    pub const fn end(&self) -> &'static str {
        if self.is_screen && self.last.is_some() { LEAVE } else { "" }
    }
}

/// The lines of the terminal.
fn height() -> usize {
    rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_row.into())
}

/// As much of a text as a screen of this height has room for, with one line below it; 0 for any height.
fn cut(text: &str, height: usize) -> String {
    let lines = text.lines().count();
    if height == 0 || lines < height {
        return text.to_owned();
    }
    let shown = height.saturating_sub(2);
    let mut cut: String = text.split_inclusive('\n').take(shown).collect();
    line(&mut cut, format_args!("… {} more", lines - shown));
    cut
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const THEN: &str = "2026-01-01T00:00:00Z";

    #[test]
    fn columns_are_aligned_and_end_without_spaces() {
        let rows = [
            vec![Cell::new("a"), Cell::new("b\n"), Cell::new("")],
            vec![Cell::new("ccc"), Cell::new("d"), Cell::new("e")],
        ];
        assert_eq!(Look::plain(false, THEN).columns(&rows), "a    b\\n\nccc  d    e\n");
    }

    #[test]
    fn a_long_text_is_cut_in_a_terminal_alone() {
        let cut = |room| Look { room, ..Look::plain(false, THEN) }.cut(&"x".repeat(300)).len();
        assert_eq!([None, Some(120), Some(10)].map(cut), [300, 40, 24]);
    }

    #[test]
    fn colours_do_not_change_the_width() {
        let row = |text: &str, colour| vec![Cell::new(text).coloured(colour), Cell::new("x")];
        let rows = [row("a", Colour::Red), row("bb", Colour::Plain)];
        let look = Look { is_coloured: true, ..Look::plain(false, THEN) };
        assert_eq!(look.columns(&rows), "\u{1b}[31ma\u{1b}[0m   x\nbb  x\n");
    }

    #[test]
    fn ages_are_as_in_kubectl() {
        let look = Look::plain(false, THEN);
        let after =
            |seconds| Look { now: look.now + Duration::from_secs(seconds), ..look }.age(THEN).unwrap();
        assert_eq!([after(5), after(180), after(10_000), after(400_000)], ["5s", "3m", "2h", "4d"]);
        assert_eq!(look.age("soon"), None);
    }

    #[cfg(feature = "node")]
    #[test]
    fn the_end_of_a_long_name_is_shown() {
        let shown = |most| end("registry.example/shop/web:1".to_owned(), most);
        assert_eq!([shown(27), shown(6)], ["registry.example/shop/web:1", "…web:1"]);
    }

    #[test]
    fn a_locale_without_utf_8_is_ascii() {
        let locales = ["C", "POSIX", "de_DE.ISO-8859-1", "C.utf8", "de_DE.UTF-8"];
        assert_eq!(locales.map(is_ascii), [true, true, true, false, false]);
    }

    #[test]
    fn only_changes_are_shown() {
        let shown = |is_screen, is_json| -> String {
            let mut redraw = Redraw { last: None, is_screen, is_json };
            let texts = [("a\n", true), ("a\n", true), ("b\n", true), ("older b\n", false)];
            texts
                .into_iter()
                .filter_map(|(text, has_changed)| redraw.next(text.to_owned(), has_changed))
                .collect()
        };
        assert_eq!(shown(false, false), "a\n\nb\n");
        assert_eq!(shown(false, true), "a\nb\n");
        assert_eq!(shown(true, false), format!("{ENTER}{CLEAR}a\n{CLEAR}b\n{CLEAR}older b\n"));
    }

    #[test]
    fn a_screen_says_what_it_has_no_room_for() {
        for (height, shown) in [(0, "a\nb\nc\nd\n"), (5, "a\nb\nc\nd\n"), (4, "a\nb\n… 2 more\n")] {
            assert_eq!(cut("a\nb\nc\nd\n", height), shown);
        }
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
        assert!(!write("a", &mut Closed).unwrap());
    }
}
