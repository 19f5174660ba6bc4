//! A digest of an object's references, of bounded size whatever their number.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::sync::LazyLock;

use kube_gc_core::object::OwnerReference;
use kube_gc_core::text::LISTED;
use kube_gc_core::verdict::ReferenceClass;

/// Seeded once for each process, so that nobody can craft references that collide.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The references that an object had at the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceDigest {
    /// A fingerprint of all references, in order.
    pub all: Fingerprint,
    /// The references that a removal of dangling references removes.
    pub gone: RemovedReferences,
}

/// A hash of references in their order, with all of their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of these references.
    pub fn of<'a>(references: impl Iterator<Item = &'a OwnerReference>) -> Self {
        let mut hasher = HASHER.build_hasher();
        references.for_each(|reference| reference.hash(&mut hasher));
        Self(hasher.finish())
    }
}

/// References that are to be removed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RemovedReferences {
    /// The first of them.
    pub some: Vec<OwnerReference>,
    /// How many there are.
    pub count: usize,
    /// A hash of the references that stay, in any order.
    stay: u64,
}

impl RemovedReferences {
    /// Whether none of them is left. If there were more than are stored here, this holds only when
    /// exactly the references that were to stay are there.
    pub fn is_gone_from(&self, now: &[OwnerReference]) -> bool {
        if self.some.len() < self.count {
            return now.iter().fold(0, add) == self.stay;
        }
        !now.iter().any(|reference| self.some.iter().any(|gone| names_same(gone, reference)))
    }
}

impl ReferenceDigest {
    /// The digest of an object with these classified references; see
    /// [`decide`](kube_gc_core::verdict::decide()).
    pub fn of<'a>(references: impl Iterator<Item = (&'a OwnerReference, ReferenceClass)> + Clone) -> Self {
        let has_solid_owner = references.clone().any(|(_, class)| class == ReferenceClass::Solid);
        let goes = |class| match class {
            ReferenceClass::Orphaned => true,
            ReferenceClass::Absent | ReferenceClass::Waiting => has_solid_owner,
            ReferenceClass::Solid | ReferenceClass::Unresolved | ReferenceClass::InvalidScope => false,
        };
        let mut gone = RemovedReferences { some: Vec::new(), count: 0, stay: 0 };
        for (reference, class) in references.clone() {
            if !goes(class) {
                gone.stay = add(gone.stay, reference);
                continue;
            }
            gone.count += 1;
            // The ledger keeps them, so a text that no real owner has is only counted.
            if gone.some.len() < LISTED && reference.is_short() {
                gone.some.push(reference.clone());
            }
        }
        // Only needed if there are more references than are stored. Otherwise other references may
        // be added or removed, and the removal is still the same.
        if gone.some.len() == gone.count {
            gone.stay = 0;
        }
        Self { all: Fingerprint::of(references.map(|(reference, _)| reference)), gone }
    }
}

fn add(sum: u64, reference: &OwnerReference) -> u64 {
    let OwnerReference { api_version, kind, name, uid, controller: _, block_owner_deletion: _ } = reference;
    sum.wrapping_add(HASHER.hash_one((api_version, kind, name, uid)))
}

/// Whether two references name the same owner. Their other fields may differ.
fn names_same(one: &OwnerReference, other: &OwnerReference) -> bool {
    one.uid == other.uid
        && one.name == other.name
        && one.kind == other.kind
        && one.api_version == other.api_version
}
