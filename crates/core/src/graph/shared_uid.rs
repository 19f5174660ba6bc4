//! Nodes that share a uid.
//!
//! Two resources that show the same uid, namespace, name and kind serve one object twice
//! (Ingress on old servers). It counts as one dependent. Of its nodes, the one with the least
//! group and resource is primary and the others are aliases; work is done on the primary.
//! Any other shared uid is a collision (kubernetes#116632): both objects are handled
//! separately.

use super::foreground::Touched;
use super::node::{EdgeId, NodeId, Role};
use super::store::Few;
use super::{Effects, Partition, Report};

use crate::object::{DeletionState, Uid};

impl Partition {
    pub(super) fn is_alias(&self, id: NodeId) -> bool {
        self.store.nodes[id].role == Role::Alias
    }

    /// Whether two nodes are views of one object.
    pub(super) fn same_object(&self, a: NodeId, b: NodeId) -> bool {
        let grouped = |id: NodeId| self.store.nodes[id].role != Role::Single;
        a == b || (grouped(a) && grouped(b) && self.look_the_same(a, b))
    }

    fn look_the_same(&self, a: NodeId, b: NodeId) -> bool {
        let (x, y) = (&self.store.nodes[a], &self.store.nodes[b]);
        x.uid == y.uid
            && x.namespace == y.namespace
            && self.store.name(a) == self.store.name(b)
            && self.store.resource(a).kind == self.store.resource(b).kind
    }

    /// All views of an object, the primary first.
    pub(super) fn group(&self, id: NodeId) -> Few {
        if self.store.nodes[id].role == Role::Single {
            return Few::from_slice(&[id]);
        }
        let mut group = self.store.observed_with(&self.store.nodes[id].uid);
        group.retain(|&mut other| self.look_the_same(id, other));
        group
    }

    /// Whether any view of an object has this deletion state. The views have separate watches,
    /// and one may lag behind.
    pub(super) fn any_view_is(&self, id: NodeId, deletion: DeletionState) -> bool {
        self.group(id).into_iter().any(|member| self.store.nodes[member].deletion == deletion)
    }

    /// The node that work on an object is queued under.
    pub(super) fn primary(&self, id: NodeId) -> NodeId {
        if self.is_alias(id) { self.group(id).first().copied().unwrap_or(id) } else { id }
    }

    /// The references to any view of an object, from dependents that
    /// [count](Self::counts_as_dependent).
    pub(super) fn counted_dependents(&self, id: NodeId) -> impl Iterator<Item = EdgeId> {
        self.group(id)
            .into_iter()
            .flat_map(|member| self.store.dependents(member))
            .filter(|&edge| self.counts_as_dependent(edge))
    }

    /// The role of a node, derived from the observed nodes with its uid.
    pub(super) fn role_of(&self, id: NodeId) -> Role {
        if !self.store.nodes[id].is_observed() {
            return Role::Single;
        }
        let mut same = self.store.observed_with(&self.store.nodes[id].uid);
        same.retain(|&mut other| self.look_the_same(id, other));
        match same.first() {
            _ if same.len() < 2 => Role::Single,
            Some(&first) if first == id => Role::Primary,
            _ => Role::Alias,
        }
    }

    /// Recomputes the roles of a uid's nodes after one of them appeared, disappeared or changed
    /// its identity.
    pub(super) fn update_roles(&mut self, uid: &Uid, out: &mut Effects) {
        let members = self.store.observed_with(uid);
        // The common case.
        if let [only] = *members
            && self.store.nodes[only].role == Role::Single
        {
            return;
        }
        let roles: Vec<(NodeId, Role)> = members.iter().map(|&id| (id, self.role_of(id))).collect();
        if roles.iter().all(|&(id, role)| self.store.nodes[id].role == role) {
            return;
        }
        let touched: Vec<(NodeId, Touched)> =
            members.iter().map(|&id| (id, self.subtract_from_owners(id))).collect();
        self.cycles.forget();
        let mut changed = Vec::new();
        for (id, role) in roles {
            let was = std::mem::replace(&mut self.store.nodes[id].role, role);
            if was != role {
                changed.push((id, was));
            }
        }
        for (id, touched) in touched {
            self.add_to_owners(id, touched, out);
        }
        // What blocks a member may have changed too: a reference between members is a reference
        // of the object to itself, and does not count.
        for &id in &members {
            let before = self.progress.get(&id).copied();
            self.recount(id);
            self.wake(before.into_iter().map(|before| (id, before)).collect(), out);
        }
        for (id, was) in changed {
            // Its dependents missed what another view has started.
            if self.any_view_is(id, DeletionState::Orphaning) {
                self.queue_orphaning(id, out);
            }
            if self.any_view_is(id, DeletionState::DeletingDependents) {
                self.queue_dependents(id, out);
                self.queue(id, out);
            }
            if self.is_alias(id) {
                self.unlink_all(id, out);
            } else if was == Role::Alias {
                // Keys that were queued under the former primary find nothing now, and this
                // node's references did not count before.
                let edges: Vec<EdgeId> = self.store.owners(id).collect();
                let is_large = self.is_large(id);
                for edge in edges {
                    self.edge_added(edge, false, is_large, out);
                }
                self.send_links(id, out);
                self.derive_work(id, out);
            }
        }
    }

    /// Reports every different object that shares a new node's uid.
    pub(super) fn report_collisions(&self, newcomer: NodeId, out: &mut Effects) {
        let others = self.store.observed_with(&self.store.nodes[newcomer].uid);
        for other in others.into_iter().filter(|&other| !self.look_the_same(other, newcomer)) {
            out.reports.push(Report::UidCollision {
                first: self.store.identity(other),
                second: self.store.identity(newcomer),
            });
        }
    }
}
