//! A decision that has ended, for the log and for whoever observes decisions.

use std::fmt::{self, Debug, Display};
use std::sync::Arc;

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::worker::classified::{Classified, Evidence};
use kube_gc_client::{Deleted, Finalizer, Patched};
use kube_gc_core::graph::ObjectSnapshot;
use kube_gc_core::object::{Identity, OwnerReference, PropagationPolicy};
use kube_gc_core::text::{LISTED, LONGEST, excerpt, listed};
use kube_gc_core::verdict::ReferenceClass;
use kube_gc_observe::telemetry::{PrintedReference, Structured};

/// The longest error of one owner that is kept with a decision.
const LONGEST_ERROR: usize = LONGEST / 4;

/// Observes every decision when it has ended.
pub trait DecisionObserver: Debug + Send + Sync {
    /// A decision has ended. The log does not repeat a decision that an observer knows already.
    fn decided(&self, decision: &DecisionRecord) -> Occurrence;
}

/// Whether an observer has seen the decision before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// The decision is new, or the observer does not compare decisions.
    First,
    /// The same decision about the same object was made before, and is not settled.
    Repeated,
}

/// A decision and how it ended.
#[derive(Clone, Debug)]
pub struct DecisionRecord {
    /// The object that it is about.
    pub object: Identity,
    /// The action: `delete`, `remove_references`, `remove_finalizer`, …
    pub action: &'static str,
    pub policy: Option<PropagationPolicy>,
    /// The finalizer to remove.
    pub finalizer: Option<Finalizer>,
    /// The owners that the object names, and what is known of each: the first
    /// [`LISTED`] of them, in [`LONGEST`] bytes of text.
    pub owners: Vec<JudgedOwner>,
    /// How many more it names.
    pub more_owners: usize,
    /// In a dry run: the references that it removes, for the comparison.
    pub removed: Option<RemovedReferences>,
    /// The owner that orphans this object.
    pub owner: Option<Identity>,
    /// How it ended, in the word that the log and the metrics use.
    pub outcome: &'static str,
    /// Why it failed, if it did, or what it could not take into account.
    pub error: Option<String>,
}

impl DecisionRecord {
    /// About how many bytes it takes up.
    pub fn bytes(&self) -> usize {
        let Self { object, owners, owner, error, .. } = self;
        let named = |identity: &Identity| identity.name.len() + identity.uid.text_bytes();
        size_of::<Self>()
            + named(object)
            + owner.as_ref().map_or(0, named)
            + error.as_ref().map_or(0, String::len)
            + owners.iter().map(JudgedOwner::bytes).sum::<usize>()
    }
}

/// An owner reference and its classification. It is serialized as on `/debug/decisions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedOwner {
    pub reference: OwnerReference,
    pub class: ReferenceClass,
    /// What the class rests on.
    pub evidence: Evidence,
    /// Why the owner could not be resolved, in the API server's words.
    pub error: Option<Arc<str>>,
}

impl JudgedOwner {
    /// A reference with the class of its owner. Long texts are cut.
    pub(super) fn of(reference: &OwnerReference, owner: &Classified) -> Self {
        let reference = reference.clone().shortened();
        let error = owner.error(&reference).map(|error| excerpt(&error, LONGEST_ERROR).into());
        Self { reference, class: owner.class, evidence: owner.evidence, error }
    }

    /// As many of an object's references as are kept.
    pub(super) fn first_of(item: &ObjectSnapshot, classified: &[Classified]) -> Vec<Self> {
        let mut bytes = 0;
        let each = item.references.iter().zip(classified).take(LISTED);
        let judged = each.map(|(seen, owner)| Self::of(&seen.reference, owner));
        // One at least.
        let fits = |owner: &Self| {
            let is_room = bytes <= LONGEST / 2;
            bytes += owner.text();
            is_room
        };
        judged.take_while(fits).collect()
    }

    fn text(&self) -> usize {
        let OwnerReference { api_version, kind, name, uid, .. } = &self.reference;
        let error = self.error.as_ref().map_or(0, |error| error.len());
        api_version.len() + kind.len() + name.len() + uid.text_bytes() + error
    }

    /// About how many bytes it takes up. Texts that many references share are counted for each.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.text()
    }
}

