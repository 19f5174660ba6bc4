//! Dependents and objects page by page, for workers and for questions about very many of them (a plan
//! of `kube-gc-insight`). Each page takes a bounded time, because a partition has other work.

use super::node::{EdgeId, NodeId, Presence, Role};
use super::{Partition, PartitionId, ReferenceSnapshot, Sharding};
use crate::object::{DeletionState, Finalizers, GroupResource, Identity, Key, Namespace, OwnerReference};

/// A dependent of an owner, for the orphan pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependentView {
    pub identity: Identity,
    /// Its first reference to the owner.
    pub reference: OwnerReference,
    /// Whether other references have the same uid. Then only a JSON merge patch removes the
    /// right entry.
    pub shares_uid: bool,
    /// How many references it has. Of a dependent in another partition, only those to cluster-scoped
    /// owners are counted.
    pub reference_count: usize,
}

/// Names a dependent to the partition that has it, as long as it has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DependentId(NodeId);

/// A slot number. The next page starts after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub u32);

impl Partition {
    /// An object's dependents, each once, through any of its views.
    pub fn dependents(&self, owner: &Key) -> Vec<DependentId> {
        let Some(id) = self.store.find_key(owner) else { return Vec::new() };
        let edges = self.counted_dependents(id);
        let mut all: Vec<NodeId> = edges.map(|edge| self.store.edges[edge].dependent).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().map(DependentId).collect()
    }

    /// Those of these dependents that are still there. All together take a long time if an object
    /// has very many, so callers ask for some at a time.
    pub fn dependent_views(&self, owner: &Key, dependents: &[DependentId]) -> Vec<DependentView> {
        let Some(owner) = self.store.find_key(owner) else { return Vec::new() };
        let view = |&DependentId(dependent): &DependentId| {
            self.store.nodes.get(dependent)?;
            Some(self.dependent_view(dependent, self.first_reference(dependent, owner)?))
        };
        dependents.iter().filter_map(view).collect()
    }

    /// The first of a dependent's references to an owner that [counts](Self::counts_as_dependent).
    fn first_reference(&self, dependent: NodeId, owner: NodeId) -> Option<EdgeId> {
        let is = |&edge: &EdgeId| {
            self.same_object(self.store.edges[edge].owner, owner) && self.counts_as_dependent(edge)
        };
        self.store.owners(dependent).find(is)
    }

    fn dependent_view(&self, dependent: NodeId, edge: EdgeId) -> DependentView {
        DependentView {
            identity: self.store.identity(dependent),
            reference: self.store.reference(edge),
            shares_uid: self.shares_uid(edge),
            reference_count: self.store.owners(dependent).count(),
        }
    }
}

/// Which objects are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MembersOf {
    /// The object of a key.
    Object(Key),
    /// The dependents of the object with this key.
    Dependents(Key),
    /// The objects in a namespace.
    Namespace(Namespace),
    /// The objects of a type.
    Type(GroupResource),
}

impl MembersOf {
    /// The partition that has them; `None` if each may have some.
    pub fn place(&self, sharding: Sharding) -> Option<PartitionId> {
        match self {
            Self::Object(key) | Self::Dependents(key) => Some(sharding.of(key.namespace.as_ref())),
            Self::Namespace(namespace) => Some(sharding.of(Some(namespace))),
            Self::Type(_) => None,
        }
    }
}

/// An object with all that decides about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub identity: Identity,
    pub deletion: DeletionState,
    pub finalizers: Finalizers,
    pub held_by_others: bool,
    /// All its references, in order.
    pub references: Vec<ReferenceSnapshot>,
    /// Whether another object names it as owner, in this partition or, for a cluster-scoped
    /// object, in any.
    pub has_dependents: bool,
}

/// A part of the answer. An object can be in several pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberPage {
    pub members: Vec<Member>,
    /// Objects that another partition has.
    pub elsewhere: Vec<Key>,
    /// Where to go on; `None` after the last page.
    pub next: Option<MemberMark>,
    /// How many references or slots it visited.
    pub visits: usize,
}

