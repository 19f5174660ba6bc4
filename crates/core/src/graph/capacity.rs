//! How much room is kept for what may come.

/// Makes room for one more. A vector that doubles its room leaves up to half of it
/// empty, which with a million nodes is as much as everything else in the graph.
pub(super) fn grow_by_an_eighth<T>(entries: &mut Vec<T>) {
    if entries.len() == entries.capacity() {
        entries.reserve_exact((entries.len() / 8).max(16));
    }
}

/// Whether something is worth shrinking to twice its content. A few places are kept, or
/// what comes and goes would allocate each time.
pub(super) const fn is_sparse(length: usize, capacity: usize) -> bool {
    capacity > 64 && length < capacity / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_room_stands_empty() {
        let mut entries = Vec::new();
        for number in 0..100_000_u32 {
            grow_by_an_eighth(&mut entries);
            entries.push(number);
        }
        assert!(entries.capacity() <= 100_000 * 9 / 8, "{}", entries.capacity());
    }

    #[test]
    fn what_was_shrunk_is_not_shrunk_again_at_once() {
        assert!(is_sparse(24, 100) && !is_sparse(24, 48) && !is_sparse(0, 64));
    }
}
