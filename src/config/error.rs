//! Errors of a configuration, in words for its author.

use std::fmt;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The built-in defaults.
    Default,
    /// A configuration file.
    File(PathBuf),
    /// An environment variable, by its name.
    Variable(String),
    /// A command-line flag, such as `--delete-workers`.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("the built-in defaults"),
            Self::File(path) => write!(f, "the file {}", path.display()),
            Self::Variable(name) => write!(f, "the environment variable {name}"),
            Self::Flag(flag) => write!(f, "the flag {flag}"),
        }
    }
}

/// Why the settings could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        error: std::io::Error,
    },
    /// The file is not valid TOML.
    #[error("the configuration file {} is not valid TOML: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The parser's message, with line and column.
        message: String,
    },
    /// No setting has this key.
    #[error("unknown key `{key}` in {origin}{}", did_you_mean(suggestion.as_deref()))]
    UnknownKey {
        /// The key, with its section.
        key: String,
        /// The source that set it.
        origin: Origin,
        /// The most similar key.
        suggestion: Option<String>,
    },
    /// A section in place of a value.
    #[error("`{key}` in {origin} {problem}")]
    Shape {
        /// The key.
        key: String,
        /// The source that set it.
        origin: Origin,
        /// The predicate of the message.
        problem: &'static str,
    },
    /// The value has the wrong type or is out of bounds.
    #[error("bad value for `{key}` in {origin}: {value}; it must be {allowed}")]
    BadValue {
        /// The key, with its section.
        key: String,
        /// The source that set it.
        origin: Origin,
        /// The value, with the parser's message if there is one.
        value: String,
        /// The values that are allowed.
        allowed: String,
    },
    /// Any other error of the `config` crate.
    #[error("cannot merge the configuration sources: {0}")]
    Other(#[from] config::ConfigError),
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|key| format!("; did you mean `{key}`?")).unwrap_or_default()
}
