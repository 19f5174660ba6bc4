//! Authorization by roles.

use serde_json::Value;

use crate::call::{ObjectPath, Verb};
use crate::object::{Key, Object};
use crate::resources::ResourceName;
use crate::status::Status;
use crate::store::Store;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Rejects what no role of the user allows, as stored now.
pub(super) fn check(store: &Store, user: &str, verb: Verb, path: ObjectPath<'_>) -> Result<(), Status> {
    let roles = roles_of(store, user);
    let mut rules = roles.iter().filter_map(|role| role.value()["rules"].as_array()).flatten();
    if rules.any(|rule| allows(rule, verb, path)) { Ok(()) } else { Err(forbidden(user, verb, path)) }
}

fn roles_of<'a>(store: &'a Store, user: &str) -> Vec<&'a Object> {
    let roles = ResourceName::new(GROUP, "clusterroles");
    store
        .objects(&ResourceName::new(GROUP, "clusterrolebindings"))
        .map(|(_, binding)| binding.value())
        .filter(|binding| list(binding, "subjects").iter().any(|subject| is(subject, user)))
        .filter(|binding| binding["roleRef"]["kind"] == "ClusterRole")
        .filter_map(|binding| binding["roleRef"]["name"].as_str())
        .filter_map(|role| store.get(&roles, &Key::new(None, role)))
        .collect()
}

/// Whether a subject of a binding is this user.
fn is(subject: &Value, user: &str) -> bool {
    let text = |field: &str| subject[field].as_str().unwrap_or_default();
    match text("kind") {
        "User" => text("name") == user,
        "ServiceAccount" => {
            let account = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
            account == Some((text("namespace"), text("name")))
        }
        _ => false,
    }
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object[field].as_array().map_or(&[], Vec::as_slice)
}

fn allows(rule: &Value, verb: Verb, path: ObjectPath<'_>) -> bool {
    let any = |field: &str, fits: &dyn Fn(&str) -> bool| {
        list(rule, field).iter().filter_map(Value::as_str).any(fits)
    };
    let names_it =
        || list(rule, "resourceNames").is_empty() || any("resourceNames", &|name| path.name == Some(name));
    any("verbs", &|one| one == "*" || one == verb.name())
        && any("apiGroups", &|group| group == "*" || group == path.group)
        && any("resources", &|resource| covers(resource, path))
        && names_it()
}

/// Whether the resource of a rule matches a path: `*`, `pods`, `pods/status` or `*/status`.
fn covers(resource: &str, path: ObjectPath<'_>) -> bool {
    if resource == "*" {
        return true;
    }
    match (resource.split_once('/'), path.subresource) {
        (None, None) => resource == path.plural,
        (Some((of, subresource)), Some(asked)) => subresource == asked && (of == "*" || of == path.plural),
        _ => false,
    }
}

fn forbidden(user: &str, verb: Verb, path: ObjectPath<'_>) -> Status {
    let ObjectPath { group, plural, name, .. } = path;
    let resource = path.subresource.map_or_else(|| plural.to_owned(), |sub| format!("{plural}/{sub}"));
    // A namespace counts as being in itself.
    let namespace = path.namespace.or(if plural == "namespaces" { name } else { None });
    let place = namespace.map_or_else(
        || "at the cluster scope".to_owned(),
        |namespace| format!("in the namespace \"{namespace}\""),
    );
    let verb = verb.name();
    let why =
        format!("User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {place}");
    Status::forbidden(&ResourceName::new(group, plural), name.unwrap_or_default(), &why)
}
