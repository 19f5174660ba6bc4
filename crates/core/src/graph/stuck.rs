//! Stuck objects: unfinished, and in no queue, because something else has to happen first.
//!
//! Callers ask from time to time and pass the time in, since 1970. The cost depends on the number of stuck
//! objects, not on the number of objects.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::object::{GroupResource, Identity, KeyedMap, Namespace, OwnerReference, Uid};

use crate::text::LISTED;

use super::Partition;
use super::node::{Node, NodeId, Presence};

/// How many blocking dependents are listed for one object.
const NAMED: usize = 3;

impl StuckCause {
    pub const ALL: [Self; 4] = [Self::Blocked, Self::InvalidScope, Self::UnseenWrite, Self::Held];
}

/// A node that was stuck at the last query, and since when by the caller's clock.
#[derive(Clone, Debug)]
pub(super) struct Noticed {
    /// Tells the object from another one that reuses its slot.
    uid: Uid,
    cause: StuckCause,
    since: Duration,
}

/// Which stuck objects a caller asks for.
#[derive(Clone, Debug, Default)]
pub struct StuckFilter {
    /// How many objects to return, those stuck longest first. All are counted.
    pub limit: usize,
    /// How many of these in each namespace; `None` for no limit of its own.
    pub per_namespace: Option<usize>,
    /// Only objects in this namespace.
    pub namespace: Option<Namespace>,
    /// Only objects of this type.
    pub resource: Option<GroupResource>,
    /// Ignore what is normal for a while and is younger than this.
    pub patience: Duration,
}

impl StuckFilter {
    /// Whether it asks for objects of this type in this namespace.
    pub fn has(&self, namespace: Option<&Namespace>, resource: &GroupResource) -> bool {
        self.namespace.as_ref().is_none_or(|wanted| namespace == Some(wanted))
            && self.resource.as_ref().is_none_or(|wanted| resource == wanted)
    }
}

/// How many objects are stuck, and for how long the first of them has been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StuckCount {
    pub count: usize,
    /// Zero when there are none.
    pub oldest: Duration,
}

impl StuckCount {
    /// Counts one more object.
    pub fn add(&mut self, waited: Duration) {
        self.merge(Self { count: 1, oldest: waited });
    }

    /// Adds the objects of another partition or pool.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.oldest = self.oldest.max(other.oldest);
    }
}

/// The answer to a [`StuckFilter`].
#[derive(Clone, Debug, Default)]
pub struct StuckObjects {
    /// All causes.
    pub counts: Vec<(StuckCause, StuckCount)>,
    /// Those that the filter asks for, the longest stuck first.
    pub objects: Vec<StuckObject>,
}

/// One stuck object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckObject {
    pub object: Identity,
    /// Since it was deleted, with its grace period, or else since the first query that found it stuck.
    pub waited: Duration,
    pub detail: StuckDetail,
}

/// What an object is stuck on; without the details, its [`StuckCause`].
#[derive(Clone, Debug, PartialEq, Eq, strum::EnumDiscriminants)]
#[strum_discriminants(name(StuckCause))]
pub enum StuckDetail {
    /// Dependents block its foreground deletion; `some` are examples.
    Blocked { count: usize, some: Vec<Identity> },
    /// It is cluster-scoped and names owners of a namespaced kind; `some` are the first references.
    InvalidScope { count: usize, some: Vec<OwnerReference> },
    /// It has to be evaluated, and the event of our own last write has not arrived.
    UnseenWrite,
    /// It was deleted and is still there; `by_finalizers` of others, or else by its kubelet or
    /// whatever else ends it.
    Held { by_finalizers: bool },
}

/// Keeps the first `most` items of each group.
pub fn keep_first_of_each<T, K: Hash + Eq>(items: &mut Vec<T>, most: usize, group: impl Fn(&T) -> K) {
    let mut kept: HashMap<K, usize> = HashMap::new();
    items.retain(|item| {
        let count = kept.entry(group(item)).or_default();
        *count += 1;
        *count <= most
    });
}

impl Partition {
    /// The stuck objects at this time. Returns those that are stuck for the cause `only`, if there is
    /// one, and counts all. An object counts as stuck since the first query that found it so.
    pub fn stuck_objects(
        &mut self,
        now: Duration,
        filter: &StuckFilter,
        only: Option<StuckCause>,
    ) -> StuckObjects {
        self.notice(now);
        let mut asked_for: Vec<(Duration, NodeId)> = Vec::new();
        let mut counts = StuckCause::ALL.map(|cause| (cause, StuckCount::default()));
        for (&id, noticed) in &self.noticed {
            let waited = now.saturating_sub(noticed.since);
            let mentioned = noticed.cause == StuckCause::InvalidScope || waited >= filter.patience;
            let resource = &self.store.resource(id).group_resource;
            if !mentioned || noticed.since > now || !filter.has(self.store.namespace(id), resource) {
                continue;
            }
            for (cause, count) in &mut counts {
                if *cause == noticed.cause {
                    count.add(waited);
                }
            }
            if filter.limit > 0 && only.is_none_or(|only| only == noticed.cause) {
                asked_for.push((noticed.since, id));
            }
        }
        asked_for.sort();
        if let Some(most) = filter.per_namespace {
            keep_first_of_each(&mut asked_for, most, |&(_, id)| self.store.namespace(id).cloned());
        }
        asked_for.truncate(filter.limit);
        let objects = asked_for.into_iter().filter_map(|(since, id)| {
            let waited = now.saturating_sub(since);
            Some(StuckObject { object: self.store.identity(id), waited, detail: self.stuck_detail(id)? })
        });
        StuckObjects { counts: counts.into(), objects: objects.collect() }
    }

