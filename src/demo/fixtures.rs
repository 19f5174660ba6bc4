//! The objects of the shop that exist before the scenarios start.

mod object_ref;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub use object_ref::{Kind, ObjectRef, SHOP, display_name};

/// The finalizer of a controller that the demo does not run.
pub const PRINTING: &str = "shop.example.com/printing";

/// An object to create, with its owners.
#[derive(Clone, Debug)]
pub struct Fixture {
    pub object: ObjectRef,
    pub owners: Vec<Owner>,
    pub finalizers: &'static [&'static str],
}

/// An owner reference to create.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    pub object: ObjectRef,
    pub blocking: bool,
    pub controller: bool,
    /// The uid of an owner that never existed.
    pub invented_uid: Option<&'static str>,
}

impl Fixture {
    pub const fn new(object: ObjectRef) -> Self {
        Self { object, owners: Vec::new(), finalizers: &[] }
    }

    /// Adds the reference of a controller, which blocks the deletion of the owner.
    fn controlled_by(self, object: ObjectRef) -> Self {
        self.with(Owner { object, blocking: true, controller: true, invented_uid: None })
    }

    /// Adds a reference that does not block the deletion of the owner.
    pub fn owned_by(self, object: ObjectRef) -> Self {
        self.with(Owner { object, blocking: false, controller: false, invented_uid: None })
    }

    fn blocking(self, object: ObjectRef) -> Self {
        self.with(Owner { object, blocking: true, controller: false, invented_uid: None })
    }

    pub fn with(mut self, owner: Owner) -> Self {
        self.owners.push(owner);
        self
    }

    /// The JSON of the object; `None` if an owner has not been created yet.
    pub fn body(&self, uids: &BTreeMap<ObjectRef, String>) -> Option<Value> {
        let mut references = Vec::new();
        for Owner { object, blocking, controller, invented_uid } in &self.owners {
            let uid = invented_uid.or_else(|| uids.get(object).map(String::as_str))?;
            let mut reference = json!({
                "apiVersion": object.kind.api_version(), "kind": object.kind.name(), "name": object.name, "uid": uid,
            });
            if *blocking {
                reference["blockOwnerDeletion"] = json!(true);
            }
            if *controller {
                reference["controller"] = json!(true);
            }
            references.push(reference);
        }
        let ObjectRef { kind, namespace, name } = self.object;
        let mut body = json!({
            "apiVersion": kind.api_version(), "kind": kind.name(),
            "metadata": {"name": name, "ownerReferences": references, "finalizers": self.finalizers},
        });
        match kind {
            Kind::Namespace => {}
            Kind::Definition => body["spec"] = definition(),
            Kind::ConfigMap => body["data"] = json!({"of": "the demo"}),
            Kind::Pod => body["spec"] = pod(),
            Kind::Deployment | Kind::ReplicaSet => {
                body["spec"] = json!({
                    "replicas": 1,
                    "selector": {"matchLabels": {"app": name}},
                    "template": {"metadata": {"labels": {"app": name}}, "spec": pod()},
                });
            }
            Kind::Cart => body["spec"] = json!({"customer": name}),
        }
        if !matches!(kind, Kind::Namespace | Kind::Definition) {
            body["metadata"]["namespace"] = json!(namespace);
        }
        Some(body)
    }
}

fn pod() -> Value {
    json!({"containers": [{"name": "shop", "image": "example.com/shop:1"}]})
}

fn definition() -> Value {
    json!({
        "group": "shop.example.com",
        "scope": "Namespaced",
        "names": {"plural": "carts", "singular": "cart", "kind": "Cart", "listKind": "CartList"},
        "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        }],
    })
}

pub const WEB: ObjectRef = ObjectRef::new(Kind::Deployment, "web");
pub const API: ObjectRef = ObjectRef::new(Kind::Deployment, "api");
pub const WEB_NEW: ObjectRef = ObjectRef::new(Kind::ReplicaSet, "web-6f7d8c");
pub const WEB_OLD: ObjectRef = ObjectRef::new(Kind::ReplicaSet, "web-5b4c9a");
pub const WEB_POD_1: ObjectRef = ObjectRef::new(Kind::Pod, "web-6f7d8c-h2kxv");
pub const WEB_POD_2: ObjectRef = ObjectRef::new(Kind::Pod, "web-6f7d8c-q9zpt");
pub const ROUTES: ObjectRef = ObjectRef::new(Kind::ConfigMap, "web-routes");
pub const API_SET: ObjectRef = ObjectRef::new(Kind::ReplicaSet, "api-7c9d5f");
pub const API_POD: ObjectRef = ObjectRef::new(Kind::Pod, "api-7c9d5f-x2kqm");
pub const PRICES: ObjectRef = ObjectRef::new(Kind::ConfigMap, "prices");
pub const HOURS: ObjectRef = ObjectRef::new(Kind::ConfigMap, "opening-hours");
pub const CART: ObjectRef = ObjectRef::new(Kind::Cart, "alice");
pub const RECEIPT: ObjectRef = ObjectRef::new(Kind::ConfigMap, "alice-receipt");
pub const SUGGESTIONS: ObjectRef = ObjectRef::new(Kind::ConfigMap, "alice-suggestions");
pub const BACK_OFFICE: ObjectRef = ObjectRef { kind: Kind::Namespace, namespace: "", name: "back-office" };

/// The namespaces and the custom resource that the shop needs.
pub fn prerequisites() -> [Fixture; 3] {
    let cluster = |kind, name| Fixture::new(ObjectRef { kind, namespace: "", name });
    [
        cluster(Kind::Namespace, SHOP),
        Fixture::new(BACK_OFFICE),
        cluster(Kind::Definition, "carts.shop.example.com"),
    ]
}

/// The objects of the shop, owners first.
pub fn shop() -> Vec<Fixture> {
    let receipt = Fixture { finalizers: &[PRINTING], ..Fixture::new(RECEIPT) };
    vec![
        Fixture::new(WEB),
        Fixture::new(API),
        Fixture::new(WEB_NEW).controlled_by(WEB),
        Fixture::new(WEB_OLD).controlled_by(WEB),
        Fixture::new(WEB_POD_1).controlled_by(WEB_NEW),
        Fixture::new(WEB_POD_2).controlled_by(WEB_NEW),
        Fixture::new(ROUTES).owned_by(WEB),
        Fixture::new(API_SET).controlled_by(API),
        Fixture::new(API_POD).controlled_by(API_SET),
        Fixture::new(PRICES).owned_by(WEB).owned_by(API),
        Fixture::new(CART),
        receipt.blocking(CART),
        Fixture::new(SUGGESTIONS).owned_by(CART),
        Fixture::new(HOURS),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_come_first_and_names_are_unique() {
        let mut uids = BTreeMap::new();
        for fixture in prerequisites().into_iter().chain(shop()) {
            let body =
                fixture.body(&uids).unwrap_or_else(|| panic!("{} comes before its owner", fixture.object));
            assert_eq!(body["metadata"]["ownerReferences"].as_array().unwrap().len(), fixture.owners.len());
            assert!(
                uids.insert(fixture.object, fixture.object.to_string()).is_none(),
                "{} is there twice",
                fixture.object
            );
        }
    }
}
