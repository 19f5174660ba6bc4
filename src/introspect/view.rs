//! What the debug pages show. The JSON fields are a public interface.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::Serialize;

use super::queries::IdleQuery;
use super::stuck::StuckItem;
use kube_gc_controller::worker::comparison::{DisagreementView, is_zero};
use kube_gc_controller::worker::decision::JudgedOwner;
use kube_gc_core::object::{GroupResource, Identity, ResourceVersion};
use kube_gc_insight::{Answer, Explanation, Knowledge, State, Unseen};
use kube_gc_observe::telemetry::{Distribution, PrintedObject, Timestamp};

/// One monitor, on `/debug/monitors`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MonitorStatus {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version that is watched.
    pub version: String,
    /// The plural resource name.
    pub resource: String,
    /// Whether the graph contains its list and all later events.
    pub synced: bool,
    /// Since when it has been synced or not synced.
    pub since: Timestamp,
    /// The last error since it was last synced, in the server's own words; `null` if there was
    /// none.
    pub last_error: Option<String>,
    /// Since when it has failed, for `/readyz`.
    #[serde(skip)]
    pub failing_since: Option<Timestamp>,
}

impl MonitorStatus {
    /// Group and resource as kubectl writes them.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&self.group, &self.resource)
    }
}

/// A part of the API that cannot be discovered, on `/debug/discovery`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Undiscovered {
    /// The API group; empty for the core group, `*` for the list of groups.
    pub group: String,
    /// The version; `null` for all versions of the group.
    pub version: Option<String>,
    /// Since when it cannot be discovered.
    pub since: Timestamp,
    /// The last error, in the server's own words.
    pub last_error: String,
}

/// The keys of a queue by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueCounts {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Keys that workers are processing.
    pub processing: usize,
    /// Keys that failed and wait for their next attempt.
    pub delayed: usize,
    /// Keys that wait for a change in the cluster: for a kind to be served, or for a monitor
    /// to show an owner.
    pub parked: usize,
}

/// The answer of `/debug/idle`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdleReport {
    /// Whether no work is left and all versions in `seen` were reached.
    pub idle: bool,
    /// Why the collector is not idle, for people.
    pub reasons: Vec<String>,
    /// Each queue by name.
    pub queues: BTreeMap<String, QueueCounts>,
    /// Writes of the collector that its watches have not shown yet.
    pub unseen_writes: usize,
    /// The versions in `seen` that were not reached, as `RESOURCE=VERSION`.
    pub not_seen: Vec<String>,
    /// Why a version in `seen` will never be reached, or who is asked about is no owner.
    #[serde(skip)]
    pub unknown: Option<String>,
}

impl IdleReport {
    /// The collector is idle if all queues are empty, its watches have shown all of its writes,
    /// and `not_seen` is empty. `others` are further reasons why it is not idle, such as types
    /// that are still syncing.
    pub fn judge(
        query: &IdleQuery,
        queues: BTreeMap<String, QueueCounts>,
        unseen_writes: usize,
        not_seen: &[(GroupResource, ResourceVersion)],
        others: Vec<String>,
    ) -> Self {
        let mut reasons = others;
        for (name, &QueueCounts { ready, processing, delayed, parked }) in &queues {
            let counts = [
                (ready, "ready"),
                (processing, "in progress"),
                (delayed, "waiting for their next attempt"),
                (if query.parked_ok { 0 } else { parked }, "parked"),
            ];
            reasons.extend(
                counts
                    .iter()
                    .filter(|(count, _)| *count > 0)
                    .map(|(count, how)| format!("{name}: {count} {how}")),
            );
        }
        if unseen_writes > 0 {
            reasons.push(format!("{unseen_writes} writes of kube-gc have not been seen by its watches yet"));
        }
        let not_seen: Vec<_> =
            not_seen.iter().map(|(resource, version)| format!("{resource}={version}")).collect();
        reasons.extend(not_seen.iter().map(|seen| format!("{seen} has not been seen yet")));
        Self { idle: reasons.is_empty(), reasons, queues, unseen_writes, not_seen, unknown: None }
    }
}

