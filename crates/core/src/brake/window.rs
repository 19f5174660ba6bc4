//! Counts events in a sliding window, in constant memory.

use std::collections::VecDeque;
use std::time::Duration;

/// The number of slots of a window. A slot is dropped as a whole, late rather than early, so a
/// window covers up to a sixtieth more than its length.
const SLOTS: u64 = 60;

/// A sliding window. Times should not go back; one that does counts as the latest.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The length of a slot in nanoseconds.
    width: u128,
    /// The slots with events, oldest first.
    slots: VecDeque<Slot>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u128,
    count: u64,
    population: Population,
}

/// The number of objects when a slot began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Population {
    Unknown,
    /// Known from an earlier slot.
    Carried(u64),
    /// Counted in this slot.
    Asked(u64),
}

impl Window {
    pub(super) fn new(length: Duration) -> Self {
        // Rounded up, so that all slots together cover the window.
        let width = length.as_nanos().div_ceil(u128::from(SLOTS)).max(1);
        Self { width, slots: VecDeque::new() }
    }

    const fn number(&self, at: Duration) -> u128 {
        at.as_nanos() / self.width
    }

    /// Drops expired slots. The slot in which the window begins counts as a whole, so there are up
    /// to [`SLOTS`] + 1.
    pub(super) fn advance(&mut self, now: Duration) {
        let now = self.number(now);
        while self.slots.front().is_some_and(|slot| slot.number + u128::from(SLOTS) < now) {
            self.slots.pop_front();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

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

    /// Counts one event. `population` is the last known one, for a slot that has none.
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

    /// Uncounts an event of that time, unless its slot has expired.
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

    /// Whether the population was counted in the current slot.
    pub(super) fn is_sampled(&self, now: Duration) -> bool {
        self.slots.back().is_some_and(|slot| {
            slot.number >= self.number(now) && matches!(slot.population, Population::Asked(_))
        })
    }

    /// Sets the population of the current slot.
    pub(super) fn sample(&mut self, now: Duration, population: u64) {
        let population = Population::Asked(population);
        if let Some(slot) = self.newest(now, population) {
            slot.population = population;
        }
    }

    /// For each slot with a known population, newest first: the population when it began and the
    /// number of events since.
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
