//! The life cycle of a CustomResourceDefinition: its names are accepted, its type is served, its
//! objects are deleted with it, and the type is no longer served.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::call::{Call, ObjectPath, Request, Verb};
use crate::controllers::{definitions, look_soon, serve_later};
use crate::guards::Begun;
use crate::object::{Key, Object};
use crate::resources::definition::{FINALIZER, condition, resource, set_condition, settle};
use crate::resources::{Resource, ResourceName};
use crate::server::Server;
use crate::status::Status;
use crate::store::{Cause, Ending};
use crate::writes;

fn get<'a>(server: &'a Server, crd: &str) -> Option<&'a Object> {
    server.store.get(&definitions(), &Key::new(None, crd))
}

fn all(server: &Server) -> BTreeSet<Box<str>> {
    let crds = definitions();
    let stored = server.store.objects(&crds).map(|(key, _)| Box::from(&*key.name));
    let served = server.catalog.all().filter(|resource| resource.custom);
    stored.chain(served.map(|resource| resource.name.to_string().into())).collect()
}

/// Serves the types of all established definitions, and schedules the remaining work.
pub(crate) fn resync(server: &mut Server, now: SystemTime) {
    for crd in all(server) {
        serve(server, &crd, now);
        serve_later(server, &crd, now);
    }
}

/// Starts or stops serving the type of a definition at once.
pub(crate) fn serve(server: &mut Server, crd: &str, now: SystemTime) {
    let Some((plural, group)) = crd.split_once('.') else { return };
    let served = get(server, crd).and_then(resource);
    let before = server.catalog.get(group, plural).filter(|resource| resource.custom);
    let defined_anew = match (before, &served) {
        (None, None) => return,
        (Some(before), Some(served)) if **before == *served => return,
        // The deletion of the definition shows in discovery and ends no watch.
        (Some(before), Some(served)) => {
            Resource { verbs: before.verbs.clone(), ..served.clone() } != **before
        }
        _ => true,
    };
    let name = ResourceName::new(group, plural);
    match served {
        Some(served) => server.catalog.insert(Arc::new(served)),
        None => server.catalog.remove(&name),
    }
    if defined_anew {
        server.store.end_watches(Some(&name), Ending::Clean);
        look_soon(server, now);
    }
}

/// Processes a definition: names, clean-up.
pub(crate) fn reconcile(server: &mut Server, crd: &str, now: SystemTime) {
    let Some(object) = get(server, crd).cloned() else { return };
    if object.deletion_timestamp().is_some() {
        if object.has_finalizer(FINALIZER) {
            clean_up(server, &object, now);
        }
        return;
    }
    let mut value = object.to_value();
    if settle(&mut value, now) {
        write(server, &object, &value, "CustomResourceDefinition names");
    }
}

/// Establishes a definition whose names were accepted, and serves its type at the same moment.
pub(crate) fn establish(server: &mut Server, crd: &str, now: SystemTime) {
    if let Some(object) = get(server, crd).filter(|crd| crd.deletion_timestamp().is_none()).cloned()
        && condition(object.value(), "Established") == Some("False")
    {
        let mut value = object.to_value();
        let message = "the initial names have been accepted";
        set_condition(&mut value, "Established", ("True", "InitialNamesAccepted", message), now);
        write(server, &object, &value, "CustomResourceDefinition established");
    }
    serve(server, crd, now);
}

/// Deletes the objects of a definition that is being deleted, and then the definition.
fn clean_up(server: &mut Server, crd: &Object, now: SystemTime) {
    let mut value = crd.to_value();
    if let Some(resource) = resource(crd).map(Arc::new) {
        let message = "CustomResource deletion is in progress";
        let reason = "InstanceDeletionInProgress";
        set_condition(&mut value, "Terminating", ("True", reason, message), now);
        write(server, crd, &value, "CustomResourceDefinition clean-up");
        if let Err(why) = delete_instances(server, &resource, now) {
            let message = format!("could not list instances: {}", why.message);
            let reason = "InstanceDeletionFailed";
            set_condition(&mut value, "Terminating", ("True", reason, &message), now);
            write(server, crd, &value, "CustomResourceDefinition clean-up");
            return;
        }
        if server.store.objects(&resource.stored_as).next().is_some() {
            return;
        }
        let done = ("False", "InstanceDeletionCompleted", "removed all instances");
        set_condition(&mut value, "Terminating", done, now);
    } else {
        let never = ("False", "NeverEstablished", "resource was never established");
        set_condition(&mut value, "Terminating", never, now);
    }
    let left: Vec<&str> = crd.finalizers().filter(|one| *one != FINALIZER).collect();
    if left.is_empty() {
        let cause = Cause::server("CustomResourceDefinition clean-up");
        server.store.remove(&definitions(), &crd.key(), &cause);
        serve_later(server, crd.name(), now);
    } else {
        value["metadata"]["finalizers"] = json!(left);
        write(server, crd, &value, "CustomResourceDefinition clean-up");
    }
}

