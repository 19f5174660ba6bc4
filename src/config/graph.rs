//! `[graph]`

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::text;

/// The upper bound for the default number of partitions. Each takes a thread and some
/// memory, and events rarely keep more of them busy.
const MAX_DEFAULT_PARTITIONS: usize = 8;

/// With so few cores, reading what the API server sends keeps all of them busy.
const FEW_CORES: usize = 2;

/// The number of cores that this process may use.
#[must_use]
pub fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// `[graph]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSettings {
    /// Partitions; 0 means one for each core, at most 8. See [`GraphSettings::partition_count`].
    pub partitions: u16,
    /// The threads that the partitions run on. See [`GraphSettings::has_own_threads`].
    pub threads: GraphThreads,
    /// Capacity of the cache of absent owners.
    pub absent_owner_capacity: usize,
    /// How old a dependent must be before a GET that does not find its owner counts.
    #[serde(with = "text::duration")]
    pub birth_grace: Duration,
}

/// The threads that the partitions of the graph run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GraphThreads {
    /// `Own` on a machine with more than two cores, `Shared` otherwise.
    #[default]
    Auto,
    /// One thread for each partition.
    Own,
    /// The thread that runs the actors and the requests about single objects.
    Shared,
}

impl Default for GraphSettings {
    fn default() -> Self {
        Self {
            partitions: 0,
            threads: GraphThreads::default(),
            absent_owner_capacity: 500,
            birth_grace: Duration::from_secs(2),
        }
    }
}

impl GraphSettings {
    /// The number of partitions on a machine with this many cores.
    #[must_use]
    pub fn partition_count(&self, cores: usize) -> usize {
        match self.partitions {
            0 => cores.clamp(1, MAX_DEFAULT_PARTITIONS),
            count => count.into(),
        }
    }

    /// Whether each partition has its own thread on a machine with this many cores.
    #[must_use]
    pub fn has_own_threads(&self, cores: usize) -> bool {
        match self.threads {
            GraphThreads::Auto => cores > FEW_CORES,
            GraphThreads::Own => true,
            GraphThreads::Shared => false,
        }
    }
}
