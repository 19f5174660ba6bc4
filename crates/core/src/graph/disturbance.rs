//! What is still proved after watches broke.
//!
//! While watches are broken, the store can be restored from a backup, which brings uids back.
//! Therefore earlier proofs of absence no longer count, and such owners are verified again.
//! A deletion that was read before the watch broke may also arrive afterwards. Deletions are
//! proof again from the version on at which the store was found after the disturbance.

use crate::mutation::{self, Mutation};
use crate::object::{Disturbance, Key, ResourceVersion};

use super::node::{NodeId, Presence, Target};
use super::types::TypeId;
use super::{DeletesProve, Effects, Partition};

impl Partition {
    /// What a deletion at this version proves, given what it would prove without a disturbance.
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

    /// Watches broke. Absences have to be proved again, and events of earlier writes are no
    /// longer awaited.
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

    /// The number of the latest disturbance.
    #[must_use]
    pub const fn disturbance(&self) -> u64 {
        self.disturbance.number
    }

    /// Queues a key again because its verdict was reached before the latest disturbance.
    pub fn requeue(&self, key: &Key, out: &mut Effects) {
        if let Some(id) = self.store.find_key(key) {
            self.queue(id, out);
        }
    }

    fn forget_absences(&mut self, out: &mut Effects) {
        let mut absent: Vec<NodeId> = self.store.absent().collect();
        absent.sort_by_key(|id| id.number());
        for id in absent {
            self.store.set_presence(id, Presence::Virtual);
            self.store.formerly_absent.insert(id);
            self.queue(id, out);
        }
    }

    /// An observed object was deleted, perhaps before watches broke: nothing follows until the
    /// absence is verified.
    pub(super) fn object_gone_unproved(&mut self, id: NodeId, out: &mut Effects) {
        let has_dependents = self.store.nodes[id].first_dependent.is_some();
        self.object_gone(id, DeletesProve::Nothing, out);
        if has_dependents && self.store.nodes.get(id).is_some_and(|node| node.presence == Presence::Virtual) {
            self.store.formerly_absent.insert(id);
        }
    }

    /// A type is proved to be gone since watches broke. So its objects that were gone before
    /// have not come back, and no look-up could prove that any more.
    pub(super) fn confirm_absences(&mut self, type_id: TypeId, out: &mut Effects) {
        let of_type = |id: &NodeId| self.store.nodes[*id].target() == Target::Served(type_id);
        let mut gone: Vec<NodeId> = self.store.formerly_absent.iter().copied().filter(of_type).collect();
        gone.sort_by_key(|id| id.number());
        for id in gone {
            self.store.set_presence(id, Presence::Absent);
            out.absent.push(self.store.identity(id));
            self.queue_cascade(id, out);
        }
    }

    fn forget_expected(&mut self, out: &mut Effects) {
        let mut asked: Vec<NodeId> =
            self.expected.drain().filter(|(_, it)| it.asked).map(|(id, _)| id).collect();
        asked.sort_by_key(|id| id.number());
        for id in asked {
            self.queue(id, out);
        }
    }
}
