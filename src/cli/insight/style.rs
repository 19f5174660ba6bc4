//! Colours, for terminals only.

use std::io::IsTerminal as _;

use kube_gc_insight::State;

/// Whether and how text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    is_coloured: bool,
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

impl Style {
    /// Colours if standard output is a terminal and `NO_COLOR` is not set.
    pub fn detect() -> Self {
        let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { is_coloured: std::io::stdout().is_terminal() && !is_refused }
    }

    /// No colours.
    #[cfg(test)]
    pub const fn plain() -> Self {
        Self { is_coloured: false }
    }

    /// Colours.
    #[cfg(test)]
    pub const fn coloured() -> Self {
        Self { is_coloured: true }
    }

    /// A text in a colour. It must have been escaped.
    pub fn paint(self, colour: Colour, text: &str) -> String {
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
}

/// The colour of a state. Its word says the same.
pub const fn of_state(state: State) -> Colour {
    match state {
        State::Live => Colour::Plain,
        State::Terminating | State::DeletingDependents | State::Orphaning => Colour::Yellow,
        State::Absent | State::Unknown | State::Unresolved | State::InvalidScope => Colour::Red,
    }
}
