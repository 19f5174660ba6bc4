//! Schedules the work that follows from a change. The controllers do it when it is due.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;

use super::call::ObjectPath;
use super::object::{Key, Object};
use super::resources::{Resource, ResourceName};
use super::schedule::{Due, REACTION};
use super::state::Server;

/// The finalizer in the `spec` of a namespace, which the namespace controller removes.
pub(super) const NAMESPACE_FINALIZER: &str = "kubernetes";

pub(super) fn definitions() -> ResourceName {
    ResourceName::new("apiextensions.k8s.io", "customresourcedefinitions")
}

pub(super) fn namespaces() -> ResourceName {
    ResourceName::new("", "namespaces")
}

/// Schedules what follows from the changes that a request has made since a version.
pub(super) fn schedule(
    server: &mut Server,
    resource: &Resource,
    path: ObjectPath<'_>,
    before: u64,
    now: SystemTime,
) {
    match (&*resource.stored_as.group, &*resource.stored_as.plural) {
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            for crd in changed_names(server, resource, before) {
                definition_changed(server, &crd, now);
            }
        }
        ("", "namespaces") => {
            for namespace in changed_names(server, resource, before) {
                namespace_changed(server, &namespace, now);
            }
        }
        ("apiregistration.k8s.io", "apiservices") => services_changed(server, now),
        _ => {
            if resource.custom {
                instances_changed(server, resource, now);
            }
            if let Some(namespace) = path.namespace {
                namespace_changed(server, namespace, now);
            }
        }
    }
}

/// The objects of a type that have changed since a version; all of them if that is unknown.
fn changed_names(server: &Server, resource: &Resource, before: u64) -> BTreeSet<Arc<str>> {
    match server.store.changes_since(&resource.stored_as, before) {
        Ok(changes) => changes.map(|change| Arc::clone(&change.key.name)).collect(),
        Err(_) => server.store.objects(&resource.stored_as).map(|(key, _)| Arc::clone(&key.name)).collect(),
    }
}

/// A CustomResourceDefinition has changed.
pub(super) fn definition_changed(server: &mut Server, crd: &str, now: SystemTime) {
    server.due.at(now + REACTION, Due::Definition(crd.into()));
    server.due.at(now + REACTION + server.settings.custom_resource_delay, Due::Serving(crd.into()));
}

/// An object of a custom type has changed. It may have been the last one that a deleted definition
/// waited for.
fn instances_changed(server: &mut Server, resource: &Resource, now: SystemTime) {
    let crd = resource.name.to_string();
    let definition = server.store.get(&definitions(), &Key::new(None, &crd));
    if definition.is_some_and(|crd| crd.deletion_timestamp().is_some()) {
        server.due.at(now + REACTION, Due::Definition(crd.into()));
    }
}

/// An APIService, or what is served, has changed.
pub(super) fn services_changed(server: &mut Server, now: SystemTime) {
    server.due.at(now + REACTION, Due::Services);
}

/// A namespace or an object in it has changed. The object may have been the last one.
pub(super) fn namespace_changed(server: &mut Server, namespace: &str, now: SystemTime) {
    if server.settings.namespace_controller && is_ending(server, namespace) {
        server.due.at(now + REACTION, Due::Namespace(namespace.into()));
    }
}

/// Any namespace may have changed, or what it waits for.
pub(super) fn namespaces_changed(server: &mut Server, now: SystemTime) {
    let names = namespaces();
    let all: Vec<Arc<str>> = server.store.objects(&names).map(|(key, _)| Arc::clone(&key.name)).collect();
    for namespace in all {
        namespace_changed(server, &namespace, now);
    }
}

/// Whether the namespace is being deleted and not finalized.
pub(super) fn is_ending(server: &Server, namespace: &str) -> bool {
    let Some(object) = server.store.get(&namespaces(), &Key::new(None, namespace)) else { return false };
    object.deletion_timestamp().is_some() && finalizers(object).any(|one| one == NAMESPACE_FINALIZER)
}

/// The finalizers in the `spec` of a namespace.
pub(super) fn finalizers(namespace: &Object) -> impl Iterator<Item = &str> {
    let list = namespace.value().pointer("/spec/finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}