/// One queue, on `/debug/queues`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueStatus {
    /// The queue, as in the label `name` of the workqueue metrics.
    pub name: String,
    /// Its state.
    #[serde(flatten)]
    pub now: QueueSummary,
    /// The number of additions.
    pub adds_total: u64,
    /// How often work on a key ended with a retry to come.
    pub retries_total: u64,
    /// The keys whose last attempt failed, the most attempts first.
    pub failing: Vec<FailingItem>,
}

/// An object that keeps failing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailingItem {
    /// The object.
    pub object: PrintedObject,
    /// Failed attempts in a row.
    pub attempts: u32,
    /// When it first failed.
    pub since: Timestamp,
    /// The last error, in the server's own words.
    pub last_error: String,
    /// Seconds until the next retry; `null` if it is queued or being processed.
    pub next_retry_seconds: Option<f64>,
}

/// The answer of `/debug/decisions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DecisionsPage {
    /// The number of decisions since the start.
    pub total: u64,
    /// The capacity of the decision log.
    pub capacity: usize,
    /// The matching decisions, newest first.
    pub decisions: Vec<DecisionView>,
    /// What was deleted, also longer ago, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deletions: Vec<DeletionsView>,
    /// In a dry run: its decisions that nobody else has carried out, newest first, unfiltered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disagreements: Option<Vec<DisagreementView>>,
}

/// A decision, on `/debug/decisions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecisionView {
    /// When it was carried out.
    pub at: Timestamp,
    /// The object.
    pub object: PrintedObject,
    /// The action: `delete`, `remove_references`, `keep`, …
    pub action: &'static str,
    /// The propagation policy of a deletion.
    pub policy: Option<&'static str>,
    /// The finalizer that was to be removed.
    pub finalizer: Option<&'static str>,
    /// The outcome, as in the log and the metrics.
    pub outcome: &'static str,
    /// The error, in the server's own words.
    pub error: Option<String>,
    /// The owners of the object, each with its state; at most 16.
    pub owners: Vec<JudgedOwner>,
    /// The number of further owners.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_owners: usize,
    /// The owner that caused the decision, if there is one.
    pub owner: Option<PrintedObject>,
}

/// Objects of one type that were deleted within a second because of one owner, on `/debug/decisions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeletionsView {
    /// When the first of them was deleted.
    pub at: Timestamp,
    /// Their namespace.
    pub namespace: Option<String>,
    /// Their type.
    pub resource: String,
    /// The owner.
    pub owner: JudgedOwner,
    /// How many there are.
    pub count: usize,
}

/// The answer of `/debug/search`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FoundPage {
    /// The objects: those with this name first, then those whose names begin so; owners before others.
    /// What is gone comes last.
    pub found: Vec<FoundObject>,
    /// Whether there are more.
    pub more: bool,
    /// What was looked for first, in words.
    pub searched: String,
}

/// An object that a search has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundObject {
    /// The object.
    #[serde(flatten)]
    pub object: PrintedObject,
    /// The kind.
    pub kind: String,
    /// Its state.
    pub state: State,
    /// When kube-gc deleted it, if it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Timestamp>,
}

impl FoundObject {
    /// An object that is there, or was deleted at this time.
    pub fn new(identity: &Identity, state: State, deleted: Option<SystemTime>) -> Self {
        let kind = identity.resource.kind.to_string();
        Self { object: identity.into(), kind, state, deleted: deleted.map(Timestamp) }
    }
}

/// The answer of `/debug/explain`: that of `kube-gc explain -o json`, with what the collector did.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplanationPage {
    /// The explanation.
    #[serde(flatten)]
    pub answer: Answer<Explanation>,
    /// The last decisions about it, newest first.
    pub decisions: Vec<DecisionView>,
    /// What keeps the collector from finishing with it.
    pub stuck: Option<StuckItem>,
}

impl ExplanationPage {
    /// About an object of a type that the collector ignores.
    pub fn of_ignored(resource: &GroupResource) -> Self {
        let what = resource.to_string();
        let why = "the collector ignores this type (`discovery.ignored`)".to_owned();
        let verdict = format!("The collector ignores {what}, so it does nothing about this object.");
        let explanation = Explanation { verdict, ..Explanation::default() };
        let mut answer = Answer::new(explanation, &Knowledge::default(), Vec::new());
        answer.miss(Unseen { what, why });
        Self { answer, decisions: Vec::new(), stuck: None }
    }
}

