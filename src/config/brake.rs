//! `[brake]`

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::text;
use kube_gc_core::brake::{Limits, Share};

/// `[brake]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrakeSettings {
    /// The most deletions in a minute; 0 means no limit.
    pub deletions_per_minute: u32,
    /// The most deletions in a minute in one namespace; 0 means no limit.
    pub namespace_deletions_per_minute: u32,
    /// The highest percentage of a resource type's objects that may be deleted within
    /// `window`; 0 means no limit.
    pub percent: u32,
    /// How many objects of a type may be deleted within `window` whatever the percentage.
    pub percent_floor: u32,
    /// The window of `percent`.
    #[serde(with = "text::duration")]
    pub window: Duration,
}

impl Default for BrakeSettings {
    fn default() -> Self {
        Self {
            deletions_per_minute: 0,
            namespace_deletions_per_minute: 0,
            percent: 0,
            percent_floor: 10,
            window: Duration::from_secs(600),
        }
    }
}

impl BrakeSettings {
    /// The limits that the brake enforces.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let Self {
            deletions_per_minute,
            namespace_deletions_per_minute,
            percent,
            percent_floor: floor,
            window,
        } = *self;
        Limits {
            per_minute: NonZeroU32::new(deletions_per_minute),
            namespace_per_minute: NonZeroU32::new(namespace_deletions_per_minute),
            share: NonZeroU32::new(percent).map(|percent| Share { percent, window, floor }),
        }
    }
}
