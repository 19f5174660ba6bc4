//! The acts: what is done to the shop, and what must follow.

use super::shop::{
    API, API_POD, API_SET, CART, HOURS, Item, Owner, PRICES, PRINTING, RECEIPT, ROUTES, SUGGESTIONS, WEB,
    WEB_NEW, WEB_OLD, WEB_POD_1, WEB_POD_2,
};
use super::things::{Kind, Thing};
use kube_gc_core::object::{FOREGROUND_FINALIZER, PropagationPolicy};

/// One act.
#[derive(Clone, Debug)]
pub struct Act {
    /// For machines.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// What it is about.
    pub about: &'static str,
    pub scenes: Vec<Scene>,
}

/// Somebody does something, and something follows.
#[derive(Clone, Debug)]
pub struct Scene {
    pub deed: Deed,
    pub then: Vec<Expectation>,
}

/// What a user of the cluster does.
#[derive(Clone, Debug)]
pub enum Deed {
    Delete(Thing, PropagationPolicy),
    /// Takes a finalizer away, as the controller that it belongs to would.
    Release(Thing, &'static str),
    Create(Item),
}

/// What must be true on the server in the end.
#[derive(Clone, Copy, Debug)]
pub enum Expectation {
    Gone(Thing),
    /// It lives and names so many owners.
    Lives(Thing, usize),
    /// It is being deleted and held by this finalizer alone.
    Held(Thing, &'static str),
    /// The collector has warned of it.
    Warned(Thing),
}

const LEFTOVER: Thing = Thing::new(Kind::ConfigMap, "winter-banner");
const NEVER_THERE: Thing = Thing::new(Kind::Deployment, "winter-sale");
const MISTAKE: Thing = Thing { kind: Kind::ConfigMap, namespace: "back-office", name: "shifts" };

/// All five.
pub fn acts() -> [Act; 5] {
    use Expectation::{Gone, Held, Lives, Warned};
    let invented = Owner {
        thing: NEVER_THERE,
        blocking: false,
        controller: false,
        invented_uid: Some("00000000-0000-4000-8000-00000000dead"),
    };
    [
        Act {
            name: "background",
            title: "background: the owner goes at once, what it owned follows",
            about: "Deployment web owns two ReplicaSets, one of which owns two Pods. ConfigMap prices has \
                    a second owner.",
            scenes: vec![Scene {
                deed: Deed::Delete(WEB, PropagationPolicy::Background),
                then: vec![
                    Gone(WEB),
                    Gone(WEB_NEW),
                    Gone(WEB_OLD),
                    Gone(WEB_POD_1),
                    Gone(WEB_POD_2),
                    Gone(ROUTES),
                    Lives(PRICES, 1),
                ],
            }],
        },
        Act {
            name: "foreground",
            title: "foreground: the owner waits for what blocks it",
            about: "A cart owns a receipt that blocks its deletion, and suggestions that do not. A printer that \
                    is out of paper holds the receipt by a finalizer.",
            scenes: vec![
                Scene {
                    deed: Deed::Delete(CART, PropagationPolicy::Foreground),
                    then: vec![Gone(SUGGESTIONS), Held(RECEIPT, PRINTING), Held(CART, FOREGROUND_FINALIZER)],
                },
                Scene { deed: Deed::Release(RECEIPT, PRINTING), then: vec![Gone(RECEIPT), Gone(CART)] },
            ],
        },
        Act {
            name: "orphan",
            title: "orphan: the owner goes, what it owned lives on",
            about: "Deployment api is to be taken over by somebody else: its ReplicaSet must survive.",
            scenes: vec![Scene {
                deed: Deed::Delete(API, PropagationPolicy::Orphan),
                then: vec![Gone(API), Lives(API_SET, 0), Lives(API_POD, 1), Lives(PRICES, 0)],
            }],
        },
        Act {
            name: "dangling",
            title: "dangling: an owner that nobody has ever seen",
            about: "No watch has shown Deployment winter-sale. That proves nothing, so the API server is asked.",
            scenes: vec![Scene {
                deed: Deed::Create(Item::new(LEFTOVER).with(invented)),
                then: vec![Gone(LEFTOVER)],
            }],
        },
        Act {
            name: "mistake",
            title: "a mistake: an owner in another namespace",
            about: "An owner must live in its dependent's namespace. Kubernetes lets everybody write otherwise, \
                    and the dependent is garbage then; at least its author is told.",
            scenes: vec![Scene {
                deed: Deed::Create(Item::new(MISTAKE).owned_by(HOURS)),
                then: vec![Gone(MISTAKE), Warned(MISTAKE), Lives(HOURS, 0)],
            }],
        },
    ]
}
