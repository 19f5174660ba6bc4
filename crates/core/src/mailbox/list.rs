//! Doubly linked lists over the slots of a vector. Each node is on at most one list, and is
//! removed from any position in constant time.

/// The index of a node in its vector. 2^32 keys cannot occur: their graph would need terabytes.
pub(super) type Slot = u32;

/// No slot.
const NONE: Slot = Slot::MAX;

/// The neighbours of a node on its list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    previous: Slot,
    next: Slot,
}

impl Default for Links {
    fn default() -> Self {
        Self { previous: NONE, next: NONE }
    }
}

/// A node that can be on a list.
pub(super) trait Linked {
    fn links(&mut self) -> &mut Links;
}

/// The ends of a list. The nodes know their neighbours.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    first: Slot,
    last: Slot,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl List {
    pub(super) const fn is_empty(&self) -> bool {
        self.first == NONE
    }

    pub(super) fn first(&self) -> Option<Slot> {
        (self.first != NONE).then_some(self.first)
    }

    pub(super) fn push_back<T: Linked>(&mut self, nodes: &mut [T], slot: Slot) {
        *links(nodes, slot) = Links { previous: self.last, next: NONE };
        match self.last {
            NONE => self.first = slot,
            last => links(nodes, last).next = slot,
        }
        self.last = slot;
    }

    /// Removes a node, which must be on this list.
    pub(super) fn remove<T: Linked>(&mut self, nodes: &mut [T], slot: Slot) {
        let Links { previous, next } = std::mem::take(links(nodes, slot));
        self.join(nodes, previous, next, next, previous);
    }

    pub(super) fn pop_front<T: Linked>(&mut self, nodes: &mut [T]) -> Option<Slot> {
        let slot = self.first()?;
        self.remove(nodes, slot);
        Some(slot)
    }

    /// Updates the list and the neighbours of a node that moved to `slot`.
    pub(super) fn moved<T: Linked>(&mut self, nodes: &mut [T], slot: Slot) {
        let Links { previous, next } = *links(nodes, slot);
        self.join(nodes, previous, slot, next, slot);
    }

    /// Makes `after_previous` follow `previous`, and `before_next` precede `next`. A missing
    /// neighbour stands for an end of the list.
    fn join<T: Linked>(
        &mut self,
        nodes: &mut [T],
        previous: Slot,
        after_previous: Slot,
        next: Slot,
        before_next: Slot,
    ) {
        match previous {
            NONE => self.first = after_previous,
            previous => links(nodes, previous).next = after_previous,
        }
        match next {
            NONE => self.last = before_next,
            next => links(nodes, next).previous = before_next,
        }
    }
}

fn links<T: Linked>(nodes: &mut [T], slot: Slot) -> &mut Links {
    nodes[slot as usize].links()
}

/// Removes a node that is on no list. The last node moves into the gap, and the caller has to
/// update that node's list ([`List::moved`]) and index. The memory shrinks with the number of
/// nodes.
pub(super) fn swap_remove<T>(nodes: &mut Vec<T>, slot: Slot) -> T {
    let node = nodes.swap_remove(slot as usize);
    if is_sparse(nodes.len(), nodes.capacity()) {
        nodes.shrink_to(nodes.len() * 2);
    }
    node
}

/// Whether a table should shrink to twice its length. Small tables keep their capacity, so that
/// a queue that alternates between no key and one does not allocate each time.
pub(super) const fn is_sparse(length: usize, capacity: usize) -> bool {
    capacity > 64 && length < capacity / 4
}