/// The answer of `/debug/summary`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SummaryPage {
    /// The API server, if it is known.
    pub server: Option<String>,
    /// The version of kube-gc.
    pub version: &'static str,
    /// Whether it only says what it would do.
    pub dry_run: bool,
    /// Whether it empties and finishes namespaces that are being deleted.
    pub finishes_namespaces: bool,
    /// Parts of the API that cannot be discovered, and types that cannot be listed or watched now, up
    /// to 16 of both.
    pub not_answering: Vec<Unseen>,
    /// Whether the collector works: it has started, and every type is synced.
    pub synced: bool,
    /// The number of watched types.
    pub types: usize,
    /// Types that are not synced, up to 16 of them.
    pub not_synced: Vec<String>,
    /// `alone`, `leader` or `standby`.
    pub role: &'static str,
    /// Of a standby: the leader, if it is known.
    pub leader: Option<String>,
    /// Why the brake is engaged.
    pub brake: Option<String>,
    /// The objects of the graph, stubs of owners included.
    pub objects: usize,
    /// Their owner references.
    pub references: usize,
    /// The decisions since the start.
    pub decisions_total: u64,
    /// The work queues by name.
    pub queues: BTreeMap<String, QueueSummary>,
    /// The number of stuck objects by reason.
    pub stuck: BTreeMap<&'static str, usize>,
    /// How long things took since the start.
    pub latencies: Latencies,
}

/// How long things took, as far as something has happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latencies {
    /// From the event after which an object had to go to its deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_lag: Option<Distribution>,
    /// Requests to the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Distribution>,
}

