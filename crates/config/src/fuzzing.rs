//! Properties of the configuration, for fuzzing.

use serde_json::Value;
use toml::Table;

use super::{Loader, Settings};

/// Loads any text as the configuration file. The result is either settings that are within their bounds and
/// equal what the file says, or an error with a message.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let settings = match Loader::new().text(text).load() {
        Ok(settings) => settings,
        Err(error) => {
            assert!(!error.to_string().trim().is_empty(), "an error without words");
            return;
        }
    };
    assert_eq!(settings.violation(), None);
    assert_eq!(by_tables(text).as_ref(), Ok(&settings), "the file says something else");
    match Loader::new().environment(variables(&settings)).load() {
        Ok(again) => assert_eq!(again, settings, "variables say something else than the file"),
        Err(error) => panic!("not accepted from variables: {error}"),
    }
}

/// The settings of a file, without the loader.
fn by_tables(text: &str) -> Result<Settings, toml::de::Error> {
    fn merge(defaults: &mut Table, table: Table) {
        for (key, value) in table {
            match (defaults.get_mut(&key), value) {
                (Some(toml::Value::Table(section)), toml::Value::Table(table)) => merge(section, table),
                (_, value) => drop(defaults.insert(key, value)),
            }
        }
    }
    let mut all: Table = super::load::DEFAULTS.parse()?;
    merge(&mut all, text.parse()?);
    all.try_into()
}

/// Environment variables with these settings.
fn variables(settings: &Settings) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    fn below(name: &str, value: &Value, variables: &mut Vec<(std::ffi::OsString, std::ffi::OsString)>) {
        let text = match value {
            Value::Object(entries) => {
                for (key, value) in entries {
                    below(&format!("{name}__{}", key.to_uppercase()), value, variables);
                }
                return;
            }
            Value::String(text) => text.clone(),
            Value::Array(elements) => elements.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
            other => other.to_string(),
        };
        variables.push((name.into(), text.into()));
    }
    let mut variables = Vec::new();
    below("KUBE_GC", &serde_json::to_value(settings).unwrap_or_default(), &mut variables);
    variables
}
