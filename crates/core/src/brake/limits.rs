//! The limits of the brake.

use std::num::NonZeroU32;
use std::time::Duration;

/// Optional limits. Without any, every deletion is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// How many deletions are allowed in any minute.
    pub per_minute: Option<NonZeroU32>,
    /// How many of them may be in one namespace. Beyond that, deletion pauses only there.
    pub namespace_per_minute: Option<NonZeroU32>,
    /// Which share of a resource type's objects may be deleted within a window.
    pub share: Option<Share>,
}

impl Limits {
    pub const fn is_off(&self) -> bool {
        let Self { per_minute, namespace_per_minute, share } = self;
        per_minute.is_none() && namespace_per_minute.is_none() && share.is_none()
    }
}

/// A share of the objects of a resource type, within a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub percent: NonZeroU32,
    pub window: Duration,
    /// This many deletions are always allowed, because a small type reaches any percentage soon.
    pub floor: u32,
}

impl Share {
    /// How many of this many objects may be deleted: at least one, rounded up.
    pub fn of(&self, population: u64) -> u64 {
        let part = (u128::from(population) * u128::from(self.percent.get())).div_ceil(100);
        u64::try_from(part).unwrap_or(u64::MAX).max(u64::from(self.floor)).max(1)
    }
}
