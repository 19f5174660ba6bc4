//! The shop: its objects, what happens to them, and the expected result.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use kube_gc_core::object::{GroupResource, PropagationPolicy};

/// A kind of objects in the shop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    pub name: &'static str,
    api_version: &'static str,
    plural: &'static str,
}

const fn kind(name: &'static str, api_version: &'static str, plural: &'static str) -> Kind {
    Kind { name, api_version, plural }
}

const NAMESPACE: Kind = kind("Namespace", "v1", "namespaces");
const DEFINITION: Kind =
    kind("CustomResourceDefinition", "apiextensions.k8s.io/v1", "customresourcedefinitions");
const DEPLOYMENT: Kind = kind("Deployment", "apps/v1", "deployments");
const REPLICA_SET: Kind = kind("ReplicaSet", "apps/v1", "replicasets");
const POD: Kind = kind("Pod", "v1", "pods");
const CONFIG_MAP: Kind = kind("ConfigMap", "v1", "configmaps");
const CART_KIND: Kind = kind("Cart", "shop.example.com/v1", "carts");

/// The namespace of the shop.
const SHOP: &str = "shop";

/// A reference to an object by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    pub kind: Kind,
    /// Empty for a cluster-scoped object.
    pub namespace: &'static str,
    pub name: &'static str,
}

const fn in_shop(kind: Kind, name: &'static str) -> ObjectRef {
    ObjectRef { kind, namespace: SHOP, name }
}

impl ObjectRef {
    pub fn group_resource(self) -> GroupResource {
        let group = self.kind.api_version.split_once('/').map_or("", |(group, _)| group);
        GroupResource::new(group, self.kind.plural)
    }

    /// The path of the collection.
    pub fn collection(self) -> String {
        let Kind { api_version, plural, .. } = self.kind;
        let root = if api_version.contains('/') { "/apis" } else { "/api" };
        match self.namespace {
            "" => format!("{root}/{api_version}/{plural}"),
            namespace => format!("{root}/{api_version}/namespaces/{namespace}/{plural}"),
        }
    }

    pub fn path(self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&display_name(self.kind.name, self.namespace, self.name))
    }
}

/// Names an object for people. The namespace is omitted for the shop.
pub fn display_name(kind: &str, namespace: &str, name: &str) -> String {
    match namespace {
        "" | SHOP => format!("{kind} {name}"),
        elsewhere => format!("{kind} {elsewhere}/{name}"),
    }
}

/// How an object refers to an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// As to its controller, which blocks the deletion of the owner.
    Controller,
    /// The object blocks the deletion of the owner.
    Blocking,
    /// The object does not block the deletion of the owner.
    Plain,
}

/// The uid in references to an owner that has never existed.
const INVENTED_UID: &str = "00000000-0000-4000-8000-00000000dead";

/// An object to create, with its owners.
#[derive(Clone, Copy, Debug)]
pub struct Fixture {
    pub object: ObjectRef,
    pub owners: &'static [(ObjectRef, Link)],
    pub finalizers: &'static [&'static str],
}

const fn fixture(object: ObjectRef, owners: &'static [(ObjectRef, Link)]) -> Fixture {
    Fixture { object, owners, finalizers: &[] }
}

