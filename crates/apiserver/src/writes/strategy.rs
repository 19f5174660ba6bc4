//! The differences between types in writes.

use serde_json::{Value, json};

use crate::resources::Resource;
use crate::server::Release;
use crate::writes::metadata;

/// The rules for writes of a type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strategy {
    /// Whether a name can be any segment of a path.
    pub(super) any_name: bool,
    /// Whether `metadata.generation` counts changes of the desired state.
    generation: bool,
    /// Whether an update may omit the resource version.
    pub(super) unconditional: bool,
    /// Whether the status can only be written through `/status`.
    has_status: bool,
    /// Whether finalizers without a domain are allowed.
    pub(super) short_finalizers: bool,
}

impl Strategy {
    /// The strategy of a type.
    pub(super) fn of(resource: &Resource, release: Release) -> Self {
        let custom = resource.custom;
        let (group, plural) = (&*resource.stored_as.group, &*resource.stored_as.plural);
        let extends = matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io");
        Self {
            any_name: matches!(group, "rbac.authorization.k8s.io" | "apiregistration.k8s.io"),
            generation: match (group, plural) {
                _ if custom => true,
                ("", "pods") | ("batch", _) => release > Release::V1_20,
                ("", _) => plural == "replicationcontrollers",
                ("apps", _) => plural != "controllerrevisions",
                ("networking.k8s.io", _) => plural != "ipaddresses",
                ("policy", _) => plural == "poddisruptionbudgets",
                ("admissionregistration.k8s.io" | "flowcontrol.apiserver.k8s.io", _) => true,
                _ => plural == "customresourcedefinitions",
            },
            unconditional: !custom && !extends && group != "coordination.k8s.io",
            has_status: resource.subresources.contains(&"status"),
            short_finalizers: custom || extends,
        }
    }

    /// Prepares a new object of this type.
    pub(super) fn prepare_new(&self, resource: &Resource, object: &mut Value) {
        if self.generation {
            metadata::of_mut(object).insert("generation".to_owned(), 1.into());
        }
        let Some(fields) = object.as_object_mut() else { return };
        let plural = if resource.custom { "" } else { &*resource.name.plural };
        if self.has_status && plural != "nodes" {
            fields.remove("status");
        }
        match plural {
            "namespaces" => {
                set_finalizers(fields.entry("spec").or_insert_with(|| json!({})));
                fields.insert("status".to_owned(), json!({"phase": "Active"}));
            }
            "pods" => {
                fields.insert("status".to_owned(), json!({"phase": "Pending"}));
            }
            _ => {}
        }
    }

    /// Restores the parts that an update through this path must not change.
    pub(super) fn prepare_changed(
        &self,
        resource: &Resource,
        subresource: Option<&str>,
        new: &mut Value,
        old: &Value,
    ) {
        let plural = if resource.custom { "" } else { &*resource.name.plural };
        match subresource {
            Some("status") => self.prepare_status(resource, plural, new, old),
            Some("finalize") => restore(new, old, "status"),
            _ => {
                if self.has_status {
                    restore(new, old, "status");
                }
                if plural == "namespaces" {
                    restore_namespace_finalizers(new, old);
                }
                if self.generation && asks_for_something_else(resource, plural, new, old) {
                    let generation =
                        metadata::number(metadata::of(old), "generation").unwrap_or_default() + 1;
                    metadata::of_mut(new).insert("generation".to_owned(), generation.into());
                }
            }
        }
    }

    fn prepare_status(&self, resource: &Resource, plural: &str, new: &mut Value, old: &Value) {
        let mut kept = old.clone();
        restore(&mut kept, new, "status");
        // Custom resources keep all of their metadata, others a part of it.
        if !resource.custom {
            let mut metadata = metadata::of(new).clone();
            match plural {
                "pods" => metadata::copy(&mut metadata, metadata::of(old), "ownerReferences"),
                "deployments" => metadata::copy(&mut metadata, metadata::of(old), "labels"),
                _ => {}
            }
            kept["metadata"] = metadata.into();
        }
        *new = kept;
    }
}

fn set_finalizers(spec: &mut Value) {
    if !spec.is_object() {
        *spec = json!({});
    }
    let mut finalizers = spec["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == "kubernetes") {
        finalizers.push("kubernetes".into());
    }
    spec["finalizers"] = finalizers.into();
}

fn restore_namespace_finalizers(new: &mut Value, old: &Value) {
    let kept = old.pointer("/spec/finalizers").cloned();
    let Some(fields) = new.as_object_mut() else { return };
    let spec = fields.entry("spec").or_insert_with(|| json!({}));
    if let Some(spec) = spec.as_object_mut() {
        metadata::put(spec, "finalizers", kept);
    }
}

/// Copies a field from the other object, even if it is absent there.
fn restore(new: &mut Value, old: &Value, field: &str) {
    if let Some(fields) = new.as_object_mut() {
        metadata::put(fields, field, old.get(field).cloned());
    }
}

/// Whether the desired state differs, which increases the generation.
fn asks_for_something_else(resource: &Resource, plural: &str, new: &Value, old: &Value) -> bool {
    if resource.custom {
        let content = |object: &Value| {
            let mut content = object.clone();
            restore(&mut content, &Value::Null, "metadata");
            content
        };
        return content(new) != content(old);
    }
    let annotations = |object: &Value| metadata::of(object).get("annotations").cloned();
    let differs = |field: &str| new.get(field) != old.get(field);
    differs("spec") || differs("webhooks") || plural == "deployments" && annotations(new) != annotations(old)
}
