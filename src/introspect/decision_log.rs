//! The last decisions, for the debug page.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use kube_gc_client::Finalizer;
use kube_gc_controller::worker::decision::{DecisionObserver, DecisionRecord, Occurrence};
use kube_gc_core::object::PropagationPolicy;
use kube_gc_observe::telemetry::{ObjectView, Timestamp, record};

use super::queries::{DEFAULT_LIMIT, DecisionQuery};
use super::view::{DecisionView, DecisionsPage};

/// Keeps the last decisions. Clones share them.
///
/// Decisions are stored as they are; the text of the page is produced on request.
#[derive(Clone, Debug)]
pub struct DecisionLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    capacity: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    last: VecDeque<Arc<DecisionLogEntry>>,
    /// The size of these entries.
    bytes: usize,
    total: u64,
}

/// The maximum size of the log in bytes, whatever the number of decisions: each may name owners
/// with long names.
pub const MAX_LOG_BYTES: usize = 4 << 20;

/// A decision and when it ended.
#[derive(Clone, Debug)]
pub struct DecisionLogEntry {
    /// When the decision ended.
    pub at: SystemTime,
    pub decision: DecisionRecord,
}

impl DecisionLog {
    /// A log of at most this many decisions.
    pub fn new(capacity: usize) -> Self {
        Self(Arc::new(Inner { capacity, entries: Mutex::default() }))
    }

    /// The maximum number of decisions.
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// The total number of decisions, and the last of them, newest first.
    pub fn last(&self) -> (u64, Vec<Arc<DecisionLogEntry>>) {
        let entries = self.entries();
        (entries.total, entries.last.iter().rev().cloned().collect())
    }

