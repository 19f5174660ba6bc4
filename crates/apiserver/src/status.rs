//! `Status` answers: errors with the reasons and codes of Kubernetes.

use serde_json::{Value, json};

use super::resources::ResourceName;

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
    #[must_use]
    pub fn not_found(resource: &ResourceName, name: &str) -> Self {
        Self::about(404, "NotFound", resource, name, format!("{resource} \"{name}\" not found"))
    }

    /// The name is taken.
    #[must_use]
    pub fn already_exists(resource: &ResourceName, name: &str) -> Self {
        Self::about(409, "AlreadyExists", resource, name, format!("{resource} \"{name}\" already exists"))
    }

    /// A precondition failed, or the object has changed.
    #[must_use]
    pub fn conflict(resource: &ResourceName, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::about(409, "Conflict", resource, name, message)
    }

    /// The request is malformed.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// An error without a reason.
    #[must_use]
    pub fn unnamed(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// The request is forbidden. Without a name, the message names no object.
    #[must_use]
    pub fn forbidden(resource: &ResourceName, name: &str, why: &str) -> Self {
        let object = if name.is_empty() { resource.to_string() } else { format!("{resource} \"{name}\"") };
        let message = format!("{object} is forbidden: {why}");
        Self::about(403, "Forbidden", resource, name, message)
    }

    /// The object is invalid. `kind` is its kind.
    #[must_use]
    pub fn invalid(kind: &ResourceName, name: &str, errors: &[FieldError]) -> Self {
        let mut faults: Vec<String> = Vec::new();
        for error in errors {
            let fault = format!("{}: {}", error.field, error.message);
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        let faults = match faults.as_slice() {
            [fault] => fault.clone(),
            _ => format!("[{}]", faults.join(", ")),
        };
        let message = format!("{kind} \"{name}\" is invalid: {faults}");
        let mut status = Self::about(422, "Invalid", kind, name, message);
        for error in errors {
            status = status.because(error.reason, &error.message, &error.field);
        }
        status
    }

    /// Adds a cause to the details.
    #[must_use]
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
    /// An invalid value, as it should be printed.
    #[must_use]
    pub fn invalid(field: &str, value: &str, why: &str) -> Self {
        Self::new("FieldValueInvalid", field, format!("Invalid value: {value}: {why}"))
    }

    /// A missing value.
    #[must_use]
    pub fn required(field: &str, why: &str) -> Self {
        Self::new("FieldValueRequired", field, format!("Required value: {why}"))
    }

    /// A value that must be absent.
    #[must_use]
    pub fn forbidden(field: &str, why: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {why}"))
    }

    /// A value that is not one of the supported values, as it should be printed.
    #[must_use]
    pub fn not_supported(field: &str, value: &str, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
        Self::new("FieldValueNotSupported", field, message)
    }

    fn new(reason: &'static str, field: &str, message: String) -> Self {
        Self { reason, field: field.to_owned(), message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_error_is_listed_once_and_counted_twice() {
        let one = FieldError::invalid("metadata.uid", "\"x\"", "field is immutable");
        let other = FieldError::required("metadata.name", "a name");
        let status =
            Status::invalid(&ResourceName::new("x.io", "Foo"), "a", &[one.clone(), one.clone(), other]);
        assert_eq!(
            status.message,
            "Foo.x.io \"a\" is invalid: [metadata.uid: Invalid value: \"x\": field is immutable, \
             metadata.name: Required value: a name]"
        );
        let value = status.to_value();
        assert_eq!(value["details"]["causes"].as_array().map(Vec::len), Some(3));
        assert_eq!(value["details"]["kind"], "Foo");
        let status = Status::invalid(&ResourceName::new("", "Foo"), "a", &[one.clone(), one]);
        assert_eq!(
            status.message,
            "Foo \"a\" is invalid: metadata.uid: Invalid value: \"x\": field is immutable"
        );
    }

    #[test]
    fn an_error_without_a_name_has_no_reason() {
        assert!(Status::unnamed("x").to_value().get("reason").is_none());
    }
}
