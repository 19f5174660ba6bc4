//! What a decision says of an object's references, in few bytes however many there are.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::sync::LazyLock;

use kube_gc_core::object::OwnerReference;
use kube_gc_core::text::LISTED;
use kube_gc_core::verdict::ReferenceClass;

/// Seeded once for each process: nobody can make references that look like others.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The references that an object had when it was decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceDigest {
    /// Of all of them, in order.
    pub all: Fingerprint,
    /// Those that are to go if the dangling ones do.
    pub gone: RemovedReferences,
}

/// Stands for references in a certain order, with all that they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Of these.
    pub fn of<'a>(references: impl Iterator<Item = &'a OwnerReference>) -> Self {
        let mut hasher = HASHER.build_hasher();
        references.for_each(|reference| reference.hash(&mut hasher));
        Self(hasher.finish())
    }
}

/// References that are to go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RemovedReferences {
    /// The first of them.
    pub some: Vec<OwnerReference>,
    /// How many there are.
    pub count: usize,
    /// Stands for those that stay, in whatever order.
    stay: u64,
}

impl RemovedReferences {
    /// Whether none of them is left. Of more than are kept it is only said when exactly
    /// those that were to stay are there.
    pub fn is_gone_from(&self, now: &[OwnerReference]) -> bool {
        if self.some.len() < self.count {
            return now.iter().fold(0, add) == self.stay;
        }
        !now.iter().any(|reference| self.some.iter().any(|gone| names_same(gone, reference)))
    }
}

impl ReferenceDigest {
    /// Of an object with these references, classified; see [`decide`](kube_gc_core::verdict::decide()).
    pub fn of<'a>(references: impl Iterator<Item = (&'a OwnerReference, ReferenceClass)> + Clone) -> Self {
        let is_held = references.clone().any(|(_, class)| class == ReferenceClass::Solid);
        let goes = |class| match class {
            ReferenceClass::Orphaned => true,
            ReferenceClass::Absent | ReferenceClass::Waiting => is_held,
            ReferenceClass::Solid | ReferenceClass::Unresolved | ReferenceClass::InvalidScope => false,
        };
        let mut gone = RemovedReferences { some: Vec::new(), count: 0, stay: 0 };
        for (reference, class) in references.clone() {
            if !goes(class) {
                gone.stay = add(gone.stay, reference);
                continue;
            }
            gone.count += 1;
            if gone.some.len() < LISTED {
                gone.some.push(reference.clone());
            }
        }
        // Only what many are told by: that others came or went does not make it another removal.
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

/// Whether two references name one owner; what else they say of it may have been changed.
fn names_same(one: &OwnerReference, other: &OwnerReference) -> bool {
    one.uid == other.uid
        && one.name == other.name
        && one.kind == other.kind
        && one.api_version == other.api_version
}
