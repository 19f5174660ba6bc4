//! APIServices: the groups and versions that this server serves itself, and those of backends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use http::Method;
use serde_json::{Value, json};

use crate::controllers::services;
use crate::dispatch::by_itself;
use crate::object::{Key, Object, timestamp};
use crate::resources::{Backends, Delegated, ServiceName, aggregated};
use crate::server::Server;
use crate::store::Cause;

const AGENT: &str = "kube-apiserver";
const PATH: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
/// The label of APIServices that the server creates.
const AUTOMATIC: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Creates the APIServices of all groups and versions, routes groups to the backends that the other
/// APIServices name, and updates their conditions.
pub fn reconcile(server: &mut Server, now: SystemTime) {
    automatic(server, now);
    let all: Vec<Object> = server.store.objects(&services()).map(|(_, object)| object.clone()).collect();
    let delegated = all.iter().filter_map(|service| delegated(service, &server.backends)).collect();
    server.catalog.delegated = delegated;
    let cause = Cause::server("APIService availability");
    for service in &all {
        if let Some(value) = with_condition(service, &server.backends, now) {
            server.store.write(&services(), &service.key(), value, &cause);
        }
    }
}

/// Creates and deletes the APIServices of the groups that this server itself serves.
fn automatic(server: &mut Server, now: SystemTime) {
    let mut wanted: BTreeMap<String, (Arc<str>, Box<str>, &str)> = BTreeMap::new();
    for resource in server.catalog.all() {
        let mode = if server.catalog.is_built_in(&resource.name.group) { "onstart" } else { "true" };
        for version in &resource.versions {
            let group = &resource.name.group;
            wanted.insert(format!("{version}.{group}"), (Arc::clone(group), version.clone(), mode));
        }
    }
    let surplus: Vec<Key> = server
        .store
        .objects(&services())
        .filter(|(key, object)| object.label(AUTOMATIC).is_some() && !wanted.contains_key(&*key.name))
        .map(|(key, _)| key.clone())
        .collect();
    for key in surplus {
        let path = format!("{PATH}/{}", key.name);
        by_itself(server, AGENT, (Method::DELETE, &path), &Value::Null, now);
    }
    for (service, (group, version, mode)) in wanted {
        if server.store.get(&services(), &Key::new(None, &service)).is_some() {
            continue;
        }
        let (group_priority, version_priority) = match mode {
            "onstart" => (17_000, 15),
            _ => (super::catalog::CUSTOM_PRIORITY, 100),
        };
        let object = json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": service, "labels": {AUTOMATIC: mode}},
            "spec": {
                "group": *group, "version": version,
                "groupPriorityMinimum": group_priority, "versionPriority": version_priority,
            },
        });
        by_itself(server, AGENT, (Method::POST, PATH), &object, now);
    }
}

/// The group and version that an APIService sends to a backend, if it does.
fn delegated(service: &Object, backends: &Backends) -> Option<Delegated> {
    let spec = service.value().get("spec")?;
    let name = service_name(service)?;
    let (group, version) = (spec.get("group")?.as_str()?, spec.get("version")?.as_str()?);
    let number = |field: &str| spec.get(field).and_then(Value::as_i64).unwrap_or_default();
    let backend = backends.get(&name);
    Some(Delegated {
        group: group.into(),
        version: version.into(),
        group_priority: number("groupPriorityMinimum"),
        version_priority: number("versionPriority"),
        resources: backend.map(|backend| aggregated::resources(&backend.catalog, group, version)),
        service: name,
    })
}

/// The service that an APIService names, if any.
fn service_name(service: &Object) -> Option<ServiceName> {
    let named = service.value().pointer("/spec/service")?.as_object()?;
    let text = |field: &str| named.get(field).and_then(Value::as_str).unwrap_or_default();
    Some(ServiceName::new(text("namespace"), text("name")))
}

/// The object with its condition, if that differs from the present one.
fn with_condition(service: &Object, backends: &Backends, now: SystemTime) -> Option<Value> {
    let (status, reason, message) = match service_name(service) {
        None => ("True", "Local", "Local APIServices are always available".to_owned()),
        Some(backend) if backends.contains_key(&backend) => {
            ("True", "Passed", "all checks passed".to_owned())
        }
        Some(ServiceName { namespace, name }) => {
            let message = format!("service/{name} in \"{namespace}\" is not present");
            ("False", "ServiceNotFound", message)
        }
    };
    let shown = service.value().pointer("/status/conditions/0");
    if shown.and_then(|condition| condition.get("reason")?.as_str()) == Some(reason) {
        return None;
    }
    let mut value = service.to_value();
    value["status"] = json!({"conditions": [{
        "type": "Available", "status": status, "lastTransitionTime": timestamp(now),
        "reason": reason, "message": message,
    }]});
    Some(value)
}
