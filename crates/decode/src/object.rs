//! One object.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::{Keyed, Text, keyed_or_default};
use kube_gc_core::object::{
    FOREGROUND_FINALIZER, Finalizers, Namespace, ORPHAN_FINALIZER, ObjectFacts, OwnerReference,
    ResourceVersion, Uid,
};

/// An object's metadata, borrowed from the JSON or protobuf.
#[derive(Debug, Default)]
pub struct ObjectView<'a> {
    pub(super) metadata: MetadataView<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for ObjectView<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct Fields<'a> {
            #[serde(borrow, deserialize_with = "keyed_or_default")]
            metadata: MetadataView<'a>,
        }
        let Keyed(Fields { metadata }) = Keyed::deserialize(deserializer)?;
        Ok(Self { metadata })
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MetadataView<'a> {
    #[serde(borrow)]
    pub name: Text<'a>,
    #[serde(borrow)]
    pub namespace: Text<'a>,
    #[serde(borrow)]
    pub uid: Text<'a>,
    #[serde(borrow)]
    pub resource_version: Text<'a>,
    pub owner_references: Owners,
    pub finalizers: FinalizersView,
    pub deletion_timestamp: Option<IgnoredAny>,
    pub deletion_grace_period_seconds: Option<i64>,
}

impl<'a> ObjectView<'a> {
    /// Reads an object from JSON.
    ///
    /// # Errors
    ///
    /// It is not JSON, or its metadata does not have the expected shape.
    pub fn read(json: &'a [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// The resource version. A bookmark has nothing else.
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
        deletion_timestamp.is_some() && (finalizers.any || *deletion_grace_period_seconds != Some(0))
    }
}

/// Converts views to facts. Successive objects of one namespace share its name.
#[derive(Debug, Default)]
pub struct FactsReader {
    namespace: Option<Namespace>,
}

impl FactsReader {
    /// The facts of an object; `None` if it has no uid.
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
            held_by_others: metadata.finalizers.others,
        })
    }

    fn namespace(&mut self, text: &str) -> Option<Namespace> {
        if self.namespace.as_ref().is_none_or(|last| last.as_str() != text) {
            self.namespace = Namespace::parse(text);
        }
        self.namespace.clone()
    }
}

/// `metadata.ownerReferences`, without references that have no uid.
#[derive(Debug, Default)]
pub(super) struct Owners(Vec<OwnerReference>);

impl Owners {
    /// Adds a reference, unless it has no uid.
    pub fn add(&mut self, view: &ReferenceView<'_>) {
        if let Some(owner) = view.read() {
            // Most objects have one owner: allocate for one, not for four.
            if self.0.is_empty() {
                self.0.reserve_exact(1);
            }
            self.0.push(owner);
        }
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(super) struct ReferenceView<'a> {
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
                let mut owners = Owners::default();
                while let Some(Keyed(view)) = list.next_element::<Keyed<ReferenceView<'_>>>()? {
                    owners.add(&view);
                }
                Ok(owners)
            }
        }

        deserializer.deserialize_any(OwnersVisitor)
    }
}

/// What matters of `metadata.finalizers`.
#[derive(Debug, Default)]
pub(super) struct FinalizersView {
    own: Finalizers,
    /// Any but those.
    others: bool,
    any: bool,
}

