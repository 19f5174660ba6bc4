//! Who takes part: three names of two types in one namespace, a cluster-scoped one, and the lives of the
//! objects that have had these names.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use kube_gc_core::graph::testing::world;
use kube_gc_core::object::{
    Identity, Key, Namespace, ObjectFacts, OwnerReference, ResourceType, ResourceVersion, Uid,
};

use super::server::{Object, Ref};
use super::sketch::Version;

/// A name, and with it a type.
pub type Slot = u8;
pub const SLOTS: usize = 4;
/// A name that no object ever has, of any type.
pub const NOBODY: Slot = 4;
/// How often an object of one name is created at most.
pub const LIVES: u8 = 3;
pub const NAMES: [&str; SLOTS + 1] = ["a", "b", "c", "n", "nobody"];
/// Watches, and what they show.
pub const TYPES: usize = 3;
pub const KINDS: [&str; TYPES] = ["ConfigMap", "Pod", "Node"];

/// One object from its creation to its end. Another object of the same name has another number, and thus
/// another uid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life {
    pub slot: Slot,
    pub number: u8,
}

impl Life {
    pub const fn kind(self) -> usize {
        kind_of(self.slot)
    }
}

pub const fn kind_of(slot: Slot) -> usize {
    match slot {
        0 => 0,
        3 => 2,
        _ => 1,
    }
}

/// The number of the partition that has it.
pub const fn home(life: Life) -> usize {
    if life.kind() == 2 { 0 } else { 1 }
}

fn namespace(life: Life) -> Option<Namespace> {
    cast().namespace.clone().filter(|_| home(life) > 0)
}

pub fn slot(name: &str) -> Option<Slot> {
    NAMES.iter().position(|it| *it == name).map(|place| place as Slot)
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slot, number } = *self;
        write!(
            f,
            "{} {} (uid {}{})",
            KINDS[self.kind()],
            NAMES[usize::from(slot)],
            NAMES[usize::from(slot)],
            number + 1
        )
    }
}

/// What a reference names: a uid and a kind, and the name that it gives with them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    pub life: Life,
    pub name: Slot,
}

impl From<Life> for Owner {
    fn from(life: Life) -> Self {
        Self { life, name: life.slot }
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { life, name } = *self;
        if name == life.slot {
            life.fmt(f)
        } else {
            write!(f, "{life:?} by the name {}", NAMES[usize::from(name)])
        }
    }
}

struct Cast {
    types: [Arc<ResourceType>; TYPES],
    namespace: Option<Namespace>,
    uids: Vec<Uid>,
    lives: HashMap<Uid, Life>,
    names: [Arc<str>; SLOTS + 1],
    kinds: [Arc<str>; TYPES],
    api_version: Arc<str>,
}

fn cast() -> &'static Cast {
    static CAST: OnceLock<Cast> = OnceLock::new();
    CAST.get_or_init(|| {
        let lives = (0..SLOTS as u8).flat_map(|slot| (0..16).map(move |number| Life { slot, number }));
        let uid = |life: &Life| {
            Uid::parse(&format!("{:08x}-0000-4000-8000-{:012x}", life.slot + 1, life.number)).expect("a uid")
        };
        Cast {
            types: ["configmaps", "pods", "nodes"].map(world::resource),
            namespace: Namespace::parse("ns"),
            uids: lives.clone().map(|life| uid(&life)).collect(),
            lives: lives.map(|life| (uid(&life), life)).collect(),
            names: NAMES.map(Arc::from),
            kinds: KINDS.map(Arc::from),
            api_version: "v1".into(),
        }
    })
}

pub fn resource(kind: usize) -> &'static Arc<ResourceType> {
    &cast().types[kind]
}

fn uid(life: Life) -> Uid {
    cast().uids[usize::from(life.slot) * 16 + usize::from(life.number)].clone()
}

pub fn life(uid: &Uid) -> Life {
    cast().lives[uid]
}

pub fn key(life: Life) -> Key {
    Key { uid: uid(life), resource: Arc::clone(resource(life.kind())), namespace: namespace(life) }
}

pub fn identity(Owner { life, name }: Owner) -> Identity {
    Identity {
        resource: Arc::clone(resource(life.kind())),
        namespace: namespace(life),
        name: NAMES[usize::from(name)].into(),
        uid: uid(life),
    }
}

pub fn owner(identity: &Identity) -> Owner {
    Owner { life: life(&identity.uid), name: slot(&identity.name).unwrap_or(NOBODY) }
}

/// What a reference of the collector names.
pub fn named(reference: &OwnerReference) -> Owner {
    Owner { life: life(&reference.uid), name: slot(&reference.name).unwrap_or(NOBODY) }
}

pub const fn version(Version(number): Version) -> ResourceVersion {
    ResourceVersion::number(number)
}

/// An object as the collector reads it.
pub fn facts(object: &Object) -> ObjectFacts {
    let reference = |Ref { owner, blocking, .. }: &Ref| OwnerReference {
        api_version: Arc::clone(&cast().api_version),
        kind: Arc::clone(&cast().kinds[owner.life.kind()]),
        name: Arc::clone(&cast().names[usize::from(owner.name)]),
        uid: uid(owner.life),
        controller: false,
        block_owner_deletion: *blocking,
    };
    ObjectFacts {
        uid: uid(object.life),
        namespace: namespace(object.life),
        name: NAMES[usize::from(object.life.slot)].into(),
        resource_version: Some(version(object.version)),
        owners: object.refs.iter().map(reference).collect(),
        being_deleted: object.deleting,
        finalizers: object.finalizers,
        held_by_others: object.held,
        grace: None,
        ends: None,
    }
}
