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
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    /// The file is not valid TOML. The message has line and column.
    #[error("the configuration file {} is not valid TOML: {message}", path.display())]
    Syntax { path: PathBuf, message: String },
    /// No setting has this key.
    #[error("unknown key `{key}` in {origin}{}", did_you_mean(suggestion.as_deref()))]
    UnknownKey { key: String, origin: Origin, suggestion: Option<String> },
    /// A section in place of a value.
    #[error("`{key}` in {origin} is a section, not a value")]
    Section { key: String, origin: Origin },
    /// The value has the wrong type or is out of bounds.
    #[error("bad value for `{key}` in {origin}: {value}; it must be {allowed}")]
    BadValue { key: String, origin: Origin, value: String, allowed: &'static str },
    /// Any other error of the `config` crate.
    #[error("cannot merge the configuration sources: {0}")]
    Other(#[from] config::ConfigError),
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|key| format!("; did you mean `{key}`?")).unwrap_or_default()
}
