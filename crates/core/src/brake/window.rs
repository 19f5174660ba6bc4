//! What happened within the last so and so long, in a few numbers.

use std::collections::VecDeque;
use std::time::Duration;

/// How many slots a window is cut into. What happened in one slot is forgotten together,
/// and late rather than early, so a window counts up to a sixtieth longer than it says.
const SLOTS: u64 = 60;

/// A sliding window that counts. Its memory does not depend on how much it counts.
///
/// Times should not go back; one that does counts as the latest.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// How long a slot is, in nanoseconds.
    width: u128,
    /// Those in which something happened, oldest first.
    slots: VecDeque<Slot>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u128,
    count: u64,
    population: Population,
}

/// How many objects there were when a slot began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Population {
    /// Nobody has asked.
    Unknown,
    /// As it was known before.
    Carried(u64),
    /// Asked for in this slot.
    Asked(u64),
}

impl Window {
    pub(super) fn new(length: Duration) -> Self {
        // Rounded up: all slots together are never shorter than the window.
        let width = length.as_nanos().div_ceil(u128::from(SLOTS)).max(1);
        Self { width, slots: VecDeque::new() }
    }

    const fn number(&self, at: Duration) -> u128 {
        at.as_nanos() / self.width
    }

    /// Forgets what is over. The slot in which the window begins still counts as a whole:
    /// with the one that has just begun there are one more than [`SLOTS`].
    pub(super) fn advance(&mut self, now: Duration) {
        let now = self.number(now);
        while self.slots.front().is_some_and(|slot| slot.number + u128::from(SLOTS) < now) {
            self.slots.pop_front();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// How much it counts now.
    pub(super) fn count(&self) -> u64 {
        self.slots.iter().map(|slot| slot.count).sum()
    }

    fn newest(&mut self, now: Duration, population: Population) -> Option<&mut Slot> {
        let number = self.number(now);
        if self.slots.back().is_none_or(|slot| slot.number < number) {
            self.slots.push_back(Slot { number, count: 0, population });
        }
        self.slots.back_mut()
    }

    /// Counts one. The population is the last that is known, for want of a newer one.
    pub(super) fn add(&mut self, now: Duration, population: Option<u64>) {
        let population = population.map_or(Population::Unknown, Population::Carried);
        if let Some(slot) = self.newest(now, population) {
            slot.count += 1;
        }
    }

    fn at(&mut self, then: Duration) -> Option<&mut Slot> {
        let number = self.number(then);
        self.slots.iter_mut().rev().find(|slot| slot.number == number)
    }

    /// Takes back one that was counted then, unless it is forgotten already.
    pub(super) fn take_back(&mut self, then: Duration) {
        if let Some(slot) = self.at(then) {
            slot.count = slot.count.saturating_sub(1);
        }
    }

    /// Undoes [`take_back`](Self::take_back).
    pub(super) fn put_back(&mut self, then: Duration) {
        if let Some(slot) = self.at(then) {
            slot.count += 1;
        }
    }

    /// Whether it is known how many objects there were when the slot of now began.
    pub(super) fn is_sampled(&self, now: Duration) -> bool {
        self.slots.back().is_some_and(|slot| {
            slot.number >= self.number(now) && matches!(slot.population, Population::Asked(_))
        })
    }

    /// There are so many objects now.
    pub(super) fn sample(&mut self, now: Duration, population: u64) {
        let population = Population::Asked(population);
        if let Some(slot) = self.newest(now, population) {
            slot.population = population;
        }
    }

    /// For each slot, newest first: how many objects there were when it began, and how
    /// much has been counted since.
    pub(super) fn since_each(&self) -> impl Iterator<Item = (u64, u64)> {
        let counted = self.slots.iter().rev().scan(0, |sum, slot| {
            *sum += slot.count;
            Some((slot.population, *sum))
        });
        counted.filter_map(|(population, count)| match population {
            Population::Unknown => None,
            Population::Carried(population) | Population::Asked(population) => Some((population, count)),
        })
    }
}
