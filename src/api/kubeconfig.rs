//! Reads the files that say where an API server is and who connects.
//!
//! kube has a reader of its own, which compiles the YAML parser once more for each type of the format:
//! 300 KB of code. Here YAML becomes plain values first.

use std::path::Path;

use kube::config::{Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Reads a kubeconfig. Paths in it are relative to its directory, as for kubectl.
///
/// # Errors
///
/// Says what is wrong, and where, without the values themselves, which may be secret.
pub fn read(path: &Path) -> Result<Kubeconfig, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let mut kubeconfig = parse(&bytes)?;
    let directory = path.parent().unwrap_or_else(|| Path::new(""));
    for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        make_absolute(directory, &mut cluster.certificate_authority);
    }
    for user in kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        for file in [&mut user.client_certificate, &mut user.client_key, &mut user.token_file] {
            make_absolute(directory, file);
        }
        if let Some(plugin) = &mut user.exec
            // A name without a directory is looked for in $PATH.
            && plugin.command.as_ref().is_some_and(|command| command.contains(std::path::MAIN_SEPARATOR))
        {
            make_absolute(directory, &mut plugin.command);
        }
    }
    Ok(kubeconfig)
}

/// Makes a path absolute. An empty one says nothing, as in kubectl.
fn make_absolute(directory: &Path, file: &mut Option<String>) {
    *file = file.take().filter(|path| !path.is_empty());
    if let Some(path) = file
        && let Some(joined) = directory.join(&*path).to_str()
    {
        *path = joined.to_owned();
    }
}

/// What the documents of a file say together. The first that says something wins.
fn parse(mut bytes: &[u8]) -> Result<Kubeconfig, String> {
    let mut merged = Kubeconfig::default();
    for document in serde_saphyr::read::<_, Value>(&mut bytes) {
        let document = document.map_err(|error| fault(&error))?;
        merged = merged.merge(kubeconfig(document)?).map_err(|error| error.to_string())?;
    }
    Ok(merged)
}

/// What is wrong with the YAML. The parser quotes values, and the lines around the error, which may be
/// a token.
fn fault(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    match (line.split_once('`'), error.location()) {
        (None, _) => line.to_owned(),
        (Some((reason, _)), Some(place)) => {
            format!("{} at line {}, column {}", reason.trim_end(), place.line(), place.column())
        }
        (Some((reason, _)), None) => reason.trim_end().to_owned(),
    }
}

/// The parts of a document that choose a server and a user.
fn kubeconfig(document: Value) -> Result<Kubeconfig, String> {
    let mut fields = match document {
        Value::Object(fields) => fields,
        Value::Null => Map::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err("it is not a kubeconfig, which has clusters, users and contexts".to_owned());
        }
    };
    Ok(Kubeconfig {
        kind: text(&mut fields, "kind")?,
        api_version: text(&mut fields, "apiVersion")?,
        clusters: list::<NamedCluster>(&mut fields, "clusters")?,
        auth_infos: list::<NamedAuthInfo>(&mut fields, "users")?,
        contexts: list::<NamedContext>(&mut fields, "contexts")?,
        current_context: text(&mut fields, "current-context")?,
        ..Kubeconfig::default()
    })
}

fn text(fields: &mut Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        // Without a current context, kubectl writes an empty one.
        Some(Value::String(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
        Some(other) => {
            no_numbers(&other, name)?;
            Err(format!("{name} is not a string"))
        }
    }
}

fn list<T: DeserializeOwned>(fields: &mut Map<String, Value>, name: &str) -> Result<Vec<T>, String> {
    let items = match fields.remove(name) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(format!("{name} is not a list")),
    };
    let item = |(index, item): (usize, Value)| {
        let place = format!("{name}[{index}]");
        no_numbers(&item, &place)?;
        serde_json::from_value(item)
            .map_err(|error| format!("{place}: {}", without_values(&error.to_string())))
    };
    items.into_iter().enumerate().map(item).collect()
}

/// Checks that no value is a number. The format has none outside extensions, but YAML takes 1234 and
/// 12e4 for numbers, which may have been names and passwords.
fn no_numbers(value: &Value, place: &str) -> Result<(), String> {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
        Value::Number(_) => Err(format!("{place} is a number; put it in quotes")),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| no_numbers(item, &format!("{place}[{index}]"))),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "extensions")
            .try_for_each(|(name, value)| no_numbers(value, &format!("{place}.{name}"))),
    }
}