impl Fixture {
    /// The JSON of the object. Uids are found by the names of objects for people.
    pub fn body(&self, uids: &BTreeMap<String, String>) -> Value {
        let references = self.owners.iter().map(|(owner, link)| {
            let uid = uids.get(&owner.to_string()).map_or(INVENTED_UID, String::as_str);
            let mut reference = json!({
                "apiVersion": owner.kind.api_version, "kind": owner.kind.name, "name": owner.name, "uid": uid,
            });
            if *link != Link::Plain {
                reference["blockOwnerDeletion"] = json!(true);
            }
            if *link == Link::Controller {
                reference["controller"] = json!(true);
            }
            reference
        });
        let references: Vec<Value> = references.collect();
        let ObjectRef { kind, namespace, name } = self.object;
        let mut body = json!({
            "apiVersion": kind.api_version, "kind": kind.name,
            "metadata": {"name": name, "ownerReferences": references, "finalizers": self.finalizers},
        });
        if !namespace.is_empty() {
            body["metadata"]["namespace"] = json!(namespace);
        }
        let pod = json!({"containers": [{"name": "shop", "image": "example.com/shop:1"}]});
        match kind {
            CONFIG_MAP => body["data"] = json!({"of": "the demo"}),
            CART_KIND => body["spec"] = json!({"customer": name}),
            POD => body["spec"] = pod,
            DEPLOYMENT | REPLICA_SET => {
                body["spec"] = json!({
                    "replicas": 1,
                    "selector": {"matchLabels": {"app": name}},
                    "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
                });
            }
            DEFINITION => {
                let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
                body["spec"] = json!({
                    "group": "shop.example.com",
                    "scope": "Namespaced",
                    "names": {"plural": "carts", "singular": "cart", "kind": "Cart", "listKind": "CartList"},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
                });
            }
            _ => {}
        }
        body
    }
}

const WEB: ObjectRef = in_shop(DEPLOYMENT, "web");
const API: ObjectRef = in_shop(DEPLOYMENT, "api");
const WEB_NEW: ObjectRef = in_shop(REPLICA_SET, "web-6f7d8c");
const WEB_OLD: ObjectRef = in_shop(REPLICA_SET, "web-5b4c9a");
const WEB_POD_1: ObjectRef = in_shop(POD, "web-6f7d8c-h2kxv");
const WEB_POD_2: ObjectRef = in_shop(POD, "web-6f7d8c-q9zpt");
const ROUTES: ObjectRef = in_shop(CONFIG_MAP, "web-routes");
const API_SET: ObjectRef = in_shop(REPLICA_SET, "api-7c9d5f");
const API_POD: ObjectRef = in_shop(POD, "api-7c9d5f-x2kqm");
const PRICES: ObjectRef = in_shop(CONFIG_MAP, "prices");
const HOURS: ObjectRef = in_shop(CONFIG_MAP, "opening-hours");
const CART: ObjectRef = in_shop(CART_KIND, "alice");
const RECEIPT: ObjectRef = in_shop(CONFIG_MAP, "alice-receipt");
const SUGGESTIONS: ObjectRef = in_shop(CONFIG_MAP, "alice-suggestions");
const LEFTOVER: ObjectRef = in_shop(CONFIG_MAP, "winter-banner");
const NEVER_THERE: ObjectRef = in_shop(DEPLOYMENT, "winter-sale");
const MISTAKE: ObjectRef = ObjectRef { kind: CONFIG_MAP, namespace: "back-office", name: "shifts" };
/// The finalizer of a controller that the demo does not run.
const PRINTING: &str = "shop.example.com/printing";

const fn cluster_scoped(kind: Kind, name: &'static str) -> Fixture {
    fixture(ObjectRef { kind, namespace: "", name }, &[])
}

/// The namespaces and the custom resource that the shop needs.
pub const PREREQUISITES: [Fixture; 3] = [
    cluster_scoped(NAMESPACE, SHOP),
    cluster_scoped(NAMESPACE, "back-office"),
    cluster_scoped(DEFINITION, "carts.shop.example.com"),
];

/// The objects of the shop, owners first.
pub const OBJECTS: [Fixture; 14] = [
    fixture(WEB, &[]),
    fixture(API, &[]),
    fixture(WEB_NEW, &[(WEB, Link::Controller)]),
    fixture(WEB_OLD, &[(WEB, Link::Controller)]),
    fixture(WEB_POD_1, &[(WEB_NEW, Link::Controller)]),
    fixture(WEB_POD_2, &[(WEB_NEW, Link::Controller)]),
    fixture(ROUTES, &[(WEB, Link::Plain)]),
    fixture(API_SET, &[(API, Link::Controller)]),
    fixture(API_POD, &[(API_SET, Link::Controller)]),
    fixture(PRICES, &[(WEB, Link::Plain), (API, Link::Plain)]),
    fixture(CART, &[]),
    Fixture { finalizers: &[PRINTING], ..fixture(RECEIPT, &[(CART, Link::Blocking)]) },
    fixture(SUGGESTIONS, &[(CART, Link::Plain)]),
    fixture(HOURS, &[]),
];

