//! What the brake allows.

use std::num::NonZeroU32;
use std::time::Duration;

/// The limits; without any, everything is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// How many deletions there may be in any minute.
    pub per_minute: Option<NonZeroU32>,
    /// Which part of a resource type's objects may be deleted within a window.
    pub share: Option<Share>,
}

impl Limits {
    /// Whether there is none.
    #[must_use]
    pub const fn is_off(&self) -> bool {
        self.per_minute.is_none() && self.share.is_none()
    }
}

/// A part of the objects of a resource type, within a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// How many of a hundred.
    pub percent: NonZeroU32,
    pub window: Duration,
    /// So many are allowed in any case: a third of three objects is one.
    pub floor: u32,
}

impl Share {
    /// How many of so many objects may be deleted, one at least; fractions count as a whole
    /// one.
    #[must_use]
    pub fn of(&self, population: u64) -> u64 {
        let part = (u128::from(population) * u128::from(self.percent.get())).div_ceil(100);
        u64::try_from(part).unwrap_or(u64::MAX).max(u64::from(self.floor)).max(1)
    }
}
