//! Synced types that rounds cannot list.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

use kube_gc_core::object::GroupResource;

/// How long rounds must have failed to list a synced type before they skip it. Its watch may
/// continue while its lists fail, for example when a conversion webhook broke later. The graph then
/// has all of its dependents except late ones.
const PASSED_OVER_AFTER: Duration = Duration::from_secs(30);
/// Failures that are further apart than this do not count together.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// Remembers since when lists of each synced type fail. One broken type must not block every
/// orphaning forever, and a short failure must not lose a late dependent.
#[derive(Clone, Debug, Default)]
pub struct Unlistable(Arc<DashMap<GroupResource, ListFailure>>);

#[derive(Debug)]
struct ListFailure {
    since: Instant,
    last: Instant,
}

impl Unlistable {
    /// A round could not list a synced type. Returns whether to skip it.
    pub fn failed(&self, resource: &GroupResource) -> bool {
        let now = Instant::now();
        let mut failing =
            self.0.entry(resource.clone()).or_insert_with(|| ListFailure { since: now, last: now });
        if now - failing.last > FORGOTTEN_AFTER {
            failing.since = now;
        }
        failing.last = now;
        now - failing.since >= PASSED_OVER_AFTER
    }

    /// A round listed it.
    pub fn listed(&self, resource: &GroupResource) {
        self.0.remove(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widgets() -> GroupResource {
        GroupResource::parse("widgets.example.com")
    }

    #[tokio::test(start_paused = true)]
    async fn a_type_is_passed_over_after_failing_for_long() {
        let unlistable = Unlistable::default();
        for _ in 0..10 {
            assert!(!unlistable.failed(&widgets()));
            tokio::time::advance(PASSED_OVER_AFTER / 10).await;
        }
        assert!(unlistable.failed(&widgets()));
        assert!(!unlistable.failed(&GroupResource::parse("configmaps")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_successful_list_resets_the_failures() {
        let unlistable = Unlistable::default();
        assert!(!unlistable.failed(&widgets()));
        unlistable.listed(&widgets());
        tokio::time::advance(PASSED_OVER_AFTER).await;
        assert!(!unlistable.failed(&widgets()));
    }

    #[tokio::test(start_paused = true)]
    async fn two_failures_far_apart_are_counted_separately() {
        let unlistable = Unlistable::default();
        assert!(!unlistable.failed(&widgets()));
        tokio::time::advance(FORGOTTEN_AFTER + PASSED_OVER_AFTER).await;
        assert!(!unlistable.failed(&widgets()));
    }
}
