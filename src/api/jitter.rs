//! Reproducible jitter.

use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A stream of random numbers (SplitMix64). Not for secrets.
#[derive(Debug)]
pub(crate) struct Jitter(AtomicU64);

impl Jitter {
    /// The stream of this seed, which a simulation can repeat.
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// A stream with a random seed.
    pub fn random() -> Self {
        Self::new(RandomState::new().hash_one(0))
    }

    pub fn next(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let state = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A duration in the range; its start if it is empty.
    pub fn within(&self, range: &Range<Duration>) -> Duration {
        // 32 random bits are precise enough for minutes.
        let part = f64::from(u32::try_from(self.next() >> 32).unwrap_or_default()) / f64::from(u32::MAX);
        range.start + range.end.saturating_sub(range.start).mul_f64(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_in_the_range_and_depends_only_on_the_seed() {
        let range = Duration::from_secs(2)..Duration::from_secs(4);
        let draw = |seed| {
            let jitter = Jitter::new(seed);
            (0..100).map(|_| jitter.within(&range)).collect::<Vec<_>>()
        };
        let drawn = draw(7);
        assert!(drawn.iter().all(|duration| (range.start..=range.end).contains(duration)));
        assert!(drawn.iter().max() > drawn.iter().min());
        assert_eq!(drawn, draw(7));
        assert_ne!(drawn, draw(8));
        assert_eq!(Jitter::new(1).within(&(range.end..range.start)), range.end);
    }
}
