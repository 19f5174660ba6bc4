//! The server's own controllers: what they must look at after a change, and the one that empties namespaces.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::{Value, json};

use crate::call::ObjectPath;
use crate::dispatch::by_itself;
use crate::object::{Key, Object};
use crate::resources::{Resource, ResourceName, api_services, crds};
use crate::server::{Release, Server};

/// The delay of the server's own controllers: long enough that the answer to a request does not
/// contain their work, and short enough that it delays no client noticeably.
pub const REACTION: Duration = Duration::from_millis(1);

/// Something to check. It says what to check and not what to do, which depends on the state at that
/// time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Definitions, APIServices, and the content of terminating namespaces.
    Everything,
    /// Whether to serve the type of a CustomResourceDefinition.
    Serving(Box<str>),
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

pub(super) fn services() -> ResourceName {
    ResourceName::new("apiregistration.k8s.io", "apiservices")
}

pub(super) fn namespaces() -> ResourceName {
    ResourceName::new("", "namespaces")
}

/// Schedules what may follow from the changes that a request has made since a version.
pub(super) fn schedule(
    server: &mut Server,
    resource: &Resource,
    path: ObjectPath<'_>,
    before: u64,
    now: SystemTime,
) {
    let own = [definitions(), namespaces(), services()];
    let is_in_ending = path.namespace.is_some_and(|namespace| is_ending(server, namespace));
    if resource.custom || is_in_ending || own.contains(&resource.stored_as) {
        look_soon(server, now);
    }
    if resource.stored_as == definitions() {
        let changes = server.store.changes_since(&definitions(), before).into_iter().flatten();
        let names: Vec<Arc<str>> = changes.map(|change| Arc::clone(&change.key.name)).collect();
        names.iter().for_each(|crd| serve_later(server, crd, now));
    }
}

/// Schedules a look at everything.
pub(super) fn look_soon(server: &mut Server, now: SystemTime) {
    server.due.at(now + REACTION, Due::Everything);
}

/// Schedules the time from which the type of a definition is served, or is not any more.
pub(super) fn serve_later(server: &mut Server, crd: &str, now: SystemTime) {
    server.due.at(now + REACTION + server.settings.custom_resource_delay, Due::Serving(crd.into()));
}

/// Looks at definitions, APIServices and namespaces, and does what they need.
pub(super) fn reconcile(server: &mut Server, now: SystemTime) {
    let names = |server: &Server, of: ResourceName| -> Vec<Arc<str>> {
        server.store.objects(&of).map(|(key, _)| Arc::clone(&key.name)).collect()
    };
    for crd in names(server, definitions()) {
        crds::reconcile(server, &crd, now);
    }
    api_services::reconcile(server, now);
    if server.settings.namespace_controller {
        for namespace in names(server, namespaces()) {
            empty_namespace(server, &namespace, now);
        }
    }
}

/// Whether the namespace is being deleted and not finalized.
fn is_ending(server: &Server, namespace: &str) -> bool {
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
fn empty_namespace(server: &mut Server, namespace: &str, now: SystemTime) {
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
    if left || server.catalog.delegated.iter().any(|one| one.resources.is_none()) {
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