    /// Finds the stuck objects among the nodes that may be stuck.
    fn notice(&mut self, now: Duration) {
        let mut may_be_stuck =
            std::mem::replace(&mut self.may_be_stuck, KeyedMap::with_hasher(self.store.hasher));
        may_be_stuck.retain(|&id, _| {
            let is_deleted = self.store.nodes.get(id).is_some_and(|node| node.deletion.is_being_deleted());
            is_deleted || self.has_invalid_scope_reference(id)
        });
        let candidates = self.expected.keys().chain(may_be_stuck.keys()).chain(self.progress.keys());
        let mut noticed = KeyedMap::with_hasher(self.store.hasher);
        for &id in candidates {
            let Some(cause) = self.stuck_cause(id) else { continue };
            let uid = &self.store.nodes[id].uid;
            let since = self.noticed.get(&id).filter(|was| was.uid == *uid && was.cause == cause);
            // In its grace period, nothing holds it. If it was there before this collector, only the server knows
            // when that has ended.
            let is_deleted = matches!(cause, StuckCause::Held | StuckCause::Blocked);
            let (grace, ends) = may_be_stuck.get(&id).filter(|_| is_deleted).copied().unwrap_or_default();
            let begins = now + Duration::from_secs(grace.unwrap_or_default().into());
            let begins = ends.map_or(begins, |ends| begins.min(Duration::from_secs(ends)));
            let since = since.map_or(begins, |was| was.since.min(begins));
            noticed.insert(id, Noticed { uid: uid.clone(), cause, since });
        }
        self.may_be_stuck = may_be_stuck;
        self.noticed = noticed;
    }

    /// Whether a node still has a reference of invalid scope.
    fn has_invalid_scope_reference(&self, id: NodeId) -> bool {
        self.store.nodes.get(id).is_some_and(Node::is_observed)
            && self.store.owners(id).any(|edge| self.is_invalid_scope(edge))
    }

    fn stuck_cause(&self, id: NodeId) -> Option<StuckCause> {
        let node = self.store.nodes.get(id).filter(|node| node.is_observed())?;
        // The primary counts.
        if self.is_alias(id) {
            return None;
        }
        if self.progress.get(&id).is_some_and(|progress| progress.blocking > 0) {
            return Some(StuckCause::Blocked);
        }
        if self.expected.get(&id).is_some_and(|expectation| expectation.asked) {
            return Some(StuckCause::UnseenWrite);
        }
        if node.is_terminating() {
            return Some(StuckCause::Held);
        }
        // An object with an unresolved reference is parked in a queue.
        let parked = |edge| self.store.nodes[self.store.edges[edge].owner].presence == Presence::Unresolved;
        let invalid = !node.deletion.is_being_deleted()
            && !self.store.owners(id).any(parked)
            && self.store.owners(id).any(|edge| self.is_invalid_scope(edge));
        invalid.then_some(StuckCause::InvalidScope)
    }

    fn stuck_detail(&self, id: NodeId) -> Option<StuckDetail> {
        Some(match self.stuck_cause(id)? {
            StuckCause::Blocked => {
                let mut some: Vec<NodeId> = Vec::new();
                for edge in self.counted_dependents(id).filter(|&edge| self.store.edges[edge].blocking) {
                    let dependent = self.store.edges[edge].dependent;
                    if !some.contains(&dependent) {
                        some.push(dependent);
                    }
                    if some.len() == NAMED {
                        break;
                    }
                }
                let count = self.progress.get(&id).map_or(0, |progress| progress.blocking as usize);
                StuckDetail::Blocked {
                    count,
                    some: some.into_iter().map(|id| self.store.identity(id)).collect(),
                }
            }
            StuckCause::InvalidScope => {
                let invalid = || self.store.owners(id).filter(|&edge| self.is_invalid_scope(edge));
                let some = invalid().take(LISTED).map(|edge| self.store.reference(edge)).collect();
                StuckDetail::InvalidScope { count: invalid().count(), some }
            }
            StuckCause::UnseenWrite => StuckDetail::UnseenWrite,
            StuckCause::Held => StuckDetail::Held { by_finalizers: self.store.nodes[id].held_by_others },
        })
    }
}