/// One scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The identifier in JSON.
    pub name: &'static str,
    /// The heading.
    pub title: &'static str,
    /// The situation, in a sentence or two.
    pub about: &'static str,
    /// What a user does, and what must be true of which object on the server after that.
    pub phases: &'static [(Operation, &'static [(ObjectRef, &'static str)])],
}

/// What a user does.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Delete(ObjectRef, PropagationPolicy),
    /// Removes a finalizer, as its controller would.
    RemoveFinalizer(ObjectRef, &'static str),
    Create(Fixture),
}

/// The object does not exist.
pub const GONE: &str = "is gone";
/// The collector has written a warning event about the object.
pub const WARNED: &str = "warned";
const UNOWNED: &str = "exists and has no owner";
const OWNED: &str = "exists and has one owner";

/// All scenarios.
pub const SCENARIOS: [Scenario; 5] = [
    Scenario {
        name: "background",
        title: "background: the owner is deleted first, its dependents follow",
        about: "Deployment web owns two ReplicaSets, one of which owns two Pods. ConfigMap prices has \
                a second owner.",
        phases: &[(
            Operation::Delete(WEB, PropagationPolicy::Background),
            &[
                (WEB, GONE),
                (WEB_NEW, GONE),
                (WEB_OLD, GONE),
                (WEB_POD_1, GONE),
                (WEB_POD_2, GONE),
                (ROUTES, GONE),
                (PRICES, OWNED),
            ],
        )],
    },
    Scenario {
        name: "foreground",
        title: "foreground: the owner waits for the dependents that block it",
        about: "Cart alice owns a receipt and suggestions. Only the receipt blocks the deletion of the cart, \
                and a printer that is out of paper keeps its finalizer on the receipt.",
        phases: &[
            (
                Operation::Delete(CART, PropagationPolicy::Foreground),
                &[
                    (SUGGESTIONS, GONE),
                    (RECEIPT, "is being deleted and waits for the finalizer shop.example.com/printing"),
                    (CART, "is being deleted and waits for the finalizer foregroundDeletion"),
                ],
            ),
            (Operation::RemoveFinalizer(RECEIPT, PRINTING), &[(RECEIPT, GONE), (CART, GONE)]),
        ],
    },
    Scenario {
        name: "orphan",
        title: "orphan: the owner is deleted, its dependents stay",
        about: "Another controller will take over from Deployment api, so its ReplicaSet must stay.",
        phases: &[(
            Operation::Delete(API, PropagationPolicy::Orphan),
            &[(API, GONE), (API_SET, UNOWNED), (API_POD, OWNED), (PRICES, UNOWNED)],
        )],
    },
    Scenario {
        name: "dangling",
        title: "dangling: an owner that no watch has shown",
        about: "No watch has shown Deployment winter-sale. That does not prove its absence, so the collector \
                asks the API server.",
        phases: &[(Operation::Create(fixture(LEFTOVER, &[(NEVER_THERE, Link::Plain)])), &[(LEFTOVER, GONE)])],
    },
    Scenario {
        name: "mistake",
        title: "a mistake: an owner in another namespace",
        about: "An owner must be in the namespace of its dependent. The API server accepts other references, \
                but the dependent is garbage. A warning event explains why it is deleted.",
        phases: &[(
            Operation::Create(fixture(MISTAKE, &[(HOURS, Link::Plain)])),
            &[(MISTAKE, GONE), (MISTAKE, WARNED), (HOURS, UNOWNED)],
        )],
    },
];