/// A work queue at a glance.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueSummary {
    /// The keys by state.
    #[serde(flatten)]
    pub counts: QueueCounts,
    /// How long the oldest ready key has waited.
    pub oldest_ready_seconds: Option<f64>,
    /// How long the longest work in progress has taken so far.
    pub longest_running_seconds: Option<f64>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::super::stuck::{StuckPage, hint};
    use super::*;
    use kube_gc_controller::worker::classified::Evidence;
    use kube_gc_core::object::{OwnerReference, Uid};
    use kube_gc_core::verdict::ReferenceClass;
    use kube_gc_observe::telemetry::StuckReason;

    const UID: &str = "0b1e5c1e-9b1a-4b58-8b7e-0f4b7a7e9d10";

    /// 2026-11-20T12:00:00Z.
    fn noon() -> Timestamp {
        Timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_176_000))
    }

    fn widgets() -> MonitorStatus {
        MonitorStatus {
            group: "example.com".to_owned(),
            version: "v1".to_owned(),
            resource: "widgets".to_owned(),
            synced: false,
            since: noon(),
            last_error: Some("conversion webhook failed:\nconnection refused".to_owned()),
            failing_since: Some(noon()),
        }
    }

    fn things() -> Undiscovered {
        Undiscovered {
            group: "things.example.com".to_owned(),
            version: Some("v1".to_owned()),
            since: noon(),
            last_error: "service\nunavailable".to_owned(),
        }
    }

    fn object() -> PrintedObject {
        PrintedObject {
            resource: "jobs.batch".to_owned(),
            namespace: Some("a".to_owned()),
            name: Some("b".to_owned()),
            uid: UID.to_owned(),
        }
    }

    /// The JSON fields are a public interface.
    #[test]
    fn pages_have_exactly_the_documented_fields() {
        let object_fields = json!({ "resource": "jobs.batch", "namespace": "a", "name": "b", "uid": UID });
        let monitors = json!({
            "group": "example.com", "version": "v1", "resource": "widgets", "synced": false,
            "since": "2026-11-20T12:00:00Z", "last_error": "conversion webhook failed:\nconnection refused",
        });
        assert_eq!(json!(widgets()), monitors);
        let undiscovered = json!({
            "group": "things.example.com", "version": "v1",
            "since": "2026-11-20T12:00:00Z", "last_error": "service\nunavailable",
        });
        assert_eq!(json!(things()), undiscovered);

        let queue = QueueStatus {
            name: "q".to_owned(),
            now: QueueSummary {
                counts: QueueCounts { parked: 1, ..QueueCounts::default() },
                oldest_ready_seconds: None,
                longest_running_seconds: Some(0.5),
            },
            adds_total: 3,
            retries_total: 2,
            failing: vec![FailingItem {
                object: object(),
                attempts: 2,
                since: noon(),
                last_error: "denied".to_owned(),
                next_retry_seconds: Some(1.5),
            }],
        };
        let fields = json!({
            "name": "q", "ready": 0, "processing": 0, "delayed": 0, "parked": 1,
            "adds_total": 3, "retries_total": 2, "oldest_ready_seconds": null, "longest_running_seconds": 0.5,
            "failing": [{
                "object": object_fields, "attempts": 2, "since": "2026-11-20T12:00:00Z", "last_error": "denied",
                "next_retry_seconds": 1.5,
            }],
        });
        assert_eq!(json!(queue), fields);

        let decision = DecisionView {
            more_owners: 0,
            at: noon(),
            object: object(),
            action: "delete",
            policy: Some("Background"),
            finalizer: None,
            outcome: "denied",
            error: Some("no".to_owned()),
            owners: vec![JudgedOwner {
                reference: OwnerReference {
                    api_version: "v1".into(),
                    kind: "Pod".into(),
                    name: "owner".into(),
                    uid: Uid::parse("u").unwrap(),
                    controller: false,
                    block_owner_deletion: true,
                },
                class: ReferenceClass::Absent,
                evidence: Evidence::Live,
                error: None,
            }],
            owner: None,
        };
        let page =
            DecisionsPage { total: 7, capacity: 2, decisions: vec![decision], ..DecisionsPage::default() };
        let fields = json!({
            "total": 7, "capacity": 2,
            "decisions": [{
                "at": "2026-11-20T12:00:00Z", "object": object_fields,
                "action": "delete", "policy": "Background", "finalizer": null, "outcome": "denied", "error": "no",
                "owners": [{
                    "api_version": "v1", "kind": "Pod", "name": "owner", "uid": "u", "blocking": true,
                    "controller": false, "class": "absent", "evidence": "live", "error": null,
                }],
                "owner": null,
            }],
        });
        assert_eq!(json!(page), fields);

        let stuck = StuckItem {
            object: object(),
            reason: StuckReason::Denied.name(),
            since: noon(),
            waiting_seconds: 3.5,
            attempts: Some(2),
            next_retry_seconds: None,
            message: "no".to_owned(),
            blocked_by: Vec::new(),
            hint: hint(StuckReason::Denied),
        };
        for (reason, is_other) in [(StuckReason::Held, true), (StuckReason::Denied, false)] {
            let item =
                StuckItem { reason: reason.name(), ..stuck.clone() }.beside(&mut Explanation::default());
            assert_eq!(item.hint != stuck.hint, is_other, "an explanation does not point to itself");
        }
        let page = StuckPage { standby: false, totals: BTreeMap::from([("denied", 1)]), stuck: vec![stuck] };
        let fields = json!({
            "standby": false, "totals": { "denied": 1 },
            "stuck": [{
                "object": object_fields, "reason": "denied", "since": "2026-11-20T12:00:00Z",
                "waiting_seconds": 3.5, "attempts": 2, "next_retry_seconds": null, "message": "no",
                "hint": hint(StuckReason::Denied),
            }],
        });
        assert_eq!(json!(page), fields);
    }

    #[test]
    fn any_work_is_a_reason_not_to_be_idle() {
        let parked_ok = IdleQuery { parked_ok: true, ..IdleQuery::default() };
        let judge = |counts, unseen, others| {
            let queues = BTreeMap::from([("q".to_owned(), counts)]);
            IdleReport::judge(&parked_ok, queues, unseen, &[], others).idle
        };
        let none = QueueCounts::default();
        let parked = QueueCounts { parked: 1, ..none };
        assert!(judge(none, 0, vec![]) && judge(parked, 0, vec![]));
        let queues = BTreeMap::from([("q".to_owned(), parked)]);
        let report = IdleReport::judge(&IdleQuery::default(), queues, 0, &[], Vec::new());
        assert_eq!((report.idle, report.reasons), (false, vec!["q: 1 parked".to_owned()]));
        for (counts, unseen, others) in [
            (QueueCounts { ready: 1, ..none }, 0, vec![]),
            (QueueCounts { processing: 1, ..none }, 0, vec![]),
            (QueueCounts { delayed: 1, ..none }, 0, vec![]),
            (none, 1, vec![]),
            (none, 0, vec!["syncing".to_owned()]),
        ] {
            assert!(!judge(counts, unseen, others));
        }
    }
}