/// Where a page ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberMark(Place);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Edge(EdgeId),
    Slot(Cursor),
}

impl Partition {
    /// A page of these objects. Visits about this many references or slots.
    ///
    /// If the graph changes between two pages, the next one may begin anew, and an object that
    /// appears in the meantime may be missing.
    pub fn members(&self, of: &MembersOf, after: Option<MemberMark>, visits: usize) -> MemberPage {
        match of {
            MembersOf::Object(key) => {
                let mut page = MemberPage::default();
                if let Some(id) = self.store.find_key(key) {
                    page.visits = self.add_member(self.primary(id), &mut page);
                }
                page
            }
            MembersOf::Dependents(key) => match self.store.find_key(key) {
                Some(id) => self.dependents_in_full(self.primary(id), after, visits),
                None => MemberPage::default(),
            },
            MembersOf::Namespace(namespace) => {
                self.selected(after, visits, |id| self.store.namespace(id) == Some(namespace))
            }
            MembersOf::Type(resource) => self.selected(after, visits, |id| {
                self.store.resource_of(id).is_some_and(|own| own.group_resource == *resource)
            }),
        }
    }

    fn dependents_in_full(&self, owner: NodeId, after: Option<MemberMark>, visits: usize) -> MemberPage {
        let mut page = MemberPage::default();
        if self.store.nodes[owner].role != Role::Single {
            // Served twice. This is rare, and a user who may only create objects cannot cause it.
            for edge in self.counted_dependents(owner) {
                page.visits += 1 + self.add_member(self.store.edges[edge].dependent, &mut page);
            }
            return page;
        }
        let mut next = match after {
            // An edge that is gone, or that is another owner's now, is no place to go on.
            Some(MemberMark(Place::Edge(edge)))
                if self.store.edges.get(edge).is_some_and(|edge| edge.owner == owner) =>
            {
                Some(edge)
            }
            _ => self.store.nodes[owner].first_dependent,
        };
        let mut left = visits.max(1);
        while let Some(edge) = next {
            if left == 0 {
                page.next = Some(MemberMark(Place::Edge(edge)));
                break;
            }
            next = self.store.edges[edge].next_dependent;
            left -= 1;
            page.visits += 1;
            if self.counts_as_dependent(edge) {
                let visited = self.add_member(self.store.edges[edge].dependent, &mut page);
                left = left.saturating_sub(visited);
                page.visits += visited;
            }
        }
        page
    }

    /// The observed objects in some slots that are wanted.
    fn selected(
        &self,
        after: Option<MemberMark>,
        slots: usize,
        is_wanted: impl Fn(NodeId) -> bool,
    ) -> MemberPage {
        let start = match after {
            Some(MemberMark(Place::Slot(cursor))) => cursor,
            _ => Cursor::default(),
        };
        let mut page = MemberPage { visits: slots, ..MemberPage::default() };
        for (id, node) in self.store.nodes.iter_from(start.0, slots) {
            if node.is_observed() && !self.is_alias(id) && is_wanted(id) {
                self.add_member(id, &mut page);
            }
        }
        page.next = self.next_places(start, slots).map(|cursor| MemberMark(Place::Slot(cursor)));
        page
    }

    /// Adds an object, and returns how many references that took.
    fn add_member(&self, id: NodeId, page: &mut MemberPage) -> usize {
        let node = &self.store.nodes[id];
        match node.presence {
            Presence::Observed => {}
            Presence::Linked => {
                page.elsewhere.push(self.store.key(id));
                return 0;
            }
            Presence::Virtual
            | Presence::Absent
            | Presence::Remote
            | Presence::Unresolved
            | Presence::InvalidScope => return 0,
        }
        let references = self.references(id, usize::MAX);
        let visited = references.len();
        page.members.push(Member {
            identity: self.store.identity(id),
            deletion: node.deletion,
            finalizers: node.finalizers,
            held_by_others: node.held_by_others,
            references,
            has_dependents: self.counted_dependents(id).next().is_some(),
        });
        visited
    }
}