/// The message of a value that has the wrong type quotes the value, and then says what was expected.
fn without_values(message: &str) -> String {
    match message.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use kube::config::{AuthInfo, ExecConfig};

    use super::*;

    const WHOLE: &str = "\
apiVersion: v1
kind: Config
preferences: {}
clusters:
- name: a
  cluster: {server: 'https://a', certificate-authority: ca.crt, insecure-skip-tls-verify: false}
  extensions: [{name: other, extension: {version: 1.33}}]
users:
- name: u
  user:
    tokenFile: /run/token
    client-key: keys/u
    exec: {apiVersion: v1, command: bin/login, args: [a], env: [{name: A, value: b}], interactiveMode: Never}
contexts:
- {name: a, context: {cluster: a, user: u, namespace: shop, extensions: [{name: x, extension: 1}]}}
current-context: a
unknown: 1
";

    fn user(kubeconfig: &Kubeconfig) -> &AuthInfo {
        kubeconfig.auth_infos[0].auth_info.as_ref().unwrap()
    }

    fn wrong(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn all_that_chooses_a_server_and_a_user_is_read_as_kube_reads_it() {
        let ours = parse(WHOLE.as_bytes()).unwrap();
        let kubes = Kubeconfig {
            preferences: None,
            other: Default::default(),
            ..Kubeconfig::from_yaml(WHOLE).unwrap()
        };
        let json = |kubeconfig: &Kubeconfig| serde_json::to_value(kubeconfig).unwrap();
        assert_eq!(json(&ours), json(&kubes));
        assert_eq!(user(&ours).token_file.as_deref(), Some("/run/token"));
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config");
        std::fs::write(&file, WHOLE).unwrap();
        let read = super::read(&file).unwrap();
        let kubes = Kubeconfig::read_from(&file).unwrap();
        let absolute = |path: &str| directory.path().join(path).to_str().map(str::to_owned);
        let cluster =
            |of: &Kubeconfig| of.clusters[0].cluster.as_ref().unwrap().certificate_authority.clone();
        assert_eq!(cluster(&read), absolute("ca.crt"));
        assert_eq!(user(&read).client_key, absolute("keys/u"));
        assert_eq!(user(&read).token_file.as_deref(), Some("/run/token"), "an absolute path stays");
        let command = |of: &Kubeconfig| user(of).exec.as_ref().unwrap().command.clone();
        assert_eq!((command(&read), command(&kubes)), (absolute("bin/login"), absolute("bin/login")));

        let from_path = WHOLE.replace("bin/login", "login");
        std::fs::write(&file, from_path).unwrap();
        assert!(matches!(
            &user(&super::read(&file).unwrap()).exec,
            Some(ExecConfig { command: Some(command), .. }) if command == "login"
        ));
    }

    #[test]
    fn the_first_document_that_says_something_wins() {
        let both = format!("{WHOLE}---\ncurrent-context: b\nclusters: [{{name: a}}, {{name: b}}]\n");
        let read = parse(both.as_bytes()).unwrap();
        assert_eq!(read.current_context.as_deref(), Some("a"));
        let names: Vec<_> =
            read.clusters.iter().map(|named| (&*named.name, named.cluster.is_some())).collect();
        assert_eq!(names, [("a", true), ("b", false)]);
    }

    #[test]
    fn what_is_empty_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config");
        let text = "clusters: [{name: a, cluster: {certificate-authority: ''}}]\ncurrent-context: ''\n---\ncurrent-context: a\n";
        std::fs::write(&file, text).unwrap();
        let read = super::read(&file).unwrap();
        assert_eq!(read.current_context.as_deref(), Some("a"));
        assert_eq!(read.clusters[0].cluster.as_ref().unwrap().certificate_authority, None);
    }

    #[test]
    fn an_editor_may_have_marked_or_chosen_the_encoding() {
        let marked = [b"\xef\xbb\xbf", WHOLE.as_bytes()].concat();
        let utf16: Vec<u8> =
            std::iter::once(0xfeff).chain(WHOLE.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        for bytes in [marked, utf16] {
            assert_eq!(parse(&bytes).unwrap().current_context.as_deref(), Some("a"));
        }
        assert!(parse(b"clusters: \xff").is_err());
    }

    #[test]
    fn an_empty_file_is_an_empty_kubeconfig() {
        for text in ["", "# nothing\n", "clusters:\nusers:\ncontexts:\ncurrent-context:\n"] {
            assert_eq!(parse(text.as_bytes()).unwrap().clusters.len(), 0, "{text:?}");
        }
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        assert!(wrong("clusters: [").contains("line 1"), "{}", wrong("clusters: ["));
        assert_eq!(wrong("clusters: {}"), "clusters is not a list");
        assert_eq!(wrong("current-context: [a]"), "current-context is not a string");
        assert_eq!(wrong("users: [{name: u}, {user: {}}]"), "users[1]: missing field `name`");
        assert!(wrong("just text").contains("not a kubeconfig"));
        // YAML reads these as numbers, kubectl refuses them, and a guess might be another name.
        let long = "98765432109876543210987654321098765432109876";
        for number in ["1234", "12e4", "0x1f", "1.0", "-7", "007", long] {
            let text = format!("users: [{{name: u, user: {{password: {number}}}}}]");
            assert_eq!(wrong(&text), "users[0].user.password is a number; put it in quotes");
        }
        assert_eq!(wrong("current-context: 7"), "current-context is a number; put it in quotes");
    }

    #[test]
    fn a_message_contains_no_secret() {
        let secret = "s3cret, expected s3cret";
        for text in [
            format!("users: [{{name: u, user: '{secret}'}}]"),
            format!("users: [{{name: u, user: {{token: {{a: '{secret}'}}}}}}]"),
            format!("users: [{{name: u, user: {{token: ['{secret}']}}}}]"),
            format!("users: [{{name: u, user: {{exec: {{interactiveMode: '{secret}'}}}}}}]"),
            format!("users: [{{name: u, user: {{exec: {{provideClusterInfo: '{secret}'}}}}}}]"),
            format!("users:\n- name: u\n  user:\n    token: '{secret}'\n   x: ["),
            "users: [{name: u, user: {token: 13e37373}}]".to_owned(),
            format!("users: [{{name: u, user: {{token: *{secret}}}}}]"),
        ] {
            let message = wrong(&text);
            assert!(!message.contains("s3cret") && !message.contains("37373"), "{message}");
            assert!(message.contains("users[0]: expected") || message.contains("line"), "{message}");
        }
    }
}
