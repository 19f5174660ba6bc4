//! Parts of the API that cannot be discovered, and since when.

use std::time::SystemTime;

use kube_gc_client::{ApiError, GroupFailure};
use kube_gc_core::object::GroupResource;
use kube_gc_observe::telemetry::record;

/// Stands for the list of groups itself.
const EVERYTHING: &str = "*";

/// A part of the API that cannot be discovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryFailure {
    pub failure: GroupFailure,
    pub since: SystemTime,
    pub is_logged: bool,
}

impl DiscoveryFailure {
    /// Whether the type may be in this part. A name without a group may be that of a type in any group.
    pub fn may_hide(&self, resource: &GroupResource) -> bool {
        let group = &self.failure.group;
        resource.group.is_empty() || *group == resource.group || **group == *EVERYTHING
    }

    pub(super) fn is_about(&self, failure: &GroupFailure) -> bool {
        self.failure.group == failure.group && self.failure.version == failure.version
    }
}

/// What fails after a discovery with these failures. A failure that goes on keeps its start.
pub(super) fn after(
    before: &[DiscoveryFailure],
    failures: &[GroupFailure],
    now: SystemTime,
) -> Vec<DiscoveryFailure> {
    let known = |failure: &GroupFailure| before.iter().find(|known| known.is_about(failure));
    let each = failures.iter().map(|failure| {
        let (since, is_logged) = known(failure).map_or((now, false), |known| (known.since, known.is_logged));
        DiscoveryFailure { failure: failure.clone(), since, is_logged }
    });
    each.collect()
}

/// What fails after a discovery that failed as a whole: everything, and what failed before.
pub(super) fn after_nothing(
    before: &[DiscoveryFailure],
    error: &ApiError,
    now: SystemTime,
) -> Vec<DiscoveryFailure> {
    let everything = GroupFailure { group: EVERYTHING.into(), version: None, error: error.to_string() };
    let mut all: Vec<_> = before.iter().map(|known| known.failure.clone()).collect();
    all.retain(|known| known.group != everything.group);
    all.push(everything);
    after(before, &all, now)
}

/// Logs failures of discovery: one line when one begins, and one when it is over. During an outage
/// of the API server, the line about that stands for all.
pub(super) fn log(before: &[DiscoveryFailure], now: &mut [DiscoveryFailure], is_outage: bool) {
    for failing in &mut *now {
        let GroupFailure { group, version, error, .. } = &failing.failure;
        let version = version.as_deref();
        if failing.is_logged || is_outage {
            tracing::debug!(%group, version, error, "discovery failed");
            continue;
        }
        failing.is_logged = true;
        if **group == *EVERYTHING {
            tracing::warn!(error, "discovery failed; kube-gc keeps the types that it knows");
        } else {
            tracing::warn!(
                %group,
                version,
                error,
                "cannot discover a group of the API; kube-gc keeps watching its known types"
            );
        }
    }
    let is_over = |known: &&DiscoveryFailure| !now.iter().any(|failing| failing.is_about(&known.failure));
    for DiscoveryFailure { failure, since, .. } in
        before.iter().filter(|known| known.is_logged).filter(is_over)
    {
        let GroupFailure { group, version, .. } = failure;
        let seconds = since.elapsed().unwrap_or_default().as_secs_f64();
        if **group == *EVERYTHING {
            tracing::info!(seconds, "discovery works again");
        } else {
            tracing::info!(%group, version = version.as_deref(), seconds, "discovery of this group no longer fails");
        }
    }
}

pub(super) fn record(before: &[DiscoveryFailure], now: &[DiscoveryFailure]) {
    for DiscoveryFailure { failure, .. } in before {
        if !now.iter().any(|failing| failing.is_about(failure)) {
            record::undiscovered(&failure.group, failure.version.as_deref(), false);
        }
    }
    for DiscoveryFailure { failure, .. } in now {
        record::undiscovered(&failure.group, failure.version.as_deref(), true);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use kube_gc_client::ErrorClass;
    use kube_gc_observe::telemetry::testing::logged;

    fn failure(group: &str, error: &str) -> GroupFailure {
        GroupFailure { group: group.into(), version: Some("v1".into()), error: error.to_owned() }
    }

    /// The group of each, and since when it fails, in seconds.
    fn since(failing: &[DiscoveryFailure]) -> Vec<(&str, u64)> {
        let each = failing.iter().map(|one| {
            let since = one.since.duration_since(SystemTime::UNIX_EPOCH).unwrap();
            (&*one.failure.group, since.as_secs())
        });
        each.collect()
    }

    fn at(second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(second)
    }

    #[test]
    fn a_continuing_failure_keeps_its_time_and_has_the_latest_error() {
        let before = after(&[], &[failure("a", "one"), failure("b", "two")], at(0));
        let now = after(&before, &[failure("b", "three"), failure("c", "four")], at(1));
        assert_eq!((since(&now), &*now[0].failure.error), (vec![("b", 0), ("c", 1)], "three"));
    }

    #[test]
    fn a_discovery_without_an_answer_ends_no_failure() {
        let (class, message) = (ErrorClass::Transient, "connection refused".to_owned());
        let error = ApiError { class, action: "GET", target: "/apis".to_owned(), message, code: None };
        let once = after_nothing(&after(&[], &[failure("a", "one")], at(0)), &error, at(1));
        let twice = after_nothing(&once, &error, at(2));
        assert_eq!(once, twice);
        assert_eq!(since(&twice), [("a", 0), ("*", 1)]);
    }

    /// Fails if a failure that lasts has a line each time, or if one that outlasts an outage has none.
    #[test]
    fn a_failure_has_a_line_when_it_begins_and_one_when_it_is_over() {
        let at = SystemTime::UNIX_EPOCH;
        let mut lasts = after(&[], &[failure("a", "down")], at);
        log(&[], &mut lasts, true);
        assert!(!lasts[0].is_logged, "the outage has its own line");
        for _ in 0..2 {
            let mut next = after(&lasts, &[failure("a", "down")], at);
            let lines = logged(|| log(&lasts, &mut next, false));
            assert_eq!(lines.lines().count(), usize::from(!lasts[0].is_logged), "{lines}");
            lasts = next;
        }
        let lines = logged(|| log(&lasts, &mut [], false));
        assert!(lines.contains("no longer fails group=a version=\"v1\" seconds="), "{lines}");
    }
}
