//! Aligned columns, and ages.

use std::time::SystemTime;

use super::style::{Colour, Style};
use kube_gc_core::text::escape::Escaped;

/// A cell. Its text is escaped.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    colour: Colour,
}

impl Cell {
    /// A cell with this text.
    pub fn new(text: impl std::fmt::Display) -> Self {
        Self { text: Escaped(text).to_string(), colour: Colour::Plain }
    }

    /// The same in a colour.
    pub fn coloured(mut self, colour: Colour) -> Self {
        self.colour = colour;
        self
    }
}

/// Rows with columns of equal width; the last one has any.
pub fn columns(rows: &[Vec<Cell>], style: Style) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.text.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or_default();
        for (column, cell) in row.iter().enumerate().take(last + 1) {
            text.push_str(&style.paint(cell.colour, &cell.text));
            if column < last {
                let padding = widths[column].saturating_sub(cell.text.chars().count()) + 2;
                text.extend(std::iter::repeat_n(' ', padding));
            }
        }
        text.push('\n');
    }
    text
}

/// Adds rows after an empty line, under the names of their columns if there are to be `headers`.
pub fn section(text: &mut String, names: &[&str], mut rows: Vec<Vec<Cell>>, headers: bool, style: Style) {
    if rows.is_empty() {
        return;
    }
    text.push('\n');
    if headers {
        rows.insert(0, names.iter().map(Cell::new).collect());
    }
    text.push_str(&columns(&rows, style));
}

/// How long ago a time in RFC 3339 was, as kubectl writes it; `None` if it is no time.
pub fn age(time: &str, now: SystemTime) -> Option<String> {
    let time = humantime::parse_rfc3339_weak(time).ok()?;
    let seconds = now.duration_since(time).unwrap_or_default().as_secs();
    Some(match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn columns_are_aligned_and_end_without_spaces() {
        let rows = [
            vec![Cell::new("a"), Cell::new("b\n"), Cell::new("")],
            vec![Cell::new("ccc"), Cell::new("d"), Cell::new("e")],
        ];
        assert_eq!(columns(&rows, Style::plain()), "a    b\\n\nccc  d    e\n");
    }

    #[test]
    fn colours_do_not_change_the_width() {
        let row = |text: &str, colour| vec![Cell::new(text).coloured(colour), Cell::new("x")];
        let rows = [row("a", Colour::Red), row("bb", Colour::Plain)];
        assert_eq!(columns(&rows, Style::coloured()), "\u{1b}[31ma\u{1b}[0m   x\nbb  x\n");
    }

    #[test]
    fn ages_are_as_in_kubectl() {
        let then = "2026-01-01T00:00:00Z";
        let after = |seconds| {
            age(then, humantime::parse_rfc3339_weak(then).unwrap() + Duration::from_secs(seconds)).unwrap()
        };
        assert_eq!([after(5), after(180), after(10_000), after(400_000)], ["5s", "3m", "2h", "4d"]);
        assert_eq!(age("soon", SystemTime::now()), None);
    }
}
