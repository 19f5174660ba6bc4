//! One object.

use serde::de::IgnoredAny;

use super::{Encoding, Keyed, Text, keyed_or_default, or_default, protobuf, read_json};
use kube_gc_core::object::{
    FOREGROUND_FINALIZER, Finalizers, Namespace, ORPHAN_FINALIZER, ObjectFacts, OwnerReference,
    ResourceVersion, Uid,
};

/// An object's metadata, borrowed from the JSON.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct ObjectView<'a> {
    #[serde(borrow, deserialize_with = "keyed_or_default")]
    pub metadata: MetadataView<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataView<'a> {
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    pub namespace: Text<'a>,
    #[serde(borrow)]
    pub uid: Text<'a>,
    #[serde(borrow)]
    pub resource_version: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub owner_references: Vec<Keyed<ReferenceView<'a>>>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub finalizers: Vec<Text<'a>>,
    pub deletion_timestamp: Option<IgnoredAny>,
    pub deletion_grace_period_seconds: Option<i64>,
}

impl<'a> ObjectView<'a> {
    /// Reads an object.
    ///
    /// # Errors
    ///
    /// It is not in this encoding, or its metadata does not have the expected shape.
    pub fn read(encoding: Encoding, object: &'a [u8]) -> Result<Self, String> {
        match encoding {
            Encoding::Json => read_json(object).map(|Keyed(view)| view),
            Encoding::Protobuf => protobuf::read_object(object),
        }
    }

    pub fn resource_version(&self) -> Option<ResourceVersion> {
        ResourceVersion::parse(&self.metadata.resource_version)
    }

    /// Whether an object that is being deleted still exists: it is kept by a finalizer, a grace
    /// period, or, for a Namespace, `spec.finalizers`. Otherwise the answer to a DELETE is the
    /// last state of an object that is gone: it has no deletion timestamp, or its grace period
    /// is over.
    pub fn is_held(&self) -> bool {
        let MetadataView { finalizers, deletion_timestamp, deletion_grace_period_seconds, .. } =
            &self.metadata;
        deletion_timestamp.is_some() && (!finalizers.is_empty() || *deletion_grace_period_seconds != Some(0))
    }

    /// The facts of the object; `None` if it has no uid.
    pub fn facts(&self) -> Option<ObjectFacts> {
        let metadata = &self.metadata;
        let uid = Uid::parse(&metadata.uid)?;
        let (mut finalizers, mut held_by_others) = (Finalizers::default(), false);
        for finalizer in &metadata.finalizers {
            match &**finalizer {
                FOREGROUND_FINALIZER => finalizers.foreground = true,
                ORPHAN_FINALIZER => finalizers.orphan = true,
                _ => held_by_others = true,
            }
        }
        Some(ObjectFacts {
            uid,
            namespace: Namespace::parse(&metadata.namespace),
            name: (&*metadata.name).into(),
            resource_version: self.resource_version(),
            owners: metadata.owner_references.iter().filter_map(|Keyed(view)| view.read()).collect(),
            being_deleted: metadata.deletion_timestamp.is_some(),
            finalizers,
            held_by_others,
            grace: metadata.deletion_grace_period_seconds.map_or(0, |grace| grace.try_into().unwrap_or(0)),
        })
    }
}

/// An object, as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded<T> {
    pub version: Option<ResourceVersion>,
    /// `None` if it has no uid.
    pub object: Option<T>,
}

impl Decoded<ObjectFacts> {
    /// Reads an object.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn read(encoding: Encoding, object: &[u8]) -> Result<Self, String> {
        let view = ObjectView::read(encoding, object)?;
        Ok(Self { version: view.resource_version(), object: view.facts() })
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReferenceView<'a> {
    #[serde(borrow)]
    pub api_version: Text<'a>,
    #[serde(borrow)]
    pub kind: Text<'a>,
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    pub uid: Text<'a>,
    pub controller: Option<bool>,
    pub block_owner_deletion: Option<bool>,
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

/// Reads an owner reference; `None` if it has no uid.
pub fn reference(json: &str) -> Result<Option<OwnerReference>, serde_json::Error> {
    serde_json::from_str::<Keyed<ReferenceView<'_>>>(json).map(|Keyed(view)| view.read())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fuzzing;
    use crate::testing::objects::object;

    fn read(json: &str) -> Result<ObjectView<'_>, String> {
        ObjectView::read(Encoding::Json, json.as_bytes())
    }

    proptest! {
        #[test]
        fn an_object_is_read_as_from_its_tree(object in object(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
            let text = text.unwrap();
            fuzzing::object(text.as_bytes());
        }

        #[test]
        fn no_input_makes_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = ObjectView::read(Encoding::Json, &bytes);
        }
    }

    #[test]
    fn facts_are_what_the_graph_needs_of_an_object() {
        let json = r#"{"kind":"Widget","metadata":{"name":"w","namespace":"ns","uid":"u","resourceVersion":"7",
            "deletionTimestamp":"t","deletionGracePeriodSeconds":30,"finalizers":["orphan",null],"ownerReferences":[
            {"apiVersion":"v1","kind":"Pod","name":"p","uid":"o","controller":true,"blockOwnerDeletion":null},
            {"apiVersion":"v1","kind":"Pod","name":"of no uid"}]},"spec":{}}"#;
        let owner = OwnerReference {
            api_version: "v1".into(),
            kind: "Pod".into(),
            name: "p".into(),
            uid: Uid::parse("o").unwrap(),
            controller: true,
            block_owner_deletion: false,
        };
        let expected = ObjectFacts {
            uid: Uid::parse("u").unwrap(),
            namespace: Namespace::parse("ns"),
            name: "w".into(),
            resource_version: Some(ResourceVersion::number(7)),
            owners: vec![owner],
            being_deleted: true,
            finalizers: Finalizers { foreground: false, orphan: true },
            held_by_others: true,
            grace: 30,
        };
        assert_eq!(read(json).unwrap().facts(), Some(expected));
        let nothing =
            r#"{"metadata":{"uid":"u","deletionTimestamp":null,"finalizers":null,"ownerReferences":null}}"#;
        let facts = read(nothing).unwrap().facts().unwrap();
        assert!(!facts.being_deleted && !facts.held_by_others && facts.owners.is_empty() && facts.grace == 0);
        assert_eq!(read(r#"{"metadata":{"uid":""}}"#).unwrap().facts(), None);
    }

    #[test]
    fn arrays_are_not_read_by_position() {
        for json in [
            r#"[{"uid":"u"}]"#,
            r#"{"metadata":["name","namespace","u","7"]}"#,
            r#"{"metadata":{"uid":"u","ownerReferences":[["v1","ConfigMap","a","v"]]}}"#,
        ] {
            assert!(read(json).is_err(), "{json}");
        }
    }
}
