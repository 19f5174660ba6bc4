//! What the graph shows of an object to somebody who only looks on.

use crate::object::{DeletionState, Finalizers, Key, OwnerReference};

use super::Partition;
use super::node::Presence;

/// An observed object, without what is known of its owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// How far its deletion has come.
    pub deletion: DeletionState,
    /// Its own garbage collector finalizers.
    pub finalizers: Finalizers,
    /// Its references, in order.
    pub references: Vec<OwnerReference>,
}

impl Partition {
    /// An object as it was last seen; `None` if no monitor shows one under this key. Unlike
    /// [`snapshot`](Self::snapshot), asking queues nothing.
    #[must_use]
    pub fn shown(&self, key: &Key) -> Option<Shown> {
        let id = self.store.find_key(key)?;
        let node = &self.store.nodes[id];
        (node.presence == Presence::Observed).then(|| Shown {
            deletion: node.deletion,
            finalizers: node.finalizers,
            references: self.store.owners(id).map(|edge| self.store.written(edge)).collect(),
        })
    }
}
