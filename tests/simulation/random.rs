//! Random numbers that depend only on a seed.

use std::time::Duration;

/// A stream of random numbers (SplitMix64). Streams are split by name and number, so that a run
/// without one of its steps draws the same numbers for all others.
#[derive(Clone, Debug, Default)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent stream for one purpose.
    #[must_use]
    pub fn split(&self, purpose: &str, number: u64) -> Self {
        let start = Self(self.0 ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93)).next();
        Self(
            purpose
                .bytes()
                .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)),
        )
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// True with this probability, in a thousand.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.next() % 1000 < u64::from(per_mille)
    }

    /// A random element.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }

    /// A random index, with these weights. The last index if all weights are 0.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u64 = weights.iter().copied().map(u64::from).sum();
        let mut drawn = self.next() % total.max(1);
        for (place, weight) in weights.iter().enumerate() {
            match drawn.checked_sub(u64::from(*weight)) {
                None => return place,
                Some(rest) => drawn = rest,
            }
        }
        weights.len().saturating_sub(1)
    }

    /// A duration in whole milliseconds, from `from` to below `to`.
    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.next() % to.saturating_sub(from).max(1))
    }
}
