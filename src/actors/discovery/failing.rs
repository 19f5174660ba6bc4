//! Parts of the API that cannot be discovered, and since when.

use std::time::SystemTime;

use crate::api::{ApiError, ErrorClass, GroupFailure};
use crate::telemetry::record;

/// Stands for the list of groups itself.
const EVERYTHING: &str = "*";

/// A part of the API that cannot be discovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The part, and the error of the server.
    pub failure: GroupFailure,
    /// When the failure began.
    pub since: SystemTime,
}

impl Failing {
    pub(super) fn is_about(&self, failure: &GroupFailure) -> bool {
        self.failure.group == failure.group && self.failure.version == failure.version
    }
}

/// What fails after a discovery with these failures. A failure that goes on keeps its start.
pub(super) fn after(before: &[Failing], failures: &[GroupFailure], now: SystemTime) -> Vec<Failing> {
    let since = |failure: &GroupFailure| {
        before.iter().find(|known| known.is_about(failure)).map_or(now, |known| known.since)
    };
    failures.iter().map(|failure| Failing { failure: failure.clone(), since: since(failure) }).collect()
}

/// What fails after a discovery that failed as a whole: everything, and what failed before.
pub(super) fn after_nothing(before: &[Failing], error: &ApiError, now: SystemTime) -> Vec<Failing> {
    let everything = GroupFailure {
        group: EVERYTHING.into(),
        version: None,
        error: error.to_string(),
        forbidden: error.class == ErrorClass::Denied,
    };
    let mut all: Vec<_> = before.iter().map(|known| known.failure.clone()).collect();
    all.retain(|known| known.group != everything.group);
    all.push(everything);
    after(before, &all, now)
}

/// Updates the metrics.
pub(super) fn record(before: &[Failing], now: &[Failing]) {
    for Failing { failure, .. } in before {
        if !now.iter().any(|failing| failing.is_about(failure)) {
            record::undiscovered(&failure.group, failure.version.as_deref(), false);
        }
    }
    for Failing { failure, .. } in now {
        record::undiscovered(&failure.group, failure.version.as_deref(), true);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn failure(group: &str, error: &str) -> GroupFailure {
        GroupFailure {
            group: group.into(),
            version: Some("v1".into()),
            error: error.to_owned(),
            forbidden: false,
        }
    }

    #[test]
    fn a_continuing_failure_keeps_its_time_and_has_the_latest_error() {
        let first = SystemTime::UNIX_EPOCH;
        let second = first + Duration::from_secs(1);
        let before = after(&[], &[failure("a", "one"), failure("b", "two")], first);
        let now = after(&before, &[failure("b", "three"), failure("c", "four")], second);
        let known: Vec<_> =
            now.iter().map(|one| (&*one.failure.group, one.failure.error.as_str(), one.since)).collect();
        assert_eq!(known, [("b", "three", first), ("c", "four", second)]);
    }

    #[test]
    fn a_discovery_without_an_answer_ends_no_failure() {
        let error = ApiError {
            class: ErrorClass::Transient,
            action: "GET",
            target: "/apis".to_owned(),
            message: "connection refused".to_owned(),
            code: None,
        };
        let first = SystemTime::UNIX_EPOCH;
        let second = first + Duration::from_secs(1);
        let before = after(&[], &[failure("a", "one")], first);
        let once = after_nothing(&before, &error, second);
        let twice = after_nothing(&once, &error, second + Duration::from_secs(1));
        assert_eq!(once, twice);
        let known: Vec<_> = twice.iter().map(|one| (&*one.failure.group, one.since)).collect();
        assert_eq!(known, [("a", first), ("*", second)]);
    }
}
