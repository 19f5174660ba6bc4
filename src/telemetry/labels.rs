//! The values of labels that have a fixed set of values.

use super::names::{self, Metric};
use super::record::{
    ApiSide, EventKind, HttpRefusal, InvalidReference, LeaseTransition, MonitorState, PatchConflict, Queue,
    StuckReason,
};

/// The actions of decisions.
const ACTIONS: &[&str] =
    &["delete", "keep", "orphan", "remove_finalizer", "remove_references", "stop_blocking"];

/// The outcomes of decisions.
const OUTCOMES: &[&str] = &[
    "already_being_deleted",
    "already_gone",
    "braked",
    "conflict",
    "deferred",
    "deleted",
    "deletion_pending",
    "denied",
    "dry_run",
    "failed",
    "not_being_deleted",
    "parked",
    "patched",
    "reevaluated",
    "removed",
    "throttled",
    "unknown",
    "unneeded",
];

/// The verbs of requests to the API server.
const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "discover", "get", "list", "patch", "update", "watch"];

/// All values that a label of a metric may have; `None` if the values come from the cluster,
/// such as a resource type, a group or a status code.
#[must_use]
pub fn values(metric: &Metric, label: &str) -> Option<Vec<&'static str>> {
    let is = |other: &Metric| metric.name == other.name;
    let pools = Queue::POOLS.map(Queue::name);
    match label {
        "name" if is(&names::WORKER_RESTARTS) => Some(pools.to_vec()),
        "name" => Some(Queue::ALL.map(Queue::name).to_vec()),
        "kind" => Some(EventKind::ALL.map(EventKind::label).to_vec()),
        "state" if is(&names::MONITORS) => Some(MonitorState::ALL.map(MonitorState::label).to_vec()),
        "transition" => Some(LeaseTransition::ALL.map(LeaseTransition::label).to_vec()),
        "server" => Some(ApiSide::ALL.map(ApiSide::name).to_vec()),
        "verb" => Some(VERBS.to_vec()),
        "action" if is(&names::DECISIONS) || is(&names::DENIED_WRITES) => Some(ACTIONS.to_vec()),
        "action" if is(&names::COMPARISONS) => Some(super::record::COMPARED_ACTIONS.to_vec()),
        "result" if is(&names::COMPARISONS) => Some(super::record::COMPARISON_RESULTS.to_vec()),
        "outcome" if is(&names::NODE_REMOVALS) => Some(super::record::NODE_OUTCOMES.to_vec()),
        "outcome" if is(&names::NAMESPACE_TURNS) => Some(super::record::NAMESPACE_OUTCOMES.to_vec()),
        "outcome" => Some(OUTCOMES.to_vec()),
        "what" => Some(super::record::NODE_ITEMS.to_vec()),
        "scope" => Some(super::record::PASS_SCOPES.to_vec()),
        "state" if is(&names::NODE_FILESYSTEM_BYTES) => Some(super::record::FILESYSTEM_STATES.to_vec()),
        "reason" if is(&names::IMAGE_GARBAGE_COLLECTED) => Some(super::record::IMAGE_REASONS.to_vec()),
        "list" => Some(super::record::LISTS.to_vec()),
        "next" if is(&names::PATCH_CONFLICTS) => Some(PatchConflict::ALL.map(PatchConflict::label).to_vec()),
        "next" if is(&names::DELETE_CONFLICTS) => Some(super::record::AFTER_CONFLICT.to_vec()),
        "reason" if is(&names::GATE_REFUSALS) => Some(super::record::GATE_REASONS.to_vec()),
        "reason" if is(&names::REQUESTS_DEFERRED) => Some(super::record::DEFERRED_FOR.to_vec()),
        "reason" if is(&names::HTTP_REFUSALS) => Some(HttpRefusal::ALL.map(HttpRefusal::label).to_vec()),
        "thread" => Some(super::threads::GROUPS.to_vec()),
        "limit" => Some(super::record::LIMITS.to_vec()),
        "listener" => Some(super::record::LISTENERS.to_vec()),
        "result" if is(&names::TLS_RELOADS) => Some(super::record::RELOADS.to_vec()),
        "reason" if is(&names::STUCK_OBJECTS) || is(&names::STUCK_OLDEST_AGE) => {
            Some(StuckReason::ALL.map(StuckReason::as_str).to_vec())
        }
        "reason" if is(&names::INVALID_REFERENCES) => {
            Some(InvalidReference::ALL.map(InvalidReference::label).to_vec())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// The string literals of a source without escaped quotation marks.
    fn literals(source: &str) -> impl Iterator<Item = &str> {
        let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        code.flat_map(|line| line.split('"').skip(1).step_by(2))
    }

    /// The outcomes are declared in `worker/decision` and where `Ended` is implemented, which do not
    /// know this list.
    #[test]
    fn no_word_for_an_outcome_is_missing() {
        let is_word =
            |text: &&str| !text.is_empty() && text.bytes().all(|c| c == b'_' || c.is_ascii_lowercase());
        let ends =
            [include_str!("../worker/decision/observer.rs"), include_str!("../worker/delete/deletion.rs")];
        let ends = ends.into_iter().flat_map(|source| source.split("impl Ended for").skip(1));
        let ends = ends.filter_map(|ended| ended.split("\n}\n").next());
        let sources = ends.chain([include_str!("../worker/decision/mod.rs")]);
        let words: Vec<_> = sources.flat_map(literals).filter(is_word).collect();
        assert!(words.len() >= OUTCOMES.len());
        for word in words {
            assert!(OUTCOMES.contains(&word) || word == "decision", "{word} is not among them");
        }
    }

    #[test]
    fn no_word_for_an_action_is_missing() {
        let mut open = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/worker")];
        let mut found = 0;
        while let Some(path) = open.pop() {
            if path.is_dir() {
                open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            for call in source.split("DecisionLine::new(").skip(1) {
                let action = call.split('"').nth(1).unwrap();
                assert!(ACTIONS.contains(&action), "{action} in {} is not among them", path.display());
                found += 1;
            }
        }
        assert!(found >= ACTIONS.len());
    }
}
