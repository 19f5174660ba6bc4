//! What the graph takes up.

use super::Partition;

/// The bytes of a partition, by what they are for. Counts what is allocated, also where it
/// stands empty; leaves out what types, namespaces and kinds have once, for all their objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Objects: uid, version, state, coordinates.
    pub nodes: usize,
    /// Their names.
    pub names: usize,
    /// Owner references, each of them in the lists of its owner and its dependent.
    pub edges: usize,
    /// What finds objects by their uid.
    pub index: usize,
    /// The objects of each type.
    pub lists: usize,
    /// What only some references and objects have.
    pub rest: usize,
}

impl Memory {
    /// All of it.
    #[must_use]
    pub const fn total(&self) -> usize {
        let Self { nodes, names, edges, index, lists, rest } = *self;
        nodes + names + edges + index + lists + rest
    }
}

impl Partition {
    /// What this partition takes up.
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.store.memory()
    }
}
