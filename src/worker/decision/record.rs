//! A decision that has ended, for whoever observes decisions.

use std::fmt::Debug;
use std::sync::Arc;

use crate::api::Finalizer;
use crate::worker::classified::{Classified, Evidence};
use crate::worker::reference_digest::ReferenceDigest;
use kube_gc_core::graph::ObjectSnapshot;
use kube_gc_core::object::{Identity, OwnerReference, PropagationPolicy, Uid};
use kube_gc_core::text::{LISTED, LONGEST, LONGEST_WORD, excerpt, word};
use kube_gc_core::verdict::ReferenceClass;

/// The longest error of one owner that is kept with a decision.
const LONGEST_ERROR: usize = LONGEST / 4;

/// Hears of every decision when it has ended, next to the log.
pub trait DecisionObserver: Debug + Send + Sync {
    /// A decision has ended.
    fn decided(&self, decision: &DecisionRecord);
}

/// A decision and how it ended.
#[derive(Clone, Debug)]
pub struct DecisionRecord {
    /// The object that it is about.
    pub object: Identity,
    /// What was to be done: `delete`, `remove_references`, `remove_finalizer`, …
    pub action: &'static str,
    /// With which propagation policy.
    pub policy: Option<PropagationPolicy>,
    /// Which finalizer it is about.
    pub finalizer: Option<Finalizer>,
    /// The owners that the object names, and what is known of each: the first
    /// [`LISTED`] of them, in [`LONGEST`] bytes of text.
    pub owners: Vec<JudgedOwner>,
    /// How many more it names.
    pub more_owners: usize,
    /// In a dry run: what it rests on, for somebody who compares.
    pub basis: Option<ReferenceDigest>,
    /// The one owner that it follows from.
    pub owner: Option<Identity>,
    /// How it ended, in the word of the log and the metrics.
    pub outcome: &'static str,
    /// Why it did not end well, if it did not.
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

/// What one owner reference was worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedOwner {
    /// The reference.
    pub reference: OwnerReference,
    /// What it is worth.
    pub class: ReferenceClass,
    /// How that is known.
    pub evidence: Evidence,
    /// Why it could not be found out, in the words of whoever was asked.
    pub error: Option<Arc<str>>,
}

impl JudgedOwner {
    /// A reference with what is known of its owner. What is too long to be shown is cut.
    fn of(reference: &OwnerReference, owner: &Classified) -> Self {
        let short = |text: &Arc<str>| match text.len() {
            0..=LONGEST_WORD => Arc::clone(text),
            _ => word(text).to_string().into(),
        };
        let OwnerReference { api_version, kind, name, uid, controller, block_owner_deletion } = reference;
        let shown_uid = || Uid::parse(&uid.shown().to_string()).unwrap_or_else(|| uid.clone());
        let reference = OwnerReference {
            api_version: short(api_version),
            kind: short(kind),
            name: short(name),
            uid: if uid.text_bytes() > LONGEST_WORD { shown_uid() } else { uid.clone() },
            controller: *controller,
            block_owner_deletion: *block_owner_deletion,
        };
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
