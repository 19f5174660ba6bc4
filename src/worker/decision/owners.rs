//! The owners that a decision rests on, as the log shows them.

use std::fmt::{self, Display};

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use super::record::JudgedOwner;
use crate::telemetry::{PrintedReference, Structured};
use kube_gc_core::object::OwnerReference;
use kube_gc_core::text::listed;

/// Owners as a field of the log. JSON has an array of objects, with the names that the debug
/// pages use.
#[derive(Debug, serde::Serialize)]
pub struct LoggedOwners {
    owners: Vec<LoggedOwner>,
    #[serde(skip_serializing_if = "Option::is_none")]
    more_owners: Option<usize>,
}

impl LoggedOwners {
    /// The first owners of an object, and how many more it names; `None` without any.
    #[must_use]
    pub fn field(owners: Vec<JudgedOwner>, more: usize) -> Option<Structured> {
        let owners: Vec<_> = owners.into_iter().map(LoggedOwner).collect();
        let more_owners = (more > 0).then_some(more);
        (!owners.is_empty()).then(|| Structured::members(Self { owners, more_owners }))
    }
}

impl Display for LoggedOwners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.owners.len() + self.more_owners.unwrap_or_default();
        // Quoted, because it has spaces.
        fmt::Debug::fmt(&listed("; ", total, &self.owners), f)
    }
}

#[derive(Debug)]
struct LoggedOwner(JudgedOwner);

impl Display for LoggedOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JudgedOwner { reference, class, evidence, .. } = &self.0;
        write!(f, "{} is {class} ({evidence})", PrintedReference(reference))
    }
}

impl Serialize for LoggedOwner {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let JudgedOwner { reference, class, evidence, error: _ } = &self.0;
        let OwnerReference { api_version, kind, name, uid, .. } = reference;
        let mut fields = serializer.serialize_struct("Owner", 6)?;
        fields.serialize_field("api_version", &**api_version)?;
        fields.serialize_field("kind", &**kind)?;
        fields.serialize_field("name", &**name)?;
        fields.serialize_field("uid", &uid.shown().to_string())?;
        fields.serialize_field("class", &class.to_string())?;
        fields.serialize_field("evidence", &evidence.to_string())?;
        fields.end()
    }
}
