//! Loads and merges the sources of the configuration. Errors are in words for their author.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use config::{Config, File, FileFormat, Map, Source as _, Value, ValueKind};

use super::Settings;
use super::settings::RULES;

/// The prefix of the environment variables. It ends with two underscores, so that
/// variables such as `KUBE_GC_CONFIG` are not mistaken for settings.
pub(super) const PREFIX: &str = "KUBE_GC__";
/// The variable from which Rust programs usually take their log filter, and its key.
const RUST_LOG: (&str, &str) = ("RUST_LOG", "log.filter");

/// The built-in defaults.
pub(super) const DEFAULTS: &str = include_str!("../default.toml");

/// Collects the sources of the configuration. Later sources win: defaults, file,
/// environment, flags.
#[derive(Debug, Default)]
pub struct Loader {
    file: Option<PathBuf>,
    /// The content of the file, if it need not be read.
    text: Option<String>,
    environment: Vec<(OsString, OsString)>,
    flags: Vec<(&'static str, &'static str, Value)>,
}

impl Loader {
    /// A loader that has only the built-in defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a TOML file.
    pub fn file(mut self, path: Option<&Path>) -> Self {
        self.file = path.map(Path::to_owned);
        self
    }

    /// Adds a TOML file with this content, which errors call `text`.
    pub fn text(self, text: &str) -> Self {
        Self { file: Some(PathBuf::from("text")), text: Some(text.to_owned()), ..self }
    }

    /// Adds environment variables, usually all of [`std::env::vars_os`]. It ignores those
    /// of other programs.
    pub fn environment(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.environment.extend(variables);
        self
    }

    /// Adds a command-line flag, if it was given, as the value of a key.
    #[doc(hidden)]
    pub fn flag(
        mut self,
        flag: &'static str,
        key: &'static str,
        value: Option<impl Into<ValueKind>>,
    ) -> Self {
        self.flags.extend(value.map(|value| (flag, key, Value::new(None, value))));
        self
    }

    /// Reads, merges and validates the sources.
    ///
    /// # Errors
    /// If a source cannot be read, or has an unknown key or a bad value. The error names
    /// the key and the source.
    pub fn load(self) -> Result<Settings, ConfigError> {
        let defaults = File::from_str(DEFAULTS, FileFormat::Toml);
        let mut merge = Merge { known: flat(defaults.collect().map_err(other)?), set: BTreeMap::new() };
        if let Some(path) = self.file {
            let text = match self.text {
                Some(text) => text,
                None => std::fs::read_to_string(&path)
                    .map_err(|error| ConfigError::Unreadable { path: path.clone(), error })?,
            };
            for (key, value) in flat(parse(&path, &text)?) {
                // An empty section sets nothing.
                if !(matches!(value.kind, ValueKind::Table(_)) && merge.is_section(&key)) {
                    merge.set(key, value, Origin::File(path.clone()))?;
                }
            }
        }
        // RUST_LOG must not override KUBE_GC__LOG__FILTER.
        let (general, ours): (Vec<_>, Vec<_>) =
            self.environment.into_iter().partition(|(name, _)| name == RUST_LOG.0);
        for (name, text) in general.into_iter().filter(|(_, text)| !text.is_empty()).chain(ours) {
            merge.variable(&name.to_string_lossy(), text)?;
        }
        for (flag, key, value) in self.flags {
            merge.set(key.to_owned(), value, Origin::Flag(flag))?;
        }

        let mut builder = Config::builder().add_source(defaults);
        for (key, (value, _)) in &merge.set {
            builder = builder.set_override(key, value.clone()).map_err(other)?;
        }
        let merged = builder.build().map_err(other)?;
        let settings = merged.try_deserialize().map_err(|error| merge.explain(error))?;
        // Bounds, and rules about several keys.
        match RULES.iter().find(|rule| !(rule.holds)(&settings)) {
            Some(rule) => Err(merge.bad(rule.key)),
            None => Ok(settings),
        }
    }
}

fn parse(path: &Path, text: &str) -> Result<Map<String, Value>, ConfigError> {
    File::from_str(text, FileFormat::Toml).collect().map_err(|error| {
        let message = match error {
            config::ConfigError::FileParse { cause, .. } => cause.to_string(),
            other => other.to_string(),
        };
        ConfigError::Syntax { path: path.to_owned(), message: message.trim_end().to_owned() }
    })
}

struct Merge {
    /// The keys and their defaults, which have their types.
    known: BTreeMap<String, Value>,
    /// The value of each key that a source sets, and the last such source.
    set: BTreeMap<String, (Value, Origin)>,
}

impl Merge {
    /// Takes a variable of the environment. Text that cannot be parsed as the type of its key stays text,
    /// which is then rejected.
    fn variable(&mut self, name: &str, text: OsString) -> Result<(), ConfigError> {
        let key = match name.strip_prefix(PREFIX) {
            Some(path) => path.to_lowercase().replace("__", "."),
            None if name == RUST_LOG.0 => RUST_LOG.1.to_owned(),
            None => return Ok(()),
        };
        let origin = Origin::Variable(name.to_owned());
        let text = match text.into_string() {
            Ok(text) => text,
            Err(text) => {
                let value = format!("{text:?} is not UTF-8");
                return Err(ConfigError::BadValue { allowed: allowed(&key), key, origin, value });
            }
        };
        let kind = match self.known.get(&key).map(|known| &known.kind) {
            Some(ValueKind::Boolean(_)) => text.parse().map(ValueKind::Boolean).ok(),
            Some(ValueKind::I64(_)) => text.parse().map(ValueKind::I64).ok(),
            Some(ValueKind::Array(_)) => {
                let elements = text.split(',').map(str::trim).filter(|element| !element.is_empty());
                Some(ValueKind::Array(elements.map(Value::from).collect()))
            }
            _ => None,
        };
        self.set(key, Value::new(None, kind.unwrap_or(ValueKind::String(text))), origin)
    }

