//! Where each key is, for tests that explore all states.

use super::{Delay, Mailbox, State};
use crate::object::Key;

impl<R: Copy + Ord> Mailbox<R> {
    /// Each key, with a number that stands for its state. Delayed keys are numbered in the order in which
    /// their delays end; the order of ready keys is left out.
    pub fn places(&self) -> impl Iterator<Item = (&Key, u64)> {
        self.entries.iter().map(|(key, entry)| {
            let number = match entry.state {
                State::Ready => 0,
                State::Running { again, woken } => 1 + u64::from(again) + 2 * u64::from(woken),
                State::Delayed(place, delay) => {
                    let before = self.delays.range(..place).count() as u64;
                    8 + 2 * before + u64::from(delay == Delay::RetryAfter)
                }
            };
            (key, number)
        })
    }
}
