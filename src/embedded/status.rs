//! `Status` answers: what was wrong, with the reasons and codes of Kubernetes.

use serde_json::{Value, json};

use super::resources::ResourceName;

/// An error, as `metav1.Status` tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The HTTP code.
    pub code: u16,
    /// The machine-readable reason, such as `NotFound`; empty if there is none.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// `details`, if there are any.
    pub details: Option<Value>,
    /// `metadata`, if there is any: the continue token to go on with.
    pub metadata: Option<Value>,
}

impl Status {
    /// A status without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, metadata: None }
    }

    /// The object's own 404.
    #[must_use]
    pub fn not_found(resource: &ResourceName, name: &str) -> Self {
        Self::about(404, "NotFound", resource, name, format!("{resource} \"{name}\" not found"))
    }

    /// A name that is taken.
    #[must_use]
    pub fn already_exists(resource: &ResourceName, name: &str) -> Self {
        Self::about(409, "AlreadyExists", resource, name, format!("{resource} \"{name}\" already exists"))
    }

    /// A precondition that failed, or an object that has changed.
    #[must_use]
    pub fn conflict(resource: &ResourceName, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::about(409, "Conflict", resource, name, message)
    }

    /// A status with `details` that name the object.
    #[must_use]
    pub fn about(
        code: u16,
        reason: &'static str,
        resource: &ResourceName,
        name: &str,
        message: String,
    ) -> Self {
        let mut details = serde_json::Map::new();
        for (field, value) in [("name", name), ("group", &resource.group), ("kind", &resource.plural)] {
            if !value.is_empty() {
                details.insert(field.to_owned(), value.into());
            }
        }
        Self { code, reason, message, details: Some(details.into()), metadata: None }
    }

    /// As JSON.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(metadata) = &self.metadata {
            status["metadata"] = metadata.clone();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status["code"] = self.code.into();
        status
    }
}
