//! Loads and merges the sources of the configuration.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use config::{Config, File, FileFormat, Map, Source, Value, ValueKind};

use super::Settings;
use super::error::{ConfigError, Origin};
use super::rules::{RULES, allowed};

/// The prefix of the environment variables. It ends with two underscores, so that
/// variables such as `KUBE_GC_CONFIG` are not mistaken for settings.
const PREFIX: &str = "KUBE_GC__";

/// The built-in defaults.
pub(super) const DEFAULTS: &str = include_str!("../../config/default.toml");

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
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a TOML file.
    #[must_use]
    pub fn file(mut self, path: Option<&Path>) -> Self {
        self.file = path.map(Path::to_owned);
        self
    }

    /// Adds a TOML file with this content.
    #[cfg(any(test, feature = "internals"))]
    pub(super) fn text(mut self, text: String) -> Self {
        self.file = Some(PathBuf::from("text"));
        self.text = Some(text);
        self
    }

    /// Adds environment variables, usually all of [`std::env::vars_os`]. It ignores those
    /// of other programs.
    #[must_use]
    pub fn environment(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.environment.extend(variables);
        self
    }

    /// Adds a command-line flag, if it was given, as the value of a key.
    #[must_use]
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
        let mut merge = Merge::new(Value::new(None, ValueKind::Table(defaults.collect()?)));

        let mut layers = Vec::new();
        if let Some(path) = self.file {
            let text = match self.text {
                Some(text) => text,
                None => std::fs::read_to_string(&path)
                    .map_err(|error| ConfigError::Unreadable { path: path.clone(), error })?,
            };
            let table = parse(&path, &text)?;
            layers.push(merge.table(table, &Origin::File(path))?);
        }
        layers.push(merge.environment(self.environment)?);
        let mut flags = Layer::default();
        for (flag, key, value) in self.flags {
            merge.value(&mut flags, key.to_owned(), value, Origin::Flag(flag))?;
        }
        layers.push(flags);

        let builder = layers
            .into_iter()
            .fold(Config::builder().add_source(defaults), |builder, layer| builder.add_source(layer));
        let settings = builder.build()?.try_deserialize().map_err(|error| merge.explain(error))?;
        merge.check(&settings)?;
        Ok(settings)
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

/// The values of one source, by dotted key, checked against the known keys.
#[derive(Clone, Debug, Default)]
struct Layer(Map<String, Value>);

impl Source for Layer {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, config::ConfigError> {
        Ok(self.0.clone())
    }
}

/// The keys and their types, taken from the defaults, and the last source of each key.
struct Merge {
    known: BTreeMap<String, ValueKind>,
    set: BTreeMap<String, (Origin, String)>,
}

impl Merge {
    fn new(defaults: Value) -> Self {
        let mut known = BTreeMap::new();
        flatten(String::new(), defaults, &mut |key, value| {
            known.insert(key, value.kind);
        });
        let set =
            known.iter().map(|(key, kind)| (key.clone(), (Origin::Default, kind.to_string()))).collect();
        Self { known, set }
    }

    /// The layer of a file.
    fn table(&mut self, table: Map<String, Value>, origin: &Origin) -> Result<Layer, ConfigError> {
        let mut values = BTreeMap::new();
        flatten(String::new(), Value::new(None, ValueKind::Table(table)), &mut |key, value| {
            values.insert(key, value);
        });
        let mut layer = Layer::default();
        for (key, value) in values {
            // An empty section sets nothing.
            if !(matches!(value.kind, ValueKind::Table(_)) && self.is_section(&key)) {
                self.value(&mut layer, key, value, origin.clone())?;
            }
        }
        Ok(layer)
    }

    fn environment(&mut self, variables: Vec<(OsString, OsString)>) -> Result<Layer, ConfigError> {
        let mut layer = Layer::default();
        for (name, text) in variables {
            let name = name.to_string_lossy().into_owned();
            let origin = Origin::Variable(name.clone());
            let key = if let Some(path) = name.strip_prefix(PREFIX) {
                path.to_lowercase().replace("__", ".")
            } else if name == EnvFilterVariable::NAME {
                EnvFilterVariable::KEY.to_owned()
            } else {
                continue;
            };
            let text = text.into_string().map_err(|text| ConfigError::BadValue {
                key: key.clone(),
                origin: origin.clone(),
                value: format!("{text:?} is not UTF-8"),
                allowed: allowed(&key).to_owned(),
            })?;
            // RUST_LOG must not override KUBE_GC__LOG__FILTER.
            if name == EnvFilterVariable::NAME && (text.is_empty() || layer.0.contains_key(&key)) {
                continue;
            }
            let value = self.parse(&key, text);
            self.value(&mut layer, key, value, origin)?;
        }
        Ok(layer)
    }

