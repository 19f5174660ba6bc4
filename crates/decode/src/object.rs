//! One object.

use serde::{Deserialize, Deserializer};

use super::{Encoding, Keyed, Text, keyed_or_default, or_default, protobuf, read_json};
use kube_gc_core::object::{
    FOREGROUND_FINALIZER, Finalizers, Namespace, ORPHAN_FINALIZER, ObjectFacts, OwnerReference,
    ResourceVersion, Uid, seconds,
};

/// An object of which only the metadata are read; without them, it has none.
#[derive(Debug, Default, serde::Deserialize)]
pub struct Object<T> {
    #[serde(
        default,
        deserialize_with = "keyed_or_default",
        bound(deserialize = "T: serde::Deserialize<'de> + Default")
    )]
    pub metadata: T,
}

/// The metadata that matter, borrowed from the JSON.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata<'a> {
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
    pub deletion_timestamp: Option<Time>,
    pub deletion_grace_period_seconds: Option<i64>,
}

/// A time in seconds since 1970, if it is one.
#[derive(Debug)]
pub struct Time(pub Option<u64>);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Text::deserialize(deserializer).map(|time| Self(seconds(&time)))
    }
}

impl Metadata<'_> {
    pub fn version(&self) -> Option<ResourceVersion> {
        ResourceVersion::parse(&self.resource_version)
    }

    /// The facts of the object; `None` if it has no uid.
    fn facts(&self) -> Option<ObjectFacts> {
        let uid = Uid::parse(&self.uid)?;
        let (mut finalizers, mut held_by_others) = (Finalizers::default(), false);
        for finalizer in &self.finalizers {
            match &**finalizer {
                FOREGROUND_FINALIZER => finalizers.foreground = true,
                ORPHAN_FINALIZER => finalizers.orphan = true,
                _ => held_by_others = true,
            }
        }
        Some(ObjectFacts {
            uid,
            namespace: Namespace::parse(&self.namespace),
            name: (&*self.name).into(),
            resource_version: self.version(),
            owners: self.owner_references.iter().filter_map(|Keyed(view)| view.read()).collect(),
            being_deleted: self.deletion_timestamp.is_some(),
            finalizers,
            held_by_others,
            // Of what no server gives, it is only known that it is not over.
            grace: self.deletion_grace_period_seconds.map(|grace| grace.try_into().unwrap_or(1)),
            ends: self.deletion_timestamp.as_ref().and_then(|Time(seconds)| *seconds),
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
    /// It is not in this encoding, or its metadata does not have the expected shape.
    pub fn read(encoding: Encoding, object: &[u8]) -> Result<Self, String> {
        match encoding {
            Encoding::Json => read_json(object).map(|Keyed(Object { metadata })| Self::of(&metadata)),
            Encoding::Protobuf => protobuf::read_object(object).map(|metadata| Self::of(&metadata)),
        }
    }

    pub(super) fn of(metadata: &Metadata<'_>) -> Self {
        Self { version: metadata.version(), object: metadata.facts() }
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

    fn read(json: &str) -> Result<Option<ObjectFacts>, String> {
        Decoded::read(Encoding::Json, json.as_bytes()).map(|decoded| decoded.object)
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
            let _ = Decoded::read(Encoding::Json, &bytes);
        }
    }

    #[test]
    fn facts_are_what_the_graph_needs_of_an_object() {
        let json = r#"{"kind":"Widget","metadata":{"name":"w","namespace":"ns","uid":"u","resourceVersion":"7",
            "deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":30,"finalizers":["orphan",null],"ownerReferences":[
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
            grace: Some(30),
            ends: Some(1_767_225_600),
        };
        assert_eq!(read(json), Ok(Some(expected)));
        let nothing =
            r#"{"metadata":{"uid":"u","deletionTimestamp":null,"finalizers":null,"ownerReferences":null}}"#;
        let facts = read(nothing).unwrap().unwrap();
        assert!(
            !facts.being_deleted && !facts.held_by_others && facts.owners.is_empty() && facts.grace.is_none()
        );
        assert_eq!(read(r#"{"metadata":{"uid":""}}"#), Ok(None));
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
