//! Sums up the decisions of one period by their owners.
//!
//! Owners, kinds and namespaces come from the cluster, so their number is bounded twice: by the
//! memory that a period takes and by the lines that it becomes. Whatever does not fit is counted
//! in a coarser sum, so the totals of all lines are the number of all decisions.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;

use super::counts::{Counted, Counts};
use kube_gc_core::object::{Namespace, OwnerReference};

/// How many owners have a sum of their own while a period lasts, and how many kinds.
pub const MAX_SUMS: usize = 1000;
/// How many owners have a line of their own, and how many kinds. These are the ones with the most
/// decisions.
pub const MAX_LINES: usize = 10;

/// The owner whose deletion a decision follows from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The namespace of the objects that are decided on.
    pub namespace: Option<Namespace>,
    /// The owner. Its flags mean nothing here.
    pub owner: OwnerReference,
}

/// Which decisions a summary counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SummaryOf {
    /// Those that follow from one owner.
    Owner(Subject),
    /// Those that follow from other owners of one kind in one namespace.
    Kind(Kind),
    /// All others.
    Others,
}

/// Owners of one kind whose dependents are in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The namespace of the objects that are decided on.
    pub namespace: Option<Namespace>,
    /// The owners' `apiVersion`.
    pub api_version: Arc<str>,
    /// The owners' kind.
    pub kind: Arc<str>,
}

impl Kind {
    fn of(subject: &Subject) -> Self {
        let OwnerReference { api_version, kind, .. } = &subject.owner;
        Self {
            namespace: subject.namespace.clone(),
            api_version: Arc::clone(api_version),
            kind: Arc::clone(kind),
        }
    }
}

/// One line that stands for many decisions.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Which decisions it counts.
    pub of: SummaryOf,
    /// How many.
    pub counts: Counts,
}

/// The sums of one period.
#[derive(Debug, Default)]
pub struct Period {
    pub(super) owners: Sums<Subject>,
    pub(super) kinds: Sums<Kind>,
    others: Counts,
}

impl Period {
    /// Counts one decision.
    pub fn add(&mut self, subject: Subject, decision: Counted) {
        match self.owners.of(subject) {
            Ok(counts) => counts,
            Err(subject) => self.of_kind(&subject),
        }
        .add(decision);
    }

    /// Whether nothing has been counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.0.is_empty()
    }

    /// The lines, and an empty period.
    pub fn take(&mut self) -> Vec<Summary> {
        let mut period = std::mem::take(self);
        let [owners, more] = period.owners.largest();
        for (subject, counts) in more {
            period.of_kind(&subject).merge(counts);
        }
        let [kinds, more] = period.kinds.largest();
        for (_, counts) in more {
            period.others.merge(counts);
        }
        let owners = owners.into_iter().map(|(of, counts)| (SummaryOf::Owner(of), counts));
        let kinds = kinds.into_iter().map(|(of, counts)| (SummaryOf::Kind(of), counts));
        let others = (period.others.total() > 0).then_some((SummaryOf::Others, period.others));
        owners.chain(kinds).chain(others).map(|(of, counts)| Summary { of, counts }).collect()
    }

    fn of_kind(&mut self, subject: &Subject) -> &mut Counts {
        self.kinds.of(Kind::of(subject)).unwrap_or(&mut self.others)
    }
}

/// Counts by a key from the cluster.
#[derive(Debug)]
pub(super) struct Sums<K>(pub(super) HashMap<K, Counts>);

impl<K> Default for Sums<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Sums<K> {
    /// The counts of a key, or the key if there are too many.
    fn of(&mut self, key: K) -> Result<&mut Counts, K> {
        let is_full = self.0.len() >= MAX_SUMS;
        match self.0.entry(key) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) if is_full => Err(unknown.into_key()),
            Entry::Vacant(unknown) => Ok(unknown.insert(Counts::default())),
        }
    }

    /// The largest, each on a line of its own, and the others.
    fn largest(&mut self) -> [Vec<(K, Counts)>; 2] {
        let mut all: Vec<_> = std::mem::take(&mut self.0).into_iter().collect();
        all.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.total()));
        let others = all.split_off(all.len().min(MAX_LINES));
        [all, others]
    }
}
