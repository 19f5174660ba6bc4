//! What a confirmation round of the orphan workers needs to know of the monitored types.

use std::sync::Arc;

use crate::api::GroupFailure;
use kube_gc_core::object::{Catalog, ResourceType};

/// The types that a round has to list. Discovery publishes them.
#[derive(Clone, Debug, Default)]
pub struct RoundTypes {
    /// Every monitored type.
    pub types: Vec<RoundType>,
    /// Resolves the references that are found.
    pub catalog: Arc<Catalog>,
    /// The parts of the API that were never discovered and may contain any dependents.
    pub undiscovered: Vec<GroupFailure>,
}

/// Whether a group that was never discovered may contain dependents. The groups of metrics are
/// computed at each request: their types can be neither watched nor deleted (rule 5.15).
pub fn may_contain_dependents(group: &str) -> bool {
    const METRICS: &str = "metrics.k8s.io";
    !group.strip_suffix(METRICS).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// One type that a round has to list.
#[derive(Clone, Debug)]
pub struct RoundType {
    /// The type.
    pub resource: Arc<ResourceType>,
    /// How it is followed.
    pub followed: Followed,
}

/// How far a round can rely on the monitor of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// The type was never synced: its dependents are unknown.
    Not,
    /// The type is no longer synced: the graph has its objects as they were at the end of its watch.
    NoLonger,
    /// The type is synced. Its versions are those of an aggregated API server and do not show how
    /// far the monitor is.
    Somehow,
    /// The type is synced, and its versions show how far the monitor is.
    ByVersion,
}

impl Followed {
    /// Whether the type is synced.
    pub const fn is_synced(self) -> bool {
        match self {
            Self::Not | Self::NoLonger => false,
            Self::Somehow | Self::ByVersion => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 5.15.
    #[test]
    fn groups_of_metrics_contain_no_dependents() {
        for metrics in ["metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"] {
            assert!(!may_contain_dependents(metrics), "{metrics}");
        }
        for other in ["", "example.com", "notmetrics.k8s.io", "metrics.k8s.io.example.com"] {
            assert!(may_contain_dependents(other), "{other}");
        }
    }
}