/// Owners as a field of the log. JSON has an array of objects, with the names that the debug
/// pages use.
#[derive(Debug, Serialize)]
pub struct LoggedOwners {
    #[serde(serialize_with = "in_short")]
    owners: Vec<JudgedOwner>,
    #[serde(skip_serializing_if = "Option::is_none")]
    more_owners: Option<usize>,
}

fn in_short<S: Serializer>(owners: &[JudgedOwner], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Short<'a> {
        api_version: &'a str,
        kind: &'a str,
        name: &'a str,
        uid: String,
        class: String,
        evidence: String,
    }
    serializer.collect_seq(owners.iter().map(|JudgedOwner { reference, class, evidence, .. }| Short {
        api_version: &reference.api_version,
        kind: &reference.kind,
        name: &reference.name,
        uid: reference.uid.shown().to_string(),
        class: class.to_string(),
        evidence: evidence.to_string(),
    }))
}

impl LoggedOwners {
    /// The first owners of an object, and how many more it names; `None` without any.
    pub fn field(owners: Vec<JudgedOwner>, more: usize) -> Option<Structured> {
        let more_owners = (more > 0).then_some(more);
        (!owners.is_empty()).then(|| Structured::members(Self { owners, more_owners }))
    }
}

impl Display for LoggedOwners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.owners.len() + self.more_owners.unwrap_or_default();
        // Quoted, because it has spaces.
        fmt::Debug::fmt(&listed("; ", total, &self.owners), f)
    }
}

impl Display for JudgedOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reference, class, evidence, .. } = self;
        write!(f, "{} is {class} ({evidence})", PrintedReference(reference))
    }
}

impl Serialize for JudgedOwner {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { reference, class, evidence, error } = self;
        let mut owner = serializer.serialize_struct("JudgedOwner", 9)?;
        owner.serialize_field("api_version", &*reference.api_version)?;
        owner.serialize_field("kind", &*reference.kind)?;
        owner.serialize_field("name", &*reference.name)?;
        owner.serialize_field("uid", &reference.uid.shown().to_string())?;
        owner.serialize_field("blocking", &reference.block_owner_deletion)?;
        owner.serialize_field("controller", &reference.controller)?;
        owner.serialize_field("class", &class.to_string())?;
        owner.serialize_field("evidence", &evidence.to_string())?;
        owner.serialize_field("error", &error.as_deref())?;
        owner.end()
    }
}

/// How a write ended, in a word for the log and the metrics.
pub trait Ended {
    /// The word; of a write that removes this finalizer, if any.
    fn word(&self, finalizer: Option<Finalizer>) -> &'static str;
}

impl Ended for Deleted {
    fn word(&self, _: Option<Finalizer>) -> &'static str {
        match self {
            Self::Removed => "deleted",
            Self::Pending(_) => "deletion_pending",
            Self::AlreadyGone(_) => "already_gone",
        }
    }
}

impl Ended for Patched {
    fn word(&self, finalizer: Option<Finalizer>) -> &'static str {
        match (self, finalizer) {
            (Self::Changed(_), None) => "patched",
            (Self::Changed(_), Some(_)) => "removed",
            (Self::Unneeded(live), Some(_)) if !live.being_deleted => "not_being_deleted",
            (Self::Unneeded(_), _) => "unneeded",
            (Self::Gone(_), _) => "already_gone",
        }
    }
}

/// References that are to be removed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RemovedReferences {
    /// The first of them.
    pub some: Vec<OwnerReference>,
    /// How many there are.
    pub count: usize,
}

impl RemovedReferences {
    /// Of an object with these references, those with the indices `remove`, in ascending order.
    pub fn of<'a>(references: impl Iterator<Item = &'a OwnerReference>, remove: &[usize]) -> Self {
        let goes = |(index, _): &(usize, _)| remove.binary_search(index).is_ok();
        let gone = references.enumerate().filter(goes).map(|(_, reference)| reference);
        // A prediction keeps them, so a text that no real owner has is only counted.
        let some = gone.filter(|reference| reference.is_short()).take(LISTED).cloned().collect();
        Self { some, count: remove.len() }
    }

    /// Whether none of the first of them is left. All are removed by one write.
    pub fn is_gone_from(&self, now: &[OwnerReference]) -> bool {
        let is_left = |now: &OwnerReference| self.some.iter().any(|gone| gone.named() == now.named());
        !now.iter().any(is_left)
    }
}
