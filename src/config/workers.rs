//! `[workers]`, `[retry]`, `[comparison]` and `[events]`: how the pools process objects, and what
//! is reported about them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::text;

/// `[workers]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSettings {
    /// Workers of the delete pool.
    pub delete: usize,
    /// Workers of the orphan pool.
    pub orphan: usize,
    /// Dependents that all orphan workers together release at a time.
    pub release: usize,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self { delete: 100, orphan: 5, release: 64 }
    }
}

/// `[retry]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrySettings {
    /// The backoff after the first failure of an object.
    #[serde(with = "text::duration")]
    pub min: Duration,
    /// The longest backoff between two attempts at an object.
    #[serde(with = "text::duration")]
    pub max: Duration,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self { min: Duration::from_millis(5), max: Duration::from_secs(1000) }
    }
}

/// `[comparison]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparisonSettings {
    /// How long another collector may take to do what a dry run decided.
    #[serde(with = "text::duration")]
    pub grace: Duration,
}

impl Default for ComparisonSettings {
    fn default() -> Self {
        Self { grace: Duration::from_secs(60) }
    }
}

/// `[events]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSettings {
    /// How long an object is stuck before a Warning event about it; zero for no such events.
    #[serde(with = "text::duration")]
    pub stuck_after: Duration,
}

impl Default for EventSettings {
    fn default() -> Self {
        Self { stuck_after: Duration::from_secs(5 * 60) }
    }
}
