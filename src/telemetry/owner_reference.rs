//! Owner references in the log. Their authors choose the text, so it is cut and escaped.

use std::fmt::{self, Display};

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use super::Structured;
use kube_gc_core::object::OwnerReference;
use kube_gc_core::text::{bounded, word};

/// A reference as its author wrote it, cut to what can be printed.
#[derive(Debug)]
pub struct PrintedReference<'a>(pub &'a OwnerReference);

impl Display for PrintedReference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OwnerReference { api_version, kind, name, uid, .. } = self.0;
        let (api_version, kind, name) = (word(api_version), word(kind), word(name));
        write!(f, "{api_version}/{kind}, name: {name}, uid: {}", uid.shown())
    }
}

/// An owner reference as a field of the log.
#[must_use]
pub fn owner_reference(reference: &OwnerReference) -> Structured {
    Structured::field(LoggedReference(reference.clone()))
}

#[derive(Debug)]
struct LoggedReference(OwnerReference);

impl Display for LoggedReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&bounded(PrintedReference(&self.0)), f)
    }
}

impl Serialize for LoggedReference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let OwnerReference { api_version, kind, name, uid, .. } = &self.0;
        let mut fields = serializer.serialize_struct("Owner", 4)?;
        fields.serialize_field("api_version", &word(api_version).to_string())?;
        fields.serialize_field("kind", &word(kind).to_string())?;
        fields.serialize_field("name", &word(name).to_string())?;
        fields.serialize_field("uid", &uid.shown().to_string())?;
        fields.end()
    }
}
