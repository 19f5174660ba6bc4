//! Random numbers that a seed decides.

/// A generator: SplitMix64, by Steele, Lea and Flood.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one, which is not 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// An index below this one, which is not 0.
    pub fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap_or_default()
    }

    /// True so many times in a hundred.
    pub const fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let index = self.index(from.len());
        from[index].clone()
    }
}