fn delete_instances(server: &mut Server, resource: &Arc<Resource>, now: SystemTime) -> Result<(), Status> {
    let objects = || server.store.objects(&resource.stored_as);
    convert_all(resource, &resource.storage_version, objects().map(|(_, one)| one))?;
    let namespaces: BTreeSet<Option<Arc<str>>> = objects().map(|(key, _)| key.namespace.clone()).collect();
    for namespace in namespaces {
        let ResourceName { group, plural } = &resource.name;
        let within = namespace.as_ref().map(|one| format!("namespaces/{one}/")).unwrap_or_default();
        let path = format!("/apis/{group}/{}/{within}{plural}", resource.storage_version);
        let call = Call::own("kube-apiserver", (http::Method::DELETE, &path), &Value::Null);
        let path = ObjectPath {
            group,
            version: &resource.storage_version,
            namespace: namespace.as_deref(),
            plural,
            name: None,
            subresource: None,
        };
        let begun = &Begun::default();
        writes::delete_collection(server, &Request { resource, path, call: &call, begun, now })?;
    }
    Ok(())
}

fn write(server: &mut Server, crd: &Object, value: &Value, what: &str) {
    server.store.write(&definitions(), &crd.key(), value.clone(), &Cause::server(what));
}

/// Rejects requests for a custom type before anything else is checked: creations while its
/// definition is being deleted, and everything that needs a conversion that fails.
pub(crate) fn check(
    server: &Server,
    resource: &Resource,
    path: ObjectPath<'_>,
    verb: Verb,
) -> Result<(), Status> {
    let Some(definition) = &resource.definition else { return Ok(()) };
    if verb == Verb::Create {
        let crd = get(server, &resource.name.to_string());
        if crd.is_none_or(|crd| crd.deletion_timestamp().is_some()) {
            let message = "create not allowed while custom resource definition is terminating";
            return Err(Status::about(405, "MethodNotAllowed", &resource.name, "", message.to_owned()));
        }
    }
    if definition.webhook.is_none() {
        return Ok(());
    }
    if verb == Verb::Create {
        return match *path.version == *resource.storage_version {
            true => Ok(()),
            false => convert(resource, &format!("{}/{}", path.group, path.version)),
        };
    }
    let objects = server.store.objects(&resource.stored_as).filter(|(key, _)| {
        path.namespace.is_none_or(|namespace| key.namespace.as_deref() == Some(namespace))
            && path.name.is_none_or(|name| &*key.name == name)
    });
    convert_all(resource, path.version, objects.map(|(_, object)| object))
}

/// Converts the first of these objects that needs a conversion. The error is that of the request.
fn convert_all<'a>(
    resource: &Resource,
    version: &str,
    mut objects: impl Iterator<Item = &'a Object>,
) -> Result<(), Status> {
    let wanted = format!("{}/{version}", resource.name.group);
    let stored = |object: &'a Object| object.value().get("apiVersion").and_then(Value::as_str);
    let from = objects.find_map(|object| stored(object).filter(|stored| *stored != wanted));
    from.map_or(Ok(()), |from| convert(resource, from))
}

/// Fails if a webhook would have to convert an object: this server calls none.
fn convert(resource: &Resource, from: &str) -> Result<(), Status> {
    let webhook = resource.definition.as_ref().and_then(|definition| definition.webhook.as_deref());
    let Some(webhook) = webhook else { return Ok(()) };
    let message = format!(
        "conversion webhook for {from}, Kind={} failed: Post \"{webhook}?timeout=30s\": connection refused",
        resource.kind
    );
    // The real server gives no reason, either.
    Err(Status::new(500, "", message))
}
