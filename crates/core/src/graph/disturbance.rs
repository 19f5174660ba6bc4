//! What deletions that a monitor has seen are worth after watches have broken.
//!
//! A store can be restored from a backup while watches are broken, and uids come back
//! with it. So nothing that was proved absent before counts any more: such owners are
//! verified again. And a deletion may have been read from a watch before it broke and
//! arrive here afterwards: only what happened after the version at which the store was
//! found to be is proof again.

use crate::mutation::{self, Mutation};
use crate::object::{Disturbance, Key, ResourceVersion};

use super::node::{NodeId, Presence, Target};
use super::types::TypeId;
use super::{DeletesProve, Effects, Partition};

impl Partition {
    /// What a deletion seen at this version is worth, if it would be worth so much
    /// without any disturbance.
    pub(super) fn proof_of_delete(
        &self,
        deletes_prove: DeletesProve,
        version: Option<&ResourceVersion>,
    ) -> DeletesProve {
        if self.disturbance.is_before(version) || mutation::is(Mutation::KeepAbsences) {
            deletes_prove
        } else {
            DeletesProve::Nothing
        }
    }

    /// Watches broke. Absences that were proved before are to be proved again, and no
    /// event is expected of what was written before.
    pub fn disturbed(&mut self, disturbance: Disturbance, out: &mut Effects) {
        let is_new = disturbance.number > self.disturbance.number;
        if !is_new && disturbance.number < self.disturbance.number {
            return;
        }
        self.disturbance = disturbance;
        if is_new && !mutation::is(Mutation::KeepAbsences) {
            self.forget_absences(out);
        }
        if is_new {
            self.forget_expected(out);
        }
    }

    /// The latest disturbance that it was told of.
    #[must_use]
    pub const fn disturbance(&self) -> u64 {
        self.disturbance.number
    }

    /// A verdict on a node was reached before the latest disturbance: it is void, and
    /// another one is to be reached.
    pub fn requeue(&self, key: &Key, out: &mut Effects) {
        if let Some(id) = self.store.find_key(key) {
            self.queue(id, out);
        }
    }

    fn forget_absences(&mut self, out: &mut Effects) {
        let mut absent: Vec<NodeId> = self.store.absent().collect();
        absent.sort_unstable_by_key(|id| id.number());
        for id in absent {
            self.store.set_presence(id, Presence::Virtual);
            self.store.formerly_absent.insert(id);
            self.queue(id, out);
        }
    }

    /// An observed object was seen to go, before watches broke or perhaps so: nothing
    /// follows from that until it is verified.
    pub(super) fn object_gone_unproved(&mut self, id: NodeId, out: &mut Effects) {
        let has_dependents = self.store.nodes[id].first_dependent.is_some();
        self.object_gone(id, DeletesProve::Nothing, out);
        if has_dependents && self.store.nodes.get(id).is_some_and(|node| node.presence == Presence::Virtual) {
            self.store.formerly_absent.insert(id);
        }
    }

    /// A type is gone, and was proved to be since watches broke. So nothing has brought
    /// back those of its objects that were gone before; nobody else could say that any more.
    pub(super) fn confirm_absences(&mut self, type_id: TypeId, out: &mut Effects) {
        let of_type = |id: &NodeId| self.store.nodes[*id].target() == Target::Served(type_id);
        let mut gone: Vec<NodeId> = self.store.formerly_absent.iter().copied().filter(of_type).collect();
        gone.sort_unstable_by_key(|id| id.number());
        for id in gone {
            self.store.set_presence(id, Presence::Absent);
            out.absent.push(self.store.identity(id));
            self.queue_cascade(id, out);
        }
    }

    fn forget_expected(&mut self, out: &mut Effects) {
        let mut asked: Vec<NodeId> =
            self.expected.drain().filter(|(_, it)| it.asked).map(|(id, _)| id).collect();
        asked.sort_unstable_by_key(|id| id.number());
        for id in asked {
            self.queue(id, out);
        }
    }
}
