//! The scenarios: what happens to the shop, and the expected result.

use super::fixtures::{
    API, API_POD, API_SET, CART, Fixture, HOURS, Kind, ObjectRef, Owner, PRICES, PRINTING, RECEIPT, ROUTES,
    SUGGESTIONS, WEB, WEB_NEW, WEB_OLD, WEB_POD_1, WEB_POD_2,
};
use kube_gc_core::object::{FOREGROUND_FINALIZER, PropagationPolicy};

/// One scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The identifier in JSON.
    pub name: &'static str,
    /// The heading.
    pub title: &'static str,
    /// The situation, in a sentence or two.
    pub about: &'static str,
    pub phases: Vec<Phase>,
}

/// An operation of a user, and the expected result.
#[derive(Clone, Debug)]
pub struct Phase {
    pub operation: Operation,
    pub expected: Vec<Expectation>,
}

/// What a user does.
#[derive(Clone, Debug)]
pub enum Operation {
    Delete(ObjectRef, PropagationPolicy),
    /// Removes a finalizer, as its controller would.
    RemoveFinalizer(ObjectRef, &'static str),
    Create(Fixture),
}

/// What must be true on the server.
#[derive(Clone, Copy, Debug)]
pub enum Expectation {
    /// The object does not exist.
    Absent(ObjectRef),
    /// The object exists and has this number of owner references.
    Exists(ObjectRef, usize),
    /// The object is being deleted, and this is its only finalizer.
    Terminating(ObjectRef, &'static str),
    /// The collector has written a warning event about the object.
    Warned(ObjectRef),
}

const LEFTOVER: ObjectRef = ObjectRef::new(Kind::ConfigMap, "winter-banner");
const NEVER_THERE: ObjectRef = ObjectRef::new(Kind::Deployment, "winter-sale");
const MISTAKE: ObjectRef = ObjectRef { kind: Kind::ConfigMap, namespace: "back-office", name: "shifts" };

/// All scenarios.
pub fn scenarios() -> [Scenario; 5] {
    use Expectation::{Absent, Exists, Terminating, Warned};
    let invented = Owner {
        object: NEVER_THERE,
        blocking: false,
        controller: false,
        invented_uid: Some("00000000-0000-4000-8000-00000000dead"),
    };
    [
        Scenario {
            name: "background",
            title: "background: the owner is deleted first, its dependents follow",
            about: "Deployment web owns two ReplicaSets, one of which owns two Pods. ConfigMap prices has \
                    a second owner.",
            phases: vec![Phase {
                operation: Operation::Delete(WEB, PropagationPolicy::Background),
                expected: vec![
                    Absent(WEB),
                    Absent(WEB_NEW),
                    Absent(WEB_OLD),
                    Absent(WEB_POD_1),
                    Absent(WEB_POD_2),
                    Absent(ROUTES),
                    Exists(PRICES, 1),
                ],
            }],
        },
        Scenario {
            name: "foreground",
            title: "foreground: the owner waits for the dependents that block it",
            about: "Cart alice owns a receipt and suggestions. Only the receipt blocks the deletion of the cart, \
                    and a printer that is out of paper keeps its finalizer on the receipt.",
            phases: vec![
                Phase {
                    operation: Operation::Delete(CART, PropagationPolicy::Foreground),
                    expected: vec![
                        Absent(SUGGESTIONS),
                        Terminating(RECEIPT, PRINTING),
                        Terminating(CART, FOREGROUND_FINALIZER),
                    ],
                },
                Phase {
                    operation: Operation::RemoveFinalizer(RECEIPT, PRINTING),
                    expected: vec![Absent(RECEIPT), Absent(CART)],
                },
            ],
        },
        Scenario {
            name: "orphan",
            title: "orphan: the owner is deleted, its dependents stay",
            about: "Another controller will take over from Deployment api, so its ReplicaSet must stay.",
            phases: vec![Phase {
                operation: Operation::Delete(API, PropagationPolicy::Orphan),
                expected: vec![Absent(API), Exists(API_SET, 0), Exists(API_POD, 1), Exists(PRICES, 0)],
            }],
        },
        Scenario {
            name: "dangling",
            title: "dangling: an owner that no watch has shown",
            about: "No watch has shown Deployment winter-sale. That does not prove its absence, so the collector \
                    asks the API server.",
            phases: vec![Phase {
                operation: Operation::Create(Fixture::new(LEFTOVER).with(invented)),
                expected: vec![Absent(LEFTOVER)],
            }],
        },
        Scenario {
            name: "mistake",
            title: "a mistake: an owner in another namespace",
            about: "An owner must be in the namespace of its dependent. The API server accepts other references, \
                    but the dependent is garbage. A warning event explains why it is deleted.",
            phases: vec![Phase {
                operation: Operation::Create(Fixture::new(MISTAKE).owned_by(HOURS)),
                expected: vec![Absent(MISTAKE), Warned(MISTAKE), Exists(HOURS, 0)],
            }],
        },
    ]
}
