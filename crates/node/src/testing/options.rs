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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        Options::parse("worlds", 7, arguments.iter().map(|&argument| argument.to_owned()))
    }

    #[test]
    fn numbers_are_read_and_arguments_of_other_harnesses_are_ignored() {
        assert_eq!(parse(&[]), Ok(Options::Many(7)));
        assert_eq!(parse(&["--worlds", "1_000_000", "--test-threads=2"]), Ok(Options::Many(1_000_000)));
        assert_eq!(parse(&["--seed", "42"]), Ok(Options::One(42)));
        assert_eq!(parse(&["--list"]), Ok(Options::Nothing));
        assert_eq!(parse(&["other"]), Ok(Options::Nothing));
        assert_eq!(parse(&["world"]), Ok(Options::Many(7)));
        assert!(parse(&["--worlds"]).is_err() && parse(&["--seed", "x"]).is_err());
    }
}