impl FinalizersView {
    /// Notes a finalizer.
    pub fn add(&mut self, finalizer: &str) {
        self.any = true;
        match finalizer {
            FOREGROUND_FINALIZER => self.own.foreground = true,
            ORPHAN_FINALIZER => self.own.orphan = true,
            _ => self.others = true,
        }
    }
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
                    view.add(&finalizer);
                }
                Ok(view)
            }
        }

        deserializer.deserialize_any(FinalizersVisitor)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::naive::facts as naive_facts;

    fn text() -> impl Strategy<Value = Value> {
        prop_oneof![
            4 => "[a-z0-9.-]{1,12}".prop_map(Value::from),
            2 => any::<String>().prop_map(Value::from),
            1 => Just(json!("")),
            1 => Just(Value::Null),
        ]
    }

    fn anything() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn flag() -> impl Strategy<Value = Value> {
        prop_oneof![any::<bool>().prop_map(Value::from), Just(Value::Null)]
    }

    /// A field that may be absent.
    fn field(
        name: &'static str,
        value: impl Strategy<Value = Value> + 'static,
    ) -> BoxedStrategy<Option<(String, Value)>> {
        prop::option::weighted(0.8, value.prop_map(move |value| (name.to_owned(), value))).boxed()
    }

    fn object_of(fields: Vec<BoxedStrategy<Option<(String, Value)>>>) -> impl Strategy<Value = Value> {
        fields.prop_map(|fields| Value::Object(fields.into_iter().flatten().collect()))
    }

    /// Objects of every shape.
    pub fn object() -> impl Strategy<Value = Value> {
        let owner = object_of(vec![
            field("apiVersion", text()),
            field("kind", text()),
            field("name", text()),
            field("uid", text()),
            field("controller", flag()),
            field("blockOwnerDeletion", flag()),
            field("unknown", anything()),
        ]);
        let finalizer = prop_oneof![
            Just(json!("orphan")),
            Just(json!("foregroundDeletion")),
            "[a-z/]{1,9}".prop_map(Value::from)
        ];
        let list = |entry: BoxedStrategy<Value>| prop_oneof![4 => prop::collection::vec(entry, 0..4).prop_map(Value::from), 1 => Just(Value::Null)];
        let metadata = object_of(vec![
            field("name", text()),
            field("namespace", text()),
            field("uid", text()),
            field("resourceVersion", text()),
            field("ownerReferences", list(owner.boxed())),
            field("finalizers", list(finalizer.boxed())),
            field("deletionTimestamp", prop_oneof![Just(Value::Null), Just(json!("2026-01-01T00:00:00Z"))]),
            field("labels", anything()),
            field("annotations", anything()),
            field("managedFields", anything()),
        ]);
        object_of(vec![
            field("metadata", metadata),
            field("spec", anything()),
            field("status", anything()),
            field("message", anything()),
            field("code", anything()),
        ])
    }

    proptest! {
        #[test]
        fn lean_reading_agrees_with_naive_reading(object in object(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) };
            let text = text.unwrap();
            let view: ObjectView<'_> = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(FactsReader::default().facts(view), naive_facts(&object).unwrap());
        }

        #[test]
        fn no_input_makes_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = serde_json::from_slice::<ObjectView<'_>>(&bytes);
        }
    }

    #[test]
    fn arrays_are_not_read_by_position() {
        for json in [
            r#"[{"uid":"u"}]"#,
            r#"{"metadata":["name","namespace","u","7"]}"#,
            r#"{"metadata":{"uid":"u","ownerReferences":[["v1","ConfigMap","a","v"]]}}"#,
        ] {
            assert!(serde_json::from_str::<ObjectView<'_>>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_deleted_object_is_held_by_finalizers_or_grace_or_its_spec() {
        let held = |metadata: &str| {
            serde_json::from_str::<ObjectView<'_>>(&format!(r#"{{"metadata":{{{metadata}}}}}"#))
                .unwrap()
                .is_held()
        };
        assert!(held(r#""deletionTimestamp":"t","finalizers":["foreign"]"#));
        assert!(held(r#""deletionTimestamp":"t","deletionGracePeriodSeconds":30"#));
        assert!(held(r#""deletionTimestamp":"t""#), "a Namespace");
        assert!(!held(r#""deletionTimestamp":"t","deletionGracePeriodSeconds":0"#));
        assert!(!held(r#""finalizers":["foreign"]"#));
    }

    #[test]
    fn deep_nesting_is_harmless() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        let json = format!(r#"{{"spec":{deep},"metadata":{{"uid":"u","annotations":{deep}}}}}"#);
        assert!(serde_json::from_str::<ObjectView<'_>>(&json).is_ok());
    }

    #[test]
    fn objects_in_a_row_share_their_namespace() {
        let mut reader = FactsReader::default();
        let mut read = |namespace: &str| {
            let json = format!(r#"{{"metadata":{{"uid":"u","namespace":"{namespace}"}}}}"#);
            let view: ObjectView<'_> = serde_json::from_str(&json).unwrap();
            reader.facts(view).unwrap().namespace
        };
        let (a, b, none) = (read("a"), read("a"), read(""));
        let (Some(a), Some(b)) = (a, b) else { panic!("no namespace") };
        assert!(std::ptr::eq(a.as_str(), b.as_str()));
        assert_eq!(none, None);
    }
}
