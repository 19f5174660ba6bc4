//! The server's own controllers: what they must look at after a change, and the one that empties namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::{Value, json};

use crate::call::ObjectPath;
use crate::dispatch::by_itself;
use crate::object::{Key, Object};
use crate::resources::{Resource, ResourceName};
use crate::server::{Release, Server};

/// The delay of the server's own controllers: long enough that the answer to a request does not
/// contain their work, and short enough that it delays no client noticeably.
pub const REACTION: Duration = Duration::from_millis(1);

/// Something to check. It says what to check and not what to do, which depends on the state at that
/// time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Conditions and clean-up of a CustomResourceDefinition.
    Definition(Box<str>),
    /// Whether to serve the type of a CustomResourceDefinition.
    Serving(Box<str>),
    /// The groups that APIServices send to backends.
    Services,
    /// The content of a terminating namespace.
    Namespace(Box<str>),
}

/// Scheduled work by time, and then in the order of the requests.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    entries: BTreeMap<(SystemTime, u64), Due>,
    count: u64,
}

impl Schedule {
    /// Schedules work. The same work at the same time is done once.
    pub fn at(&mut self, time: SystemTime, due: Due) {
        let same_time = self.entries.range((time, 0)..=(time, u64::MAX));
        if same_time.into_iter().any(|(_, other)| *other == due) {
            return;
        }
        self.entries.insert((time, self.count), due);
        self.count += 1;
    }

    /// When the first work is due.
    pub fn next(&self) -> Option<SystemTime> {
        self.entries.first_key_value().map(|((time, _), _)| *time)
    }

    /// Takes the first work that is due.
    pub fn pop(&mut self, now: SystemTime) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        self.entries.pop_first().map(|(_, due)| due)
    }
}

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

/// The cause that is recorded for these deletions.
const AGENT: &str = "kube-controller-manager/namespace-controller";

/// The namespaces that a server creates when it starts.
pub(super) fn create_namespaces(server: &mut Server, now: SystemTime) {
    for namespace in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        by_itself(server, "kube-apiserver", (Method::POST, "/api/v1/namespaces"), &object, now);
    }
}

/// Deletes the objects in a terminating namespace, and finalizes it when there are none.
pub(super) fn empty_namespace(server: &mut Server, namespace: &str, now: SystemTime) {
    if !is_ending(server, namespace) {
        return;
    }
    let mut types: Vec<Arc<Resource>> = server
        .catalog
        .all()
        .filter(|resource| {
            resource.namespaced && resource.allows("delete") && resource.name == resource.stored_as
        })
        .cloned()
        .collect();
    if server.settings.release >= Release::V1_36 {
        // Pods are deleted first, while the objects that they need to shut down still exist.
        types.sort_by_key(|resource| !resource.graceful);
    }
    let mut left = false;
    for resource in types {
        delete_all(server, &resource, namespace, now);
        left |= !names(server, &resource, namespace).is_empty();
    }
    // The content of an unavailable group is unknown.
    if left || server.catalog.has_backendless() {
        return;
    }
    finalize(server, namespace, now);
}

/// The names of the objects of a type in a namespace.
fn names(server: &Server, resource: &Resource, namespace: &str) -> Vec<Arc<str>> {
    let Ok(objects) = server.store.at(&resource.stored_as, server.store.head()) else { return Vec::new() };
    objects.range(Some(namespace), Bound::Unbounded).map(|(key, _)| Arc::clone(&key.name)).collect()
}

fn delete_all(server: &mut Server, resource: &Resource, namespace: &str, now: SystemTime) {
    let names = names(server, resource, namespace);
    let Some(version) = resource.versions.first().filter(|_| !names.is_empty()) else { return };
    let ResourceName { group, plural } = &resource.name;
    let prefix = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
    let collection = format!("{prefix}/{version}/namespaces/{namespace}/{plural}");
    let options = json!({"propagationPolicy": "Background"});
    if resource.allows("deletecollection") {
        by_itself(server, AGENT, (Method::DELETE, &collection), &options, now);
        return;
    }
    for name in names {
        by_itself(server, AGENT, (Method::DELETE, &format!("{collection}/{name}")), &options, now);
    }
}

/// Removes the finalizer from `spec`. That removes the namespace unless it has other finalizers
/// there or in its metadata.
fn finalize(server: &mut Server, namespace: &str, now: SystemTime) {
    let Some(object) = server.store.get(&namespaces(), &Key::new(None, namespace)) else { return };
    let left: Vec<&str> = finalizers(object).filter(|one| *one != NAMESPACE_FINALIZER).collect();
    let left = json!(left);
    let mut value = object.to_value();
    value["spec"]["finalizers"] = left;
    let path = format!("/api/v1/namespaces/{namespace}/finalize");
    by_itself(server, AGENT, (Method::PUT, &path), &value, now);
}
