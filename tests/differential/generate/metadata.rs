//! Valid and invalid metadata.

use serde_json::{Value, json};

use super::{Generator, NO_UID};
use crate::types::{NAMESPACES, Type};

/// Finalizers that any client may set.
pub const FINALIZERS: &[&str] = &["a.b/c", "a.b/d", "x.y/z"];

impl Generator {
    /// A reference to an existing object, or to nothing.
    pub(super) fn owner(&mut self) -> Value {
        let known: Vec<usize> = (0..self.things.len())
            .filter(|index| {
                !self.things[*index].shown.is_empty() && !std::ptr::eq(self.things[*index].of, &NAMESPACES)
            })
            .collect();
        let mut owner = if known.is_empty() || self.random.percent(15) {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": NO_UID})
        } else {
            let thing = &self.things[*self.random.pick(&known)];
            json!({
                "apiVersion": thing.of.api_version(), "kind": thing.of.kind,
                "name": thing.name, "uid": thing.at("/metadata/uid"),
            })
        };
        if self.random.percent(40) {
            owner["blockOwnerDeletion"] = self.random.percent(70).into();
        }
        if self.random.percent(20) {
            owner["controller"] = self.random.percent(80).into();
        }
        owner
    }

    /// References. Some are duplicates, and some share only the uid.
    pub(super) fn owners(&mut self) -> Value {
        let mut owners: Vec<Value> = (0..1 + self.random.below(3)).map(|_| self.owner()).collect();
        if self.random.percent(25) {
            let twice = self.random.pick(&owners).clone();
            owners.push(twice);
        }
        if self.random.percent(15) {
            let mut twin = self.random.pick(&owners).clone();
            twin["name"] = "twin".into();
            owners.push(twin);
        }
        owners.into()
    }

    /// Finalizers.
    pub(super) fn finalizers(&mut self) -> Value {
        let mut finalizers: Vec<Value> =
            (0..1 + self.random.below(2)).map(|_| (*self.random.pick(FINALIZERS)).into()).collect();
        if self.random.percent(12) {
            finalizers.push((*self.random.pick(&["orphan", "foregroundDeletion"])).into());
        }
        finalizers.into()
    }

    /// Labels for selectors. `run` distinguishes the objects of this run from those of others.
    pub(super) fn labels(&mut self) -> Value {
        let mut labels = json!({"run": "<run>"});
        if self.random.percent(60) {
            labels["s"] = (*self.random.pick(&["1", "2"])).into();
        }
        if self.random.percent(20) {
            labels["x"] = "".into();
        }
        labels
    }

    /// The metadata of a new object.
    pub(super) fn metadata(&mut self, name: &str) -> Value {
        let mut metadata = json!({"name": name, "labels": self.labels()});
        if self.random.percent(45) {
            metadata["ownerReferences"] = self.owners();
        }
        if self.random.percent(35) {
            metadata["finalizers"] = self.finalizers();
        }
        if self.random.percent(10) {
            metadata["annotations"] = json!({"note": "x"});
        }
        if self.random.percent(10) {
            // The server sets these fields itself, so it overwrites or drops them.
            metadata["creationTimestamp"] = "2020-01-01T00:00:00Z".into();
            metadata["deletionTimestamp"] = "2020-01-01T00:00:00Z".into();
            metadata["deletionGracePeriodSeconds"] = 7.into();
            metadata["uid"] = NO_UID.into();
            metadata["resourceVersion"] = "0".into();
        }
        metadata
    }

    /// Makes metadata invalid for every server.
    pub(super) fn spoil(&mut self, metadata: &mut Value) {
        let reference = |field: &str| {
            let mut owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "n", "uid": NO_UID});
            owner[field] = "".into();
            json!([owner])
        };
        let spoilt: &[(&str, Value)] = &[
            ("labels", json!({"a b": "c"})),
            ("labels", json!({"a": "b c"})),
            ("labels", json!({"a": 1})),
            ("annotations", json!({"a b": "c"})),
            ("finalizers", json!(["not qualified"])),
            ("finalizers", json!(["nodomain"])),
            ("finalizers", json!(["orphan", "foregroundDeletion"])),
            ("finalizers", json!("text")),
            ("ownerReferences", reference("apiVersion")),
            ("ownerReferences", reference("kind")),
            ("ownerReferences", reference("name")),
            ("ownerReferences", reference("uid")),
            ("ownerReferences", json!([{}])),
            ("ownerReferences", json!([{"apiVersion": "a/b/c", "kind": "K", "name": "n", "uid": NO_UID}])),
            ("ownerReferences", json!([{"apiVersion": "v1", "kind": "Event", "name": "n", "uid": NO_UID}])),
            (
                "ownerReferences",
                json!([
                    {"apiVersion": "v1", "kind": "Pod", "name": "n", "uid": "1", "controller": true},
                    {"apiVersion": "v1", "kind": "Pod", "name": "m", "uid": "2", "controller": true},
                ]),
            ),
        ];
        for _ in 0..1 + self.random.below(2) {
            let (field, value) = self.random.pick(spoilt).clone();
            metadata[field] = value;
        }
    }

    /// A name. There are few, so that they are used again.
    pub(super) fn name(&mut self, of: &Type) -> String {
        let run = if of.namespaced { "" } else { "<run>" };
        format!("{run}{}{}", &of.plural[..2], self.random.below(4))
    }
}
