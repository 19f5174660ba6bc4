//! What can be wrong with a configuration, in words for whoever wrote it.

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

/// Why there are no settings.
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
    /// The file is no TOML.
    #[error("the configuration file {} is not valid TOML: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The parser's message, with line and column.
        message: String,
    },
    /// There is no such setting.
    #[error("unknown key `{key}` in {origin}{}", did_you_mean(suggestion.as_deref()))]
    UnknownKey {
        /// The key, with its section.
        key: String,
        /// Who set it.
        origin: Origin,
        /// A key that looks like it.
        suggestion: Option<String>,
    },
    /// A section where a value belongs, or the reverse.
    #[error("`{key}` in {origin} {problem}")]
    Shape {
        /// The key.
        key: String,
        /// Who set it.
        origin: Origin,
        /// What it is and should not be.
        problem: &'static str,
    },
    /// The value is of the wrong type or out of bounds.
    #[error("bad value for `{key}` in {origin}: {value}; it must be {allowed}")]
    BadValue {
        /// The key, with its section.
        key: String,
        /// Who set it.
        origin: Origin,
        /// What was set, perhaps with what is wrong with it.
        value: String,
        /// What may be set.
        allowed: String,
    },
    /// Anything else that the `config` crate finds.
    #[error("the configuration cannot be put together: {0}")]
    Other(#[from] config::ConfigError),
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|key| format!("; did you mean `{key}`?")).unwrap_or_default()
}
