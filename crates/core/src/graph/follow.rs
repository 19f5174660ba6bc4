//! Tells the [followers](super::followers) of answers what has changed in a partition.

use std::task::Waker;

use crate::object::Uid;

use super::Partition;
use super::followers::Follower;
use super::node::NodeId;
use super::store::Store;

impl Store {
    /// A node has changed, as its own view or that of an owner shows it.
    pub(super) fn changed(&mut self, id: NodeId) {
        if self.followers.is_idle() {
            return;
        }
        let Self { followers, nodes, edges, .. } = self;
        followers.changed(&nodes[id].uid);
        let mut next = nodes[id].first_owner;
        while let Some(edge) = next.filter(|_| !followers.is_idle()) {
            followers.changed(&nodes[edges[edge].owner].uid);
            next = edges[edge].next_owner;
        }
    }

    /// A node has got a dependent, or is going to lose one. The dependent itself has changed, too.
    pub(super) fn dependents_changed(&mut self, owner: NodeId) {
        let Self { followers, nodes, .. } = self;
        if !followers.is_idle() {
            followers.changed(&nodes[owner].uid);
        }
    }
}

impl Partition {
    /// Follows a uid, until the follower asks another question.
    pub fn follow(&mut self, follower: &Follower, uid: &Uid) {
        self.store.followers.follow(follower, uid);
    }

    /// Forgets a follower.
    pub fn unfollow(&mut self, id: u64) {
        self.store.followers.unfollow(id);
    }

    /// The followers whose answers may have changed, each once after its question.
    pub fn outdated(&mut self) -> impl Iterator<Item = &Waker> {
        self.store.followers.outdated()
    }

    /// Something has changed that any answer may rest on: which types there are, and which are
    /// synced.
    pub(super) fn everything_changed(&mut self) {
        self.store.followers.everything_changed();
    }
}
