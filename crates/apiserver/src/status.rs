//! `Status` answers: errors with the reasons and codes of Kubernetes. Messages are only those of Kubernetes
//! where clients show them.

use serde_json::{Value, json};

use crate::resources::ResourceName;

/// An error in the form of `metav1.Status`.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason, such as `NotFound`; may be empty.
    pub reason: &'static str,
    /// The message for people.
    pub message: String,
    /// `details`, if any.
    pub details: Option<Value>,
    /// `metadata`, if any: the continue token of the next page.
    pub metadata: Option<Value>,
}

impl Status {
    /// A status without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, metadata: None }
    }

    /// The 404 of an object.
    pub fn not_found(resource: &ResourceName, name: &str) -> Self {
        Self::about(404, "NotFound", resource, name, format!("{resource} \"{name}\" not found"))
    }

    /// The name is taken.
    pub fn already_exists(resource: &ResourceName, name: &str) -> Self {
        Self::about(409, "AlreadyExists", resource, name, format!("{resource} \"{name}\" already exists"))
    }

    /// A precondition failed, or the object has changed.
    pub fn conflict(resource: &ResourceName, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::about(409, "Conflict", resource, name, message)
    }

    /// The request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// An error without a reason.
    pub fn unnamed(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// The request is forbidden. Without a name, the message names no object.
    pub fn forbidden(resource: &ResourceName, name: &str, why: &str) -> Self {
        let object = if name.is_empty() { resource.to_string() } else { format!("{resource} \"{name}\"") };
        let message = format!("{object} is forbidden: {why}");
        Self::about(403, "Forbidden", resource, name, message)
    }

    /// The object is invalid. `kind` is its kind.
    pub fn invalid(kind: &ResourceName, name: &str, errors: &[FieldError]) -> Self {
        let faults: Vec<String> =
            errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect();
        let message = format!("{kind} \"{name}\" is invalid: {}", faults.join(", "));
        let status = Self::about(422, "Invalid", kind, name, message);
        errors.iter().fold(status, |status, error| status.because(error.reason, &error.message, &error.field))
    }

    /// Adds a cause to the details.
    pub fn because(mut self, reason: &str, message: &str, field: &str) -> Self {
        let details = self.details.get_or_insert_with(|| json!({}));
        let cause = json!({"reason": reason, "message": message, "field": field});
        match details["causes"].as_array_mut() {
            Some(causes) => causes.push(cause),
            None => details["causes"] = json!([cause]),
        }
        self
    }

    /// A status with `details` that name the object.
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

/// An error in one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The machine-readable reason, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// The path of the field.
    pub field: String,
    /// The message for people.
    pub message: String,
}

impl FieldError {
    /// An invalid value.
    pub fn invalid(field: &str, why: &str) -> Self {
        Self::new("FieldValueInvalid", field, why)
    }

    /// A value that must be absent.
    pub fn forbidden(field: &str, why: &str) -> Self {
        Self::new("FieldValueForbidden", field, why)
    }

    /// A value that is not one of the supported ones.
    pub fn not_supported(field: &str, value: &str) -> Self {
        Self::new("FieldValueNotSupported", field, &format!("unsupported value: {value:?}"))
    }

    fn new(reason: &'static str, field: &str, message: &str) -> Self {
        Self { reason, field: field.to_owned(), message: message.to_owned() }
    }
}
