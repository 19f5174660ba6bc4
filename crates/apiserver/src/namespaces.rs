//! A stand-in for the namespace controller: it deletes the content of a terminating namespace and
//! finalizes it.

use std::ops::Bound;
use std::sync::Arc;
use std::time::SystemTime;

use http::Method;
use serde_json::json;

use super::dispatch::by_itself;
use super::follow_up::{NAMESPACE_FINALIZER, finalizers, is_ending, namespaces};
use super::object::Key;
use super::resources::{Resource, ResourceName};
use super::settings::Release;
use super::state::Server;

/// The cause that is recorded for these deletions.
const AGENT: &str = "kube-controller-manager/namespace-controller";

/// The namespaces that a server creates when it starts.
pub(super) fn create_initial(server: &mut Server, now: SystemTime) {
    for namespace in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        by_itself(server, "kube-apiserver", (Method::POST, "/api/v1/namespaces"), &object, now);
    }
}

/// Deletes the objects in a terminating namespace, and finalizes it when there are none.
pub(super) fn empty(server: &mut Server, namespace: &str, now: SystemTime) {
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
