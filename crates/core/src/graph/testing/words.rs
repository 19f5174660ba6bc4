//! The state of a partition as a sequence of words, for tests that explore all states.

use crate::graph::node::NodeId;
use crate::graph::{Generation, Partition};
use crate::object::{Key, ResourceVersion, Uid};

/// A part of a state.
#[derive(Clone, Copy, Debug)]
pub enum Word<'a> {
    Number(u64),
    Uid(&'a Uid),
    Text(&'a str),
    Version(Option<&'a ResourceVersion>),
}

impl Partition {
    /// Everything that later answers depend on, whatever the order in which it came about. Left out are
    /// the order of queued keys, and the generations: only whether one is still that of a node matters.
    pub fn words(&self, mut out: impl FnMut(Word<'_>)) {
        use Word::{Number, Text, Version};
        out(Number(self.disturbance.number));
        out(Version(self.disturbance.found.as_ref()));
        let mut types: Vec<_> = self.store.types.entries.iter().map(|(_, entry)| entry).collect();
        types.sort_by(|one, other| one.resource.group_resource.cmp(&other.resource.group_resource));
        for entry in types {
            let monitor = entry.monitor.as_ref();
            out(Number(u64::from(entry.was_listed)));
            out(Number(monitor.map_or(0, |it| 1 + u64::from(it.synced) + 2 * it.listing as u64)));
        }
        let mut nodes: Vec<NodeId> = self.store.nodes.iter().map(|(id, _)| id).collect();
        nodes.sort_by_key(|&id| {
            (&self.store.nodes[id].uid, self.store.resource_of(id).map(|it| &it.group_resource))
        });
        for id in nodes {
            let node = &self.store.nodes[id];
            self.words_of(id, &mut out);
            out(Text(self.store.name(id)));
            out(Version(node.version.as_ref()));
            let in_set = |is: bool, bit: u32| u64::from(is) << bit;
            let flags = in_set(node.finalizers.foreground, 0)
                | in_set(node.finalizers.orphan, 1)
                | in_set(node.listed, 2)
                | in_set(node.shares_uid, 3)
                | in_set(self.store.formerly_absent.contains(&id), 4)
                | in_set(self.cycles.acyclic.contains(&id), 5)
                | in_set(self.cycles.cyclic.contains(&id), 6)
                | in_set(node.namespace.is_some(), 7)
                | (node.presence as u64) << 8
                | (node.deletion as u64) << 16
                | (node.role as u64) << 24;
            out(Number(flags));
            if let Some(expected) = self.expected.get(&id) {
                out(Number(1 + u64::from(expected.asked)));
                out(Version(expected.version()));
            }
            for edge in self.store.owners(id) {
                let edge_itself = &self.store.edges[edge];
                self.words_of(edge_itself.owner, &mut out);
                out(Text(self.store.reference_name(edge)));
                out(Number(2 | u64::from(edge_itself.blocking) | u64::from(edge_itself.controller) << 2));
            }
            out(Number(u64::MAX));
        }
    }

    fn words_of(&self, id: NodeId, out: &mut impl FnMut(Word<'_>)) {
        let node = &self.store.nodes[id];
        out(Word::Uid(&node.uid));
        out(Word::Text(self.store.resource_of(id).map_or("", |resource| &resource.group_resource.resource)));
    }

    /// Whether the node of a key still has this generation.
    pub fn is_at(&self, key: &Key, generation: Generation) -> bool {
        self.store.find_key(key).is_some_and(|id| self.store.nodes[id].generation == generation.0)
    }

    /// Panics unless everything is consistent.
    pub fn verify(&self) {
        self.check();
    }
}
