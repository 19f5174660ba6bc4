//! A hierarchical timer wheel for all delayed keys.
//!
//! Times are numbers with digits of six bits. A node is in the slot of the highest digit in
//! which its due time differs from the present, and moves down a level when the present reaches
//! that digit. Insertion and cancellation take constant time, and the wheel's own memory is
//! fixed. Eleven digits cover every 64-bit time, so nothing wraps.

use super::list::{Linked, List, Slot};

const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT) as usize;

/// A node with a due time.
pub(super) trait Timed: Linked {
    fn due(&self) -> u64;
}

#[derive(Clone, Copy, Debug)]
struct Level {
    /// One bit per slot, set if the slot is not empty.
    occupied: u64,
    slots: [List; SLOTS],
}

/// The wheel. Times are milliseconds.
#[derive(Debug)]
pub(super) struct Wheel {
    /// No node in the wheel is due before this time.
    present: u64,
    levels: Box<[Level; LEVELS]>,
}

impl Default for Wheel {
    fn default() -> Self {
        let level = Level { occupied: 0, slots: [List::default(); SLOTS] };
        Self { present: 0, levels: Box::new([level; LEVELS]) }
    }
}

impl Wheel {
    /// Adds a node. It must not be due before the present, which is the time of the last
    /// [`pop`](Self::pop) that returned `None`.
    pub(super) fn insert<T: Timed>(&mut self, nodes: &mut [T], slot: Slot) {
        let (level, digit) = self.place(nodes, slot);
        let level = &mut self.levels[level];
        level.slots[digit].push_back(nodes, slot);
        level.occupied |= 1 << digit;
    }

    /// Removes a node before it is due.
    pub(super) fn remove<T: Timed>(&mut self, nodes: &mut [T], slot: Slot) {
        let (level, digit) = self.place(nodes, slot);
        let level = &mut self.levels[level];
        level.slots[digit].remove(nodes, slot);
        level.occupied &= !(u64::from(level.slots[digit].is_empty()) << digit);
    }

    /// Updates the links of a node that moved to `slot`.
    pub(super) fn moved<T: Timed>(&mut self, nodes: &mut [T], slot: Slot) {
        let (level, digit) = self.place(nodes, slot);
        self.levels[level].slots[digit].moved(nodes, slot);
    }

    /// Removes a node that is due by `now`, earliest first. When it returns `None`, the present is
    /// `now`.
    pub(super) fn pop<T: Timed>(&mut self, nodes: &mut [T], now: u64) -> Option<Slot> {
        while let Some((level, digit, start)) = self.earliest().filter(|(.., start)| *start <= now) {
            self.present = self.present.max(start);
            if level == 0 {
                let first = self.levels[0].slots[digit].first();
                if let Some(slot) = first {
                    self.remove(nodes, slot);
                }
                return first;
            }
            // The present has reached this digit: redistribute the nodes by lower digits.
            let mut list = std::mem::take(&mut self.levels[level].slots[digit]);
            self.levels[level].occupied &= !(1 << digit);
            while let Some(slot) = list.pop_front(nodes) {
                self.insert(nodes, slot);
            }
        }
        self.present = self.present.max(now);
        None
    }

    /// When to call [`pop`](Self::pop) next. No node is due before. For a distant node this is the
    /// time when it moves down a level.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.earliest().map(|(.., start)| start)
    }

    /// The slot with the earliest nodes, and the first time that it covers.
    fn earliest(&self) -> Option<(usize, usize, u64)> {
        // Lower levels are earlier: a higher level begins where the one below ends.
        let (level, occupied) = self
            .levels
            .iter()
            .map(|level| level.occupied)
            .enumerate()
            .find(|(_, occupied)| *occupied != 0)?;
        let digit = occupied.trailing_zeros();
        let shift = DIGIT * level as u32;
        let above = u64::MAX.checked_shl(shift + DIGIT).unwrap_or(0);
        Some((level, digit as usize, (self.present & above) | (u64::from(digit) << shift)))
    }

    /// The level and slot of a node. The present never passes an occupied slot, so a node is found
    /// where it was inserted.
    fn place<T: Timed>(&self, nodes: &[T], slot: Slot) -> (usize, usize) {
        let due = nodes[slot as usize].due();
        debug_assert!(due >= self.present);
        let highest = u64::BITS - 1 - ((self.present ^ due) | 1).leading_zeros();
        let level = highest / DIGIT;
        ((level as usize), (due >> (DIGIT * level)) as usize % SLOTS)
    }
}