    /// The page that answers a query.
    pub fn page(&self, query: &DecisionQuery) -> DecisionsPage {
        let (total, last) = self.last();
        let selected =
            last.iter().filter(|entry| matches(query, entry)).take(query.limit.unwrap_or(DEFAULT_LIMIT));
        let decisions = selected.map(|entry| view(entry)).collect();
        DecisionsPage { total, capacity: self.capacity(), decisions, disagreements: None }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // The entries are consistent even after a panic elsewhere.
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DecisionObserver for DecisionLog {
    fn decided(&self, decision: &DecisionRecord) -> Occurrence {
        let mut entries = self.entries();
        entries.total += 1;
        if self.0.capacity > 0 {
            entries.bytes += decision.bytes();
            entries
                .last
                .push_back(Arc::new(DecisionLogEntry { at: SystemTime::now(), decision: decision.clone() }));
        }
        while entries.last.len() > self.0.capacity || entries.bytes > MAX_LOG_BYTES {
            let Some(first) = entries.last.pop_front() else { break };
            entries.bytes -= first.decision.bytes();
        }
        record::decision_log_bytes(entries.bytes);
        drop(entries);
        Occurrence::First
    }
}

fn matches(query: &DecisionQuery, entry: &DecisionLogEntry) -> bool {
    let DecisionRecord { object, action, outcome, .. } = &entry.decision;
    let DecisionQuery { namespace, resource, uid, action: wanted_action, outcome: wanted_outcome, limit: _ } =
        query;
    namespace.as_ref().is_none_or(|wanted| object.namespace.as_ref() == Some(wanted))
        && resource.as_ref().is_none_or(|wanted| object.resource.group_resource == *wanted)
        && uid.as_ref().is_none_or(|wanted| object.uid == *wanted)
        && wanted_action.as_ref().is_none_or(|wanted| action == wanted)
        && wanted_outcome.as_ref().is_none_or(|wanted| outcome == wanted)
}

fn view(entry: &DecisionLogEntry) -> DecisionView {
    let DecisionLogEntry { at, decision } = entry;
    let DecisionRecord {
        object,
        action,
        policy,
        finalizer,
        owners,
        more_owners,
        removed: _,
        owner,
        outcome,
        error,
    } = decision;
    DecisionView {
        at: Timestamp(*at),
        object: object.into(),
        action,
        policy: policy.map(PropagationPolicy::as_str),
        finalizer: finalizer.map(Finalizer::name),
        outcome,
        error: error.clone(),
        owners: owners.clone(),
        more_owners: *more_owners,
        owner: owner.as_ref().map(ObjectView::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_gc_controller::worker::classified::Evidence;
    use kube_gc_controller::worker::decision::JudgedOwner;
    use kube_gc_core::object::config_map;
    use kube_gc_core::object::{GroupResource, Namespace, OwnerReference, Uid};
    use kube_gc_core::verdict::ReferenceClass;

    fn decision(name: &str) -> DecisionRecord {
        DecisionRecord {
            object: config_map("ns", name, name),
            action: "delete",
            policy: None,
            finalizer: None,
            owners: Vec::new(),
            more_owners: 0,
            removed: None,
            owner: None,
            outcome: "deleted",
            error: None,
        }
    }

    fn names(log: &DecisionLog) -> Vec<String> {
        log.last().1.iter().map(|entry| entry.decision.object.name.to_string()).collect()
    }

    #[test]
    fn the_last_decisions_are_kept_newest_first() {
        let log = DecisionLog::new(2);
        assert_eq!(log.last().0, 0);
        for name in ["a", "b", "c"] {
            log.decided(&decision(name));
        }
        assert_eq!((log.last().0, names(&log)), (3, vec!["c".to_owned(), "b".to_owned()]));
        let counts_only = DecisionLog::new(0);
        counts_only.decided(&decision("a"));
        assert_eq!((counts_only.last().0, names(&counts_only).len()), (1, 0));
    }

    /// Rule 9.7.
    #[test]
    fn a_page_shows_the_selected_decisions_in_full() {
        let log = DecisionLog::new(10);
        let reference = OwnerReference {
            api_version: "example.com/v1".into(),
            kind: "Widget".into(),
            name: "w".into(),
            uid: Uid::parse("u").unwrap(),
            controller: true,
            block_owner_deletion: false,
        };
        let judged = JudgedOwner {
            reference,
            class: ReferenceClass::Unresolved,
            evidence: Evidence::Live,
            error: Some("500 Internal Server Error: says the server".into()),
        };
        log.decided(&DecisionRecord { action: "keep", outcome: "parked", ..decision("kept") });
        log.decided(&DecisionRecord {
            owners: vec![judged],
            policy: Some(PropagationPolicy::Background),
            finalizer: Some(Finalizer::Orphan),
            error: Some("403 Forbidden: says the webhook".to_owned()),
            outcome: "denied",
            ..decision("denied")
        });
        log.decided(&DecisionRecord { object: config_map("other", "denied", "denied"), ..decision("x") });

        let page = |query: DecisionQuery| log.page(&query);
        let all = page(DecisionQuery::default());
        assert_eq!((all.total, all.capacity, all.decisions.len()), (3, 10, 3));
        let denied = &all.decisions[1];
        assert_eq!((denied.policy, denied.finalizer), (Some("Background"), Some("orphan")));
        assert_eq!(denied.error.as_deref(), Some("403 Forbidden: says the webhook"));
        let owner = &denied.owners[0];
        assert_eq!((owner.class, owner.evidence), (ReferenceClass::Unresolved, Evidence::Live));
        assert_eq!(owner.error.as_deref(), Some("500 Internal Server Error: says the server"));
        assert!(owner.reference.controller && !owner.reference.block_owner_deletion);

        let none = DecisionQuery::default;
        let namespace = Namespace::parse("ns");
        let resource = |name| Some(GroupResource::parse(name));
        for (query, count) in [
            (DecisionQuery { namespace: namespace.clone(), ..none() }, 2),
            (DecisionQuery { resource: resource("configmaps"), ..none() }, 3),
            (DecisionQuery { resource: resource("secrets"), ..none() }, 0),
            (DecisionQuery { uid: Uid::parse("kept"), ..none() }, 1),
            (DecisionQuery { action: Some("keep".to_owned()), ..none() }, 1),
            (DecisionQuery { outcome: Some("denied".to_owned()), ..none() }, 1),
            (DecisionQuery { namespace, outcome: Some("deleted".to_owned()), ..none() }, 0),
            (DecisionQuery { limit: Some(2), ..none() }, 2),
        ] {
            assert_eq!(page(query.clone()).decisions.len(), count, "{query:?}");
        }
    }

    #[test]
    fn the_size_of_the_log_is_bounded_whatever_the_number_of_decisions() {
        let log = DecisionLog::new(1_000_000);
        let long =
            |number: usize| DecisionRecord { error: Some("x".repeat(4000)), ..decision(&number.to_string()) };
        for number in 0..3000 {
            log.decided(&long(number));
        }
        let (total, last) = log.last();
        let bytes: usize = last.iter().map(|entry| entry.decision.bytes()).sum();
        assert_eq!((total, log.entries().bytes), (3000, bytes));
        assert!(bytes <= MAX_LOG_BYTES && bytes > MAX_LOG_BYTES - 5000, "{bytes} bytes");
        assert_eq!(&*last[0].decision.object.name, "2999", "the newest decision is kept");
    }
}
