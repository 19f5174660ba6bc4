//! Properties of the configuration, for fuzzing.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Listeners, Loader, Settings};

/// Loads any text as the configuration file. The result is either settings that are within
/// their bounds and equal what the file says, or an error with a message.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let settings = match Loader::new().text(text.to_owned()).load() {
        Ok(settings) => settings,
        Err(error) => {
            assert!(!error.to_string().trim().is_empty(), "an error without words");
            return;
        }
    };
    assert_within_bounds(&settings);

    let keys = keys(&settings);
    let defaults = self::keys(&Settings::default());
    let file: toml::Table = match text.parse() {
        Ok(file) => file,
        Err(error) => panic!("accepted, and no TOML: {error}"),
    };
    let mut said = BTreeMap::new();
    for (section, value) in &file {
        said_below(section.clone(), value, &mut said);
    }
    for key in said.keys() {
        assert!(keys.contains_key(key), "`{key}` is no setting and was accepted");
    }
    for (key, value) in &keys {
        match said.get(key) {
            Some(said) => assert!(says_the_same(key, said, value), "`{key}`: {said:?} became {value}"),
            None => assert_eq!(Some(value), defaults.get(key), "`{key}` was not set and is not the default"),
        }
    }

    // Environment variables with the same values give the same settings.
    let variables = keys.iter().map(|(key, value)| {
        let name = format!("KUBE_GC__{}", key.to_uppercase().replace('.', "__"));
        (name.into(), variable(value).into())
    });
    match Loader::new().environment(variables).load() {
        Ok(again) => assert_eq!(again, settings, "variables say something else than the file"),
        Err(error) => panic!("not accepted from variables: {error}"),
    }
}

/// Checks the bounds that `config/default.toml` documents.
fn assert_within_bounds(settings: &Settings) {
    let hour = Duration::from_secs(3600);
    let (milli, tenth) = (Duration::from_millis(1), Duration::from_millis(100));
    let Settings {
        dry_run: _,
        finish_namespaces: _,
        namespaces,
        comparison,
        workers,
        graph,
        discovery,
        watch,
        retry,
        events,
        leader,
        brake,
        startup,
        client,
        shutdown,
        http,
        tls,
        access: _,
        debug,
        log,
        node,
    } = settings;
    assert!((tenth..=hour).contains(&comparison.grace));
    assert!((1..=1000).contains(&workers.delete) && (1..=1000).contains(&workers.orphan));
    assert!(graph.partitions <= 1024 && (1..=1024).contains(&graph.partition_count(64)));
    assert!((1..=10_000_000).contains(&graph.absent_owner_capacity));
    assert!(graph.birth_grace <= Duration::from_secs(60));
    assert!((tenth..=hour).contains(&discovery.interval) && discovery.orphan_wait <= hour);
    assert!(namespaces.quiet <= hour);
    assert!(leader.lease_duration > leader.renew_deadline && leader.renew_deadline > leader.retry_period);
    assert!((Duration::from_secs(1)..=hour).contains(&leader.lease_duration) && !leader.name.is_empty());
    assert!(brake.deletions_per_minute <= 1_000_000 && brake.percent <= 100);
    assert!(brake.namespace_deletions_per_minute <= 1_000_000 && brake.percent_floor <= 1_000_000);
    assert!((Duration::from_secs(1)..=24 * hour).contains(&brake.window));
    for ignored in &discovery.ignored {
        assert!(!ignored.resource.is_empty() && !ignored.resource.contains(['/', '.', ' ']), "{ignored}");
    }
    assert!((1..=100_000).contains(&watch.page_size));
    assert!(
        milli <= watch.min_backoff && watch.min_backoff <= watch.max_backoff && watch.max_backoff <= hour
    );
    assert!(milli <= retry.min && retry.min <= retry.max && retry.max <= hour);
    let after = events.stuck_after;
    assert!(after.is_zero() || (Duration::from_secs(1)..=24 * hour).contains(&after));
    assert!(startup.sync_timeout <= hour && shutdown.grace <= hour);
    assert!(client.qps <= 100_000 && client.burst <= 100_000);
    assert!((tenth..=hour).contains(&client.request_timeout));
    for host in &http.hosts {
        assert!(!host.is_empty() && !host.contains(['/', ':', ' ']), "{host}");
    }
    assert!(http.debug_listen != http.listen || http.listen.port() == 0);
    let has = |path: &std::path::Path| !path.as_os_str().is_empty();
    assert!(has(&tls.certificate) == has(&tls.key) && (tls.listeners == Listeners::None || has(&tls.key)));
    assert!(debug.decisions <= 100_000);
    assert!(!log.filter.is_empty());
    assert!(node.low < node.high && node.high <= 100);
    assert!(node.roots.pods != node.roots.containers && node.state.is_absolute());
}

/// The keys of a part of the file.
fn said_below<'a>(path: String, value: &'a toml::Value, said: &mut BTreeMap<String, &'a toml::Value>) {
    match value.as_table() {
        Some(table) => {
            for (key, value) in table {
                said_below(format!("{path}.{key}"), value, said);
            }
        }
        None => {
            said.insert(path, value);
        }
    }
}

/// Every key with its value as serde writes it.
fn keys(settings: &Settings) -> BTreeMap<String, serde_json::Value> {
    let mut keys = BTreeMap::new();
    let Ok(serde_json::Value::Object(sections)) = serde_json::to_value(settings) else {
        panic!("settings cannot be written")
    };
    for (section, value) in sections {
        keys_below(section, value, &mut keys);
    }
    keys
}

fn keys_below(path: String, value: serde_json::Value, keys: &mut BTreeMap<String, serde_json::Value>) {
    match value {
        serde_json::Value::Object(entries) => {
            for (key, value) in entries {
                keys_below(format!("{path}.{key}"), value, keys);
            }
        }
        value => {
            keys.insert(path, value);
        }
    }
}

fn says_the_same(key: &str, said: &toml::Value, value: &serde_json::Value) -> bool {
    match (said, value) {
        (toml::Value::Boolean(said), serde_json::Value::Bool(value)) => said == value,
        (toml::Value::Integer(said), serde_json::Value::Number(value)) => value.as_i64() == Some(*said),
        (toml::Value::Array(said), serde_json::Value::Array(values)) => {
            said.len() == values.len()
                && said.iter().zip(values).all(|(said, value)| said.as_str() == value.as_str())
        }
        (toml::Value::String(said), serde_json::Value::String(value)) if key.starts_with("http.") => {
            said.parse::<std::net::SocketAddr>().ok() == value.parse().ok()
        }
        (toml::Value::String(said), serde_json::Value::String(value)) => {
            let duration = |text: &str| humantime::parse_duration(text).ok();
            said == value || (duration(said).is_some() && duration(said) == duration(value))
        }
        _ => false,
    }
}

fn variable(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(elements) => {
            elements.iter().filter_map(serde_json::Value::as_str).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}