    /// Parses the text of a variable as the type of its key. Text that cannot be parsed
    /// stays text, which validation then rejects.
    fn parse(&self, key: &str, text: String) -> Value {
        let kind = match self.known.get(key) {
            Some(ValueKind::Boolean(_)) => text.parse().map(ValueKind::Boolean).ok(),
            Some(ValueKind::I64(_) | ValueKind::U64(_)) => text.parse().map(ValueKind::I64).ok(),
            Some(ValueKind::Array(_)) => {
                let elements = text.split(',').map(str::trim).filter(|element| !element.is_empty());
                Some(ValueKind::Array(elements.map(Value::from).collect()))
            }
            _ => None,
        };
        Value::new(None, kind.unwrap_or(ValueKind::String(text)))
    }

    /// Adds one value to a layer if its key is known and its type is right.
    fn value(
        &mut self,
        layer: &mut Layer,
        key: String,
        value: Value,
        origin: Origin,
    ) -> Result<(), ConfigError> {
        let Some(known) = self.known.get(&key) else {
            return Err(self.unknown(key, origin));
        };
        let shown = show(&value.kind);
        // The `config` crate would coerce 2.7 to 3, true to 1 and "5" to 5. In a file,
        // these are mistakes.
        let fits = match (known, &value.kind) {
            (ValueKind::Boolean(_), ValueKind::Boolean(_)) | (ValueKind::String(_), ValueKind::String(_)) => {
                true
            }
            (ValueKind::I64(_) | ValueKind::U64(_), ValueKind::I64(number)) => {
                *number >= 0 || takes_negative(&key)
            }
            (ValueKind::I64(_) | ValueKind::U64(_), ValueKind::U64(_)) => true,
            (ValueKind::Array(_), ValueKind::Array(elements)) => {
                elements.iter().all(|element| matches!(element.kind, ValueKind::String(_)))
            }
            _ => false,
        };
        if !fits {
            let allowed = allowed(&key).to_owned();
            return Err(ConfigError::BadValue { key, origin, value: shown, allowed });
        }
        self.set.insert(key.clone(), (origin, shown));
        layer.0.insert(key, value);
        Ok(())
    }

    fn is_section(&self, key: &str) -> bool {
        self.known.keys().any(|known| known.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
    }

    fn unknown(&self, key: String, origin: Origin) -> ConfigError {
        if self.is_section(&key) {
            return ConfigError::Shape { key, origin, problem: "is a section, not a value" };
        }
        let suggestion = self
            .known
            .keys()
            .map(|known| (similarity(known, &key), known))
            .filter(|(similarity, _)| *similarity > 0.8)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, known)| known.clone());
        ConfigError::UnknownKey { key, origin, suggestion }
    }

    /// Adds the source to an error about a text that serde could not parse.
    fn explain(&self, error: config::ConfigError) -> ConfigError {
        let (key, problem) = match &error {
            config::ConfigError::At { key: Some(key), error, .. } => (key.clone(), Some(error.to_string())),
            config::ConfigError::Type { key: Some(key), .. } => (key.clone(), None),
            _ => return ConfigError::Other(error),
        };
        let list = key.split('[').next().unwrap_or_default().to_owned();
        match self.set.get(&list) {
            Some((origin, shown)) => ConfigError::BadValue {
                value: problem.map_or_else(|| shown.clone(), |problem| format!("{shown} ({problem})")),
                allowed: allowed(&list).to_owned(),
                origin: origin.clone(),
                key: list,
            },
            None => ConfigError::Other(error),
        }
    }

    /// Checks what serde cannot: bounds, and rules about several keys.
    fn check(&self, settings: &Settings) -> Result<(), ConfigError> {
        for rule in RULES {
            if !(rule.holds)(settings) {
                let (origin, value) =
                    self.set.get(rule.key).cloned().unwrap_or((Origin::Default, String::new()));
                return Err(ConfigError::BadValue {
                    key: rule.key.to_owned(),
                    origin,
                    value,
                    allowed: rule.allowed.to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// The variable from which Rust programs usually take their log filter.
struct EnvFilterVariable;

impl EnvFilterVariable {
    const NAME: &'static str = "RUST_LOG";
    const KEY: &'static str = "log.filter";
}

/// Visits the values of nested tables by dotted key.
fn flatten(prefix: String, value: Value, visit: &mut impl FnMut(String, Value)) {
    match value.kind {
        // The caller decides about an empty table: an empty section, or an unknown key.
        ValueKind::Table(table) if !table.is_empty() || prefix.is_empty() => {
            for (key, value) in table {
                let path = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
                flatten(path, value, visit);
            }
        }
        _ => visit(prefix, value),
    }
}

/// Whether a number may be negative. For all others, that it may not is part of its rule.
fn takes_negative(key: &str) -> bool {
    matches!(key, "node.max_per_container" | "node.max_total")
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
/// a typing error and a missing section.
fn similarity(known: &str, key: &str) -> f64 {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().replace('-', "_");
    let same_end = if last(known) == last(key) { 0.95 } else { 0.0 };
    strsim::jaro_winkler(known, key).max(same_end)
}
