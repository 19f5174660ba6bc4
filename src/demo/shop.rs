//! The shop: what there is before the story begins.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::things::{Kind, Thing};

/// The finalizer of a controller that is not ours, and is not here either.
pub const PRINTING: &str = "shop.example.com/printing";

/// One object and what it says of its owners.
#[derive(Clone, Debug)]
pub struct Item {
    pub thing: Thing,
    pub owners: Vec<Owner>,
    pub finalizers: &'static [&'static str],
}

/// An owner reference to be.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    pub thing: Thing,
    pub blocking: bool,
    pub controller: bool,
    /// Of an owner that was never there.
    pub invented_uid: Option<&'static str>,
}

impl Item {
    pub const fn new(thing: Thing) -> Self {
        Self { thing, owners: Vec::new(), finalizers: &[] }
    }

    /// The reference of a controller, which blocks its owner.
    fn controlled_by(self, thing: Thing) -> Self {
        self.with(Owner { thing, blocking: true, controller: true, invented_uid: None })
    }

    /// A reference that blocks nobody.
    pub fn owned_by(self, thing: Thing) -> Self {
        self.with(Owner { thing, blocking: false, controller: false, invented_uid: None })
    }

    fn blocking(self, thing: Thing) -> Self {
        self.with(Owner { thing, blocking: true, controller: false, invented_uid: None })
    }

    pub fn with(mut self, owner: Owner) -> Self {
        self.owners.push(owner);
        self
    }

    /// The JSON to create it with. `None`: an owner has not been created.
    pub fn body(&self, uids: &BTreeMap<Thing, String>) -> Option<Value> {
        let mut references = Vec::new();
        for Owner { thing, blocking, controller, invented_uid } in &self.owners {
            let uid = invented_uid.or_else(|| uids.get(thing).map(String::as_str))?;
            let mut reference = json!({
                "apiVersion": thing.kind.api_version(), "kind": thing.kind.name(), "name": thing.name, "uid": uid,
            });
            if *blocking {
                reference["blockOwnerDeletion"] = json!(true);
            }
            if *controller {
                reference["controller"] = json!(true);
            }
            references.push(reference);
        }
        let Thing { kind, namespace, name } = self.thing;
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

pub const WEB: Thing = Thing::new(Kind::Deployment, "web");
pub const API: Thing = Thing::new(Kind::Deployment, "api");
pub const WEB_NEW: Thing = Thing::new(Kind::ReplicaSet, "web-6f7d8c");
pub const WEB_OLD: Thing = Thing::new(Kind::ReplicaSet, "web-5b4c9a");
pub const WEB_POD_1: Thing = Thing::new(Kind::Pod, "web-6f7d8c-h2kxv");
pub const WEB_POD_2: Thing = Thing::new(Kind::Pod, "web-6f7d8c-q9zpt");
pub const ROUTES: Thing = Thing::new(Kind::ConfigMap, "web-routes");
pub const API_SET: Thing = Thing::new(Kind::ReplicaSet, "api-7c9d5f");
pub const API_POD: Thing = Thing::new(Kind::Pod, "api-7c9d5f-x2kqm");
pub const PRICES: Thing = Thing::new(Kind::ConfigMap, "prices");
pub const HOURS: Thing = Thing::new(Kind::ConfigMap, "opening-hours");
pub const CART: Thing = Thing::new(Kind::Cart, "alice");
pub const RECEIPT: Thing = Thing::new(Kind::ConfigMap, "alice-receipt");
pub const SUGGESTIONS: Thing = Thing::new(Kind::ConfigMap, "alice-suggestions");
pub const BACK_OFFICE: Thing = Thing { kind: Kind::Namespace, namespace: "", name: "back-office" };

/// What stands before the shop: its namespaces, and what a cart is.
pub fn ground() -> [Item; 3] {
    let cluster = |kind, name| Item::new(Thing { kind, namespace: "", name });
    [
        cluster(Kind::Namespace, super::things::SHOP),
        Item::new(BACK_OFFICE),
        cluster(Kind::Definition, "carts.shop.example.com"),
    ]
}

/// The shop, owners first.
pub fn shop() -> Vec<Item> {
    let receipt = Item { finalizers: &[PRINTING], ..Item::new(RECEIPT) };
    vec![
        Item::new(WEB),
        Item::new(API),
        Item::new(WEB_NEW).controlled_by(WEB),
        Item::new(WEB_OLD).controlled_by(WEB),
        Item::new(WEB_POD_1).controlled_by(WEB_NEW),
        Item::new(WEB_POD_2).controlled_by(WEB_NEW),
        Item::new(ROUTES).owned_by(WEB),
        Item::new(API_SET).controlled_by(API),
        Item::new(API_POD).controlled_by(API_SET),
        Item::new(PRICES).owned_by(WEB).owned_by(API),
        Item::new(CART),
        receipt.blocking(CART),
        Item::new(SUGGESTIONS).owned_by(CART),
        Item::new(HOURS),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_come_first_and_names_are_unique() {
        let mut uids = BTreeMap::new();
        for item in ground().into_iter().chain(shop()) {
            let body = item.body(&uids).unwrap_or_else(|| panic!("{} comes before its owner", item.thing));
            assert_eq!(body["metadata"]["ownerReferences"].as_array().unwrap().len(), item.owners.len());
            assert!(
                uids.insert(item.thing, item.thing.to_string()).is_none(),
                "{} is there twice",
                item.thing
            );
        }
    }
}