    /// Sets a key if it is known and the type of its value is right. The `config` crate would coerce 2.7 to
    /// 3, true to 1 and "5" to 5. In a file, these are mistakes.
    fn set(&mut self, key: String, value: Value, origin: Origin) -> Result<(), ConfigError> {
        let Some(known) = self.known.get(&key) else { return Err(self.unknown(key, origin)) };
        let fits = match (&known.kind, &value.kind) {
            (ValueKind::Boolean(_), ValueKind::Boolean(_))
            | (ValueKind::String(_), ValueKind::String(_))
            | (ValueKind::I64(_), ValueKind::I64(_) | ValueKind::U64(_)) => true,
            (ValueKind::Array(_), ValueKind::Array(elements)) => {
                elements.iter().all(|element| matches!(element.kind, ValueKind::String(_)))
            }
            _ => false,
        };
        self.set.insert(key.clone(), (value, origin));
        if fits { Ok(()) } else { Err(self.bad(&key)) }
    }

    fn is_section(&self, key: &str) -> bool {
        self.known.keys().any(|known| known.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
    }

    fn unknown(&self, key: String, origin: Origin) -> ConfigError {
        if self.is_section(&key) {
            return ConfigError::Section { key, origin };
        }
        let similar = self.known.keys().map(|known| (similarity(known, &key), known));
        let similar = similar.filter(|(similarity, _)| *similarity > 0.8);
        let suggestion = similar.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known.clone());
        ConfigError::UnknownKey { key, origin, suggestion }
    }

    /// The error about the value of a known key.
    fn bad(&self, key: &str) -> ConfigError {
        let set = self.set.get(key).map(|(value, origin)| (value, origin.clone()));
        let (value, origin) = set
            .or_else(|| Some((self.known.get(key)?, Origin::Default)))
            .map_or_else(|| (String::new(), Origin::Default), |(value, origin)| (show(&value.kind), origin));
        ConfigError::BadValue { key: key.to_owned(), origin, value, allowed: allowed(key) }
    }

    /// Adds the source to an error about a text that serde could not parse.
    fn explain(&self, error: config::ConfigError) -> ConfigError {
        let (key, problem) = match &error {
            config::ConfigError::At { key: Some(key), error, .. } => (key, Some(error.to_string())),
            config::ConfigError::Type { key: Some(key), .. } => (key, None),
            _ => return other(error),
        };
        // The key of a list's element has an index.
        let mut bad = self.bad(key.split('[').next().unwrap_or_default());
        if let (ConfigError::BadValue { value, .. }, Some(problem)) = (&mut bad, problem) {
            *value += &format!(" ({problem})");
        }
        bad
    }
}

/// The values of nested tables by dotted key. An empty table is a value: it may be an empty section, or an
/// unknown key.
pub(super) fn flat(table: Map<String, Value>) -> BTreeMap<String, Value> {
    fn visit(prefix: &str, table: Map<String, Value>, flat: &mut BTreeMap<String, Value>) {
        for (key, value) in table {
            // A quoted key with a dot is not that of a section.
            let path = if key.contains('.') { format!("{prefix}{key:?}") } else { format!("{prefix}{key}") };
            match value.kind {
                ValueKind::Table(table) if !table.is_empty() => visit(&(path + "."), table, flat),
                _ => drop(flat.insert(path, value)),
            }
        }
    }
    let mut all = BTreeMap::new();
    visit("", table, &mut all);
    all
}

/// The values that a key may have.
fn allowed(key: &str) -> &'static str {
    RULES.iter().find(|rule| rule.key == key).map_or("what config/default.toml says", |rule| rule.allowed)
}

/// A value as it is written in a file.
fn show(kind: &ValueKind) -> String {
    match kind {
        ValueKind::String(text) => format!("{text:?}"),
        ValueKind::Array(elements) => {
            let elements: Vec<_> = elements.iter().map(|element| show(&element.kind)).collect();
            format!("[{}]", elements.join(", "))
        }
        ValueKind::Table(_) => "a section".to_owned(),
        other => other.to_string(),
    }
}

/// The similarity of an unknown key to a known one; 1 means equal. Typical mistakes are
/// a typing error, a missing section and a missing underscore.
fn similarity(known: &str, key: &str) -> f64 {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().replace(['-', '_'], "");
    let same_end = if last(known) == last(key) { 0.95 } else { 0.0 };
    strsim::jaro_winkler(known, key).max(same_end)
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
#[non_exhaustive]
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
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Users of the library cannot name the type of that crate.
fn other(error: config::ConfigError) -> ConfigError {
    ConfigError::Other(error.into())
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|key| format!("; did you mean `{key}`?")).unwrap_or_default()
}
