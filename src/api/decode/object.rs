//! One object.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::Text;
use crate::object::{
    FOREGROUND_FINALIZER, Finalizers, Namespace, ORPHAN_FINALIZER, ObjectFacts, OwnerReference,
    ResourceVersion, Uid,
};

/// An object's metadata as it stands in the JSON text.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct ObjectView<'a> {
    #[serde(borrow, deserialize_with = "null_as_default")]
    metadata: MetadataView<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetadataView<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    namespace: Text<'a>,
    #[serde(borrow)]
    uid: Text<'a>,
    #[serde(borrow)]
    resource_version: Text<'a>,
    owner_references: Owners,
    finalizers: FinalizersView,
    deletion_timestamp: Option<IgnoredAny>,
    deletion_grace_period_seconds: Option<i64>,
}

fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl ObjectView<'_> {
    /// The resource version, which bookmarks have and nothing else.
    pub fn resource_version(&self) -> Option<ResourceVersion> {
        ResourceVersion::parse(&self.metadata.resource_version)
    }

    /// True when a finalizer of anybody's, or a grace period, keeps an object
    /// that is being deleted. What a DELETE answered without either is the last
    /// state of an object that is gone.
    pub fn is_held(&self) -> bool {
        let MetadataView { finalizers, deletion_timestamp, deletion_grace_period_seconds, .. } =
            &self.metadata;
        deletion_timestamp.is_some()
            && (finalizers.any || deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0))
    }
}

/// Turns views into facts. Objects of one namespace come in a row, so their
/// facts share its name.
#[derive(Debug, Default)]
pub struct FactsReader {
    namespace: Option<Namespace>,
}

impl FactsReader {
    /// The facts of an object; `None` when it has no uid.
    pub fn facts(&mut self, view: ObjectView<'_>) -> Option<ObjectFacts> {
        let metadata = view.metadata;
        Some(ObjectFacts {
            uid: Uid::parse(&metadata.uid)?,
            namespace: self.namespace(&metadata.namespace),
            name: (&*metadata.name).into(),
            resource_version: ResourceVersion::parse(&metadata.resource_version),
            owners: metadata.owner_references.0,
            being_deleted: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers.own,
        })
    }

    fn namespace(&mut self, text: &str) -> Option<Namespace> {
        if self.namespace.as_ref().is_none_or(|last| last.as_str() != text) {
            self.namespace = Namespace::parse(text);
        }
        self.namespace.clone()
    }
}

/// `metadata.ownerReferences` without those that have no uid.
#[derive(Debug, Default)]
struct Owners(Vec<OwnerReference>);

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct ReferenceView<'a> {
    #[serde(borrow)]
    api_version: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    uid: Text<'a>,
    controller: Option<bool>,
    block_owner_deletion: Option<bool>,
}

impl ReferenceView<'_> {
    fn read(&self) -> Option<OwnerReference> {
        Some(OwnerReference {
            api_version: (&*self.api_version).into(),
            kind: (&*self.kind).into(),
            name: (&*self.name).into(),
            uid: Uid::parse(&self.uid)?,
            controller: self.controller.unwrap_or_default(),
            block_owner_deletion: self.block_owner_deletion.unwrap_or_default(),
        })
    }
}

/// Reads one owner reference; `None` when it has no uid.
pub(in crate::api) fn reference(json: &str) -> Result<Option<OwnerReference>, serde_json::Error> {
    serde_json::from_str::<ReferenceView<'_>>(json).map(|view| view.read())
}

impl<'de> Deserialize<'de> for Owners {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OwnersVisitor;

        impl<'de> Visitor<'de> for OwnersVisitor {
            type Value = Owners;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of owner references")
            }

            fn visit_unit<E>(self) -> Result<Owners, E> {
                Ok(Owners::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Owners, A::Error> {
                let mut owners = Vec::new();
                while let Some(view) = list.next_element::<ReferenceView<'_>>()? {
                    if let Some(owner) = view.read() {
                        // Most objects have one owner: no room for three more.
                        if owners.is_empty() {
                            owners.reserve_exact(1);
                        }
                        owners.push(owner);
                    }
                }
                Ok(Owners(owners))
            }
        }

        deserializer.deserialize_any(OwnersVisitor)
    }
}

/// `metadata.finalizers`, read and forgotten.
#[derive(Debug, Default)]
struct FinalizersView {
    own: Finalizers,
    any: bool,
}

impl<'de> Deserialize<'de> for FinalizersView {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FinalizersVisitor;

        impl<'de> Visitor<'de> for FinalizersVisitor {
            type Value = FinalizersView;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of finalizers")
            }

            fn visit_unit<E>(self) -> Result<FinalizersView, E> {
                Ok(FinalizersView::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<FinalizersView, A::Error> {
                let mut view = FinalizersView::default();
                while let Some(finalizer) = list.next_element::<Text<'_>>()? {
                    view.any = true;
                    view.own.foreground |= &*finalizer == FOREGROUND_FINALIZER;
                    view.own.orphan |= &*finalizer == ORPHAN_FINALIZER;
                }
                Ok(view)
            }
        }

        deserializer.deserialize_any(FinalizersVisitor)
    }
}
