//! A decision that has ended, for whoever observes decisions.

use std::fmt::Debug;
use std::sync::Arc;

use crate::api::Finalizer;
use crate::http::OwnerView;
use crate::worker::classified::{Classified, Evidence};
use crate::worker::reference_digest::ReferenceDigest;
use kube_gc_core::graph::ObjectSnapshot;
use kube_gc_core::object::{Identity, OwnerReference, PropagationPolicy};
use kube_gc_core::text::{LISTED, LONGEST, excerpt};
use kube_gc_core::verdict::ReferenceClass;

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
    /// The propagation policy.
    pub policy: Option<PropagationPolicy>,
    /// The finalizer to remove.
    pub finalizer: Option<Finalizer>,
    /// The owners that the object names, and what is known of each: the first
    /// [`LISTED`] of them, in [`LONGEST`] bytes of text.
    pub owners: Vec<JudgedOwner>,
    /// How many more it names.
    pub more_owners: usize,
    /// In a dry run: the references that it rests on, for the comparison.
    pub basis: Option<ReferenceDigest>,
    /// The owner that orphans this object.
    pub owner: Option<Identity>,
    /// How it ended, in the word that the log and the metrics use.
    pub outcome: &'static str,
    /// Why it failed, if it did, or what it could not take into account.
    pub error: Option<String>,
}

impl DecisionRecord {
    /// About how many bytes it takes up.
    #[must_use]
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

/// As the debug pages show it.
impl From<&JudgedOwner> for OwnerView {
    fn from(judged: &JudgedOwner) -> Self {
        let JudgedOwner { reference, class, evidence, error } = judged;
        Self {
            api_version: reference.api_version.to_string(),
            kind: reference.kind.to_string(),
            name: reference.name.to_string(),
            uid: reference.uid.to_string(),
            blocking: reference.block_owner_deletion,
            controller: reference.controller,
            class: class.to_string(),
            evidence: evidence.to_string(),
            error: error.as_ref().map(ToString::to_string),
        }
    }
}

/// An owner reference and its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedOwner {
    /// The reference.
    pub reference: OwnerReference,
    /// The class.
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
        let error = owner.error(&reference).map(|error| match error.len() {
            0..=LONGEST_ERROR => error,
            _ => excerpt(&error, LONGEST_ERROR).to_string().into(),
        });
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
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.text()
    }
}
