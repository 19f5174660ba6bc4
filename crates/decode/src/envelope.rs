//! A list without its items: its version and its continue token.

use serde::de::IgnoredAny;

use super::{Keyed, Text, json_fault, keyed_or_default};
use kube_gc_core::object::ResourceVersion;

/// Why a list cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ListError(pub String);

/// A list without its items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The list's version.
    pub resource_version: Option<ResourceVersion>,
    /// The continue token; empty on the last page.
    pub next: String,
}

impl Envelope {
    /// Reads a JSON list whose items were taken out.
    pub(super) fn from_json(json: &[u8]) -> Result<Self, ListError> {
        #[derive(serde::Deserialize)]
        struct List<'a> {
            #[serde(borrow, default)]
            kind: Text<'a>,
            #[serde(borrow, default, deserialize_with = "keyed_or_default")]
            metadata: Metadata<'a>,
            /// The scanner has removed the items that it recognizes. Remaining ones have a form that
            /// it does not know, and must not read as an empty list.
            #[serde(default, rename = "items")]
            _items: Option<[IgnoredAny; 0]>,
        }
        #[derive(Default, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Metadata<'a> {
            #[serde(borrow)]
            resource_version: Text<'a>,
            #[serde(borrow, rename = "continue")]
            next: Text<'a>,
        }
        let Keyed(list): Keyed<List<'_>> =
            serde_json::from_slice(json).map_err(|error| ListError(json_fault(&error)))?;
        // A single object would otherwise read as an empty list, and all objects would count as
        // gone.
        if !list.kind.ends_with("List") {
            return Err(ListError("the response is not a list".into()));
        }
        Ok(Self {
            resource_version: ResourceVersion::parse(&list.metadata.resource_version),
            next: list.metadata.next.to_string(),
        })
    }
}
