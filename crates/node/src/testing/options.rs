//! The command line of suites that make random worlds.

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Options {
    /// Nothing: the arguments list tests, or select others.
    Nothing,
    /// The world of this seed.
    One(u64),
    /// So many worlds, and every mistake.
    Many(u64),
}

impl Options {
    /// Reads the arguments of a suite. `usual` is how many worlds there are without `--worlds`. What the
    /// harness of other tests takes is ignored.
    ///
    /// # Errors
    /// A number is missing or is none.
    pub fn parse(
        suite: &str,
        usual: u64,
        arguments: impl IntoIterator<Item = String>,
    ) -> Result<Self, String> {
        let mut worlds = usual;
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a number"));
            match argument.as_str() {
                "--worlds" => worlds = number(&argument, &value()?)?,
                "--seed" => return Ok(Self::One(number(&argument, &value()?)?)),
                "--list" => return Ok(Self::Nothing),
                // A filter: these tests have one name.
                name if !name.starts_with('-') && !suite.contains(name) => return Ok(Self::Nothing),
                _ => {}
            }
        }
        Ok(Self::Many(worlds))
    }
}

/// A number, with `_` between digits or without.
///
/// # Errors
/// It is none; the message begins with its name.
fn number(name: &str, text: &str) -> Result<u64, String> {
    text.replace('_', "").parse().map_err(|_| format!("{name}: {text:?} is not a whole number"))
}
