//! Properties of the configuration, for fuzzing.

use std::ffi::OsString;

use config::{Source as _, ValueKind};
use toml::Table;

use super::load::{DEFAULTS, PREFIX, flat};
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
    let mut all: Table = DEFAULTS.parse()?;
    merge(&mut all, text.parse()?);
    all.try_into()
}

/// Environment variables with these settings.
fn variables(settings: &Settings) -> Vec<(OsString, OsString)> {
    let all = config::Config::try_from(settings).and_then(|all| all.collect()).unwrap_or_default();
    let variables = flat(all).into_iter().map(|(key, value)| {
        let text = match value.kind {
            ValueKind::Array(elements) => {
                elements.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            }
            other => other.to_string(),
        };
        (format!("{PREFIX}{}", key.replace('.', "__").to_uppercase()).into(), text.into())
    });
    variables.collect()
}
