//! The API server's `Status`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Encoding, Keyed, Text, keyed_or_default, or_default, protobuf};
use kube_gc_core::object::GroupResource;

/// The parts of a `Status` that determine the class of an error.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The human-readable message.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
    /// The HTTP code. An ERROR event has no other code.
    #[serde(deserialize_with = "or_default")]
    pub code: u16,
    #[serde(deserialize_with = "or_default")]
    pub(super) reason: String,
    #[serde(deserialize_with = "keyed_or_default")]
    pub(super) details: Details,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Details {
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    #[serde(deserialize_with = "or_default")]
    pub group: String,
    /// The plural resource name, despite the name of the field.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    #[serde(deserialize_with = "or_default")]
    pub causes: Vec<Keyed<Cause>>,
    #[serde(deserialize_with = "seconds")]
    pub retry_after_seconds: u64,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct Cause {
    #[serde(deserialize_with = "or_default")]
    pub reason: String,
    #[serde(deserialize_with = "or_default")]
    pub field: String,
}

/// The object that a request names, to recognize the object's own 404.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    pub group_resource: &'a GroupResource,
    pub namespace: Option<&'a str>,
    pub name: &'a str,
}

/// Ignores a number that is not a valid time, because the rest of the `Status` is still useful.
fn seconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = Option::<serde_json::Number>::deserialize(deserializer)?;
    Ok(number.and_then(|number| number.as_u64()).unwrap_or_default())
}

/// The greatest length of a `Status`.
const LONGEST: usize = 1 << 20;

impl Status {
    /// What the `Status` in a body says of the request, such as `Success`; `None` if the body is anything
    /// else.
    pub fn outcome(body: &[u8]) -> Option<String> {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Outcome<'a> {
            #[serde(borrow)]
            kind: Text<'a>,
            #[serde(borrow)]
            api_version: Text<'a>,
            // A string in a `Status`, an object in any other object.
            #[serde(borrow)]
            status: Option<&'a RawValue>,
        }
        let Keyed(Outcome { kind, api_version, status }) = serde_json::from_slice(body).ok()?;
        let outcome = || serde_json::from_str(status?.get()).ok();
        (&*kind == "Status" && &*api_version == "v1").then(|| outcome().unwrap_or_default())
    }

    /// The `Status` in a body that reports a failure, whatever the HTTP code is.
    pub fn of_failure(body: &[u8]) -> Option<Self> {
        if body.len() > LONGEST || memchr::memmem::find(body, b"Failure").is_none() {
            return None;
        }
        Self::outcome(body).filter(|outcome| outcome == "Failure").map(|_| Self::read(Encoding::Json, body))
    }

    /// Reads a `Status`. A body that is not a `Status` gives an empty one.
    pub fn read(encoding: Encoding, body: &[u8]) -> Self {
        let read = match encoding {
            Encoding::Json => serde_json::from_slice(body).map(|Keyed(status)| status).ok(),
            Encoding::Protobuf => protobuf::read_status(body),
        };
        read.unwrap_or_default()
    }

    /// Whether it names exactly this object: resource, group and name.
    pub fn is_about(&self, object: Named<'_>) -> bool {
        let Details { name, group, kind, .. } = &self.details;
        **name == *object.name
            && **kind == *object.group_resource.resource
            && **group == *object.group_resource.group
            && !name.is_empty()
    }

    /// Whether it names this namespace.
    pub fn is_about_namespace(&self, namespace: &str) -> bool {
        self.details.kind == "namespaces" && self.details.group.is_empty() && self.details.name == namespace
    }

    /// Whether a cause names this field.
    pub fn causes_name(&self, field: &str) -> bool {
        self.details.causes.iter().any(|Keyed(cause)| cause.field == field)
    }

    /// Whether this server has not seen a resource version yet. The code is only "timeout", and
    /// before 1.20 only the message says it.
    pub fn says_too_large_resource_version(&self) -> bool {
        self.details.causes.iter().any(|Keyed(cause)| cause.reason == "ResourceVersionTooLarge")
            || self.message.starts_with("Too large resource version")
            || self.message.starts_with("Timeout: Too large resource version")
    }

    /// Whether a resource version is too old, in any form that servers use.
    pub fn says_expired(&self) -> bool {
        matches!(&*self.reason, "Expired" | "Gone") || self.message.starts_with("too old resource version")
    }

    /// Whether an admission webhook or policy denied the request. Its author chooses the code and,
    /// for a webhook, the rest of the `Status`. But the API server writes its name before its message;
    /// before that, for a policy and on newer servers, what it denied.
    pub fn is_admission_denial(&self) -> bool {
        let text = &*self.message;
        let behind = |words| text.split_once(words).map_or("", |(_, rest)| rest);
        [text, behind(" is forbidden: "), behind("Internal error occurred: ")].iter().any(|text| {
            let by = |author, words| text.starts_with(author) && text.contains(words);
            by("admission webhook \"", "\" denied the request")
                || by("ValidatingAdmissionPolicy '", "' denied request: ")
                // A MutatingAdmissionPolicy.
                || by("policy '", "' denied request: ")
        })
    }

    /// The wait that the server asks for.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.details.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }
}
