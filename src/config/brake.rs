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
    /// Deletions in a minute at most; 0 means no limit.
    pub deletions_per_minute: u32,
    /// Deletions of a resource type's objects within a window at most, of a hundred; 0
    /// means no limit.
    pub percent: u32,
    /// So many of a type are allowed within a window whatever the percentage.
    pub percent_floor: u32,
    /// The window of `percent`.
    #[serde(with = "text::duration")]
    pub window: Duration,
}

impl Default for BrakeSettings {
    fn default() -> Self {
        Self { deletions_per_minute: 0, percent: 0, percent_floor: 10, window: Duration::from_secs(600) }
    }
}

impl BrakeSettings {
    /// What they mean.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let Self { deletions_per_minute, percent, percent_floor: floor, window } = *self;
        Limits {
            per_minute: NonZeroU32::new(deletions_per_minute),
            share: NonZeroU32::new(percent).map(|percent| Share { percent, window, floor }),
        }
    }
}
