//! The last decisions, for the debug page, and a longer memory of what was deleted.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use kube_gc_client::Finalizer;
use kube_gc_controller::worker::decision::{DecisionObserver, DecisionRecord, JudgedOwner, Occurrence};
use kube_gc_core::graph::SearchQuery;
use kube_gc_core::object::{Identity, Namespace, OwnerReference, PropagationPolicy, ResourceType};
use kube_gc_core::verdict::ReferenceClass;
use kube_gc_observe::telemetry::{PrintedObject, Timestamp, record};

use super::queries::{DEFAULT_LIMIT, DecisionQuery};
use super::view::{DecisionView, DecisionsPage, DeletionsView};

/// Keeps the last decisions. Clones share them.
///
/// Decisions are stored as they are; the text of the page is produced on request.
#[derive(Clone, Debug)]
pub struct DecisionLog(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    capacity: usize,
    entries: Mutex<Entries>,
    /// Of the names of what was deleted. Its seed is random, so nobody can choose names that collide.
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Entries {
    last: VecDeque<Arc<DecisionLogEntry>>,
    /// How many of them are about objects of each namespace.
    of_namespace: HashMap<Option<Namespace>, usize>,
    /// The size of these entries.
    bytes: usize,
    total: u64,
    deletions: VecDeque<Deletions>,
    /// The size of these.
    deletions_bytes: usize,
}

/// The maximum size of the log in bytes, whatever the number of decisions: each may name owners
/// with long names.
pub const MAX_LOG_BYTES: usize = 3 << 20;
/// The maximum size of the memory of what was deleted: eight bytes for each object of a cascade.
const MAX_DELETIONS_BYTES: usize = 1 << 20;
/// What was deleted within this time because of one owner is one entry.
const TOGETHER: Duration = Duration::from_secs(1);
/// The most objects of one entry, so that a large cascade is forgotten part by part.
const MOST_NAMES: usize = 1 << 14;
/// How many entries may grow at a time. Of more owners, each has several entries.
const OPEN: usize = 16;

/// Objects of one type that were deleted within a second, because of one owner.
#[derive(Debug)]
struct Deletions {
    /// When the first of them was deleted.
    at: SystemTime,
    namespace: Option<Namespace>,
    resource: Arc<ResourceType>,
    owner: JudgedOwner,
    /// The hashes of their names.
    names: Vec<u64>,
}

impl Deletions {
    fn bytes(&self) -> usize {
        let namespace = self.namespace.as_ref().map_or(0, |namespace| namespace.as_str().len());
        size_of::<Self>() + self.owner.bytes() + namespace + self.names.capacity() * size_of::<u64>()
    }

    /// Whether another object that is deleted now belongs to it.
    fn takes(&self, at: SystemTime, object: &Identity, owner: &JudgedOwner) -> bool {
        at.duration_since(self.at).is_ok_and(|age| age < TOGETHER)
            && self.names.len() < MOST_NAMES
            && self.owner == *owner
            && self.namespace == object.namespace
            && self.resource == object.resource
    }

    fn view(&self) -> DeletionsView {
        DeletionsView {
            at: Timestamp(self.at),
            namespace: self.namespace.as_ref().map(Namespace::to_string),
            resource: self.resource.group_resource.to_string(),
            owner: self.owner.clone(),
            count: self.names.len(),
        }
    }
}

impl Entries {
    /// Forgets the oldest decision of the namespace that has most, so that nobody can fill the log with
    /// decisions about one.
    fn forget(&mut self) -> Option<()> {
        let most = self.of_namespace.values().max()?;
        let has_most = |entry: &Arc<DecisionLogEntry>| {
            self.of_namespace.get(&entry.decision.object.namespace) == Some(most)
        };
        let forgotten = self.last.remove(self.last.iter().position(has_most)?)?;
        self.bytes -= forgotten.decision.bytes();
        let namespace = &forgotten.decision.object.namespace;
        *self.of_namespace.get_mut(namespace)? -= 1;
        if self.of_namespace[namespace] == 0 {
            self.of_namespace.remove(namespace);
        }
        Some(())
    }

    /// Remembers an object that was deleted because of an owner, by the hash of its name.
    fn deleted(&mut self, at: SystemTime, object: &Identity, owner: &JudgedOwner, name: u64) {
        let mut open = self.deletions.iter_mut().rev().take(OPEN);
        if let Some(together) = open.find(|deletions| deletions.takes(at, object, owner)) {
            let before = together.bytes();
            together.names.push(name);
            self.deletions_bytes += together.bytes() - before;
        } else {
            let (namespace, resource) = (object.namespace.clone(), Arc::clone(&object.resource));
            let new = Deletions { at, namespace, resource, owner: owner.clone(), names: vec![name] };
            self.deletions_bytes += new.bytes();
            self.deletions.push_back(new);
        }
        while self.deletions_bytes > MAX_DELETIONS_BYTES {
            let Some(first) = self.deletions.pop_front() else { break };
            self.deletions_bytes -= first.bytes();
        }
    }
}

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
        Self(Arc::new(Inner { capacity, entries: Mutex::default(), hasher: RandomState::new() }))
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
        let mut of_namespace: HashMap<_, usize> = HashMap::new();
        let selected = last.iter().filter(|entry| matches(query, entry)).filter(|entry| {
            let count = of_namespace.entry(entry.decision.object.namespace.as_ref()).or_default();
            *count += 1;
            query.each.is_none_or(|most| *count <= most)
        });
        let selected = selected.take(query.limit.unwrap_or(DEFAULT_LIMIT));
        let decisions = selected.map(|entry| view(entry)).collect();
        let deletions = self.deletions(query);
        DecisionsPage { total, capacity: self.capacity(), decisions, deletions, disagreements: None }
    }

    /// What was deleted and fits a query, the last first.
    fn deletions(&self, query: &DecisionQuery) -> Vec<DeletionsView> {
        let DecisionQuery { namespace, resource, uid, name, owner, action, outcome, limit, each: _ } = query;
        // Uids are not remembered.
        let is_other =
            |wanted: &Option<String>, own: &str| wanted.as_ref().is_some_and(|wanted| wanted != own);
        if uid.is_some() || is_other(action, DELETE) || is_other(outcome, DELETED) {
            return Vec::new();
        }
        let name = name.as_ref().map(|name| self.hash(name));
        let fits = |deletions: &&Deletions| {
            namespace.as_ref().is_none_or(|wanted| deletions.namespace.as_ref() == Some(wanted))
                && resource.as_ref().is_none_or(|wanted| deletions.resource.group_resource == *wanted)
                && owner.as_ref().is_none_or(|wanted| names(&deletions.owner.reference, wanted))
                && name.is_none_or(|name| deletions.names.contains(&name))
        };
        let entries = self.entries();
        let fitting = entries.deletions.iter().rev().filter(fits).take(limit.unwrap_or(DEFAULT_LIMIT));
        fitting.map(Deletions::view).collect()
    }

    /// The last objects that were deleted and fit a search, each with the time, the last first.
    pub fn deleted(&self, query: &SearchQuery) -> Vec<(Identity, SystemTime)> {
        let (_, last) = self.last();
        let deleted = last.iter().filter(|entry| is_deletion(&entry.decision));
        let fitting = deleted.filter(|entry| query.fits(&entry.decision.object));
        fitting.map(|entry| (entry.decision.object.clone(), entry.at)).collect()
    }

    fn hash(&self, name: &str) -> u64 {
        self.0.hasher.hash_one(name)
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // The entries are consistent even after a panic elsewhere.
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DecisionObserver for DecisionLog {
    fn decided(&self, decision: &DecisionRecord) -> Occurrence {
        let at = SystemTime::now();
        let mut entries = self.entries();
        entries.total += 1;
        if self.0.capacity > 0 {
            entries.bytes += decision.bytes();
            *entries.of_namespace.entry(decision.object.namespace.clone()).or_default() += 1;
            entries.last.push_back(Arc::new(DecisionLogEntry { at, decision: decision.clone() }));
            if let Some(owner) = is_deletion(decision).then(|| cause(&decision.owners)).flatten() {
                entries.deleted(at, &decision.object, owner, self.hash(&decision.object.name));
            }
        }
        while (entries.last.len() > self.0.capacity || entries.bytes > MAX_LOG_BYTES)
            && entries.forget().is_some()
        {}
        record::decision_log_bytes(entries.bytes + entries.deletions_bytes);
        drop(entries);
        Occurrence::First
    }
}

/// The action of a deletion, and the outcome of one that ended at once.
const DELETE: &str = "delete";
const DELETED: &str = "deleted";

fn is_deletion(decision: &DecisionRecord) -> bool {
    decision.action == DELETE && matches!(decision.outcome, DELETED | "deletion_pending")
}

/// The owner because of which an object was deleted.
fn cause(owners: &[JudgedOwner]) -> Option<&JudgedOwner> {
    use ReferenceClass::{Absent, Orphaned, Waiting};
    owners.iter().find(|owner| matches!(owner.class, Absent | Waiting | Orphaned)).or(owners.first())
}

/// Whether a reference has this name or uid.
fn names(owner: &OwnerReference, wanted: &str) -> bool {
    *owner.name == *wanted || owner.uid.to_string() == wanted
}

fn matches(query: &DecisionQuery, entry: &DecisionLogEntry) -> bool {
    let DecisionRecord { object, action, outcome, owners, owner, .. } = &entry.decision;
    let DecisionQuery {
        namespace,
        resource,
        uid,
        name,
        owner: wanted_owner,
        action: wanted_action,
        outcome: wanted_outcome,
        limit: _,
        each: _,
    } = query;
    let is_owned_by = |wanted: &String| {
        owners.iter().any(|owner| names(&owner.reference, wanted))
            || owner.as_ref().is_some_and(|owner| *owner.name == **wanted)
    };
    namespace.as_ref().is_none_or(|wanted| object.namespace.as_ref() == Some(wanted))
        && resource.as_ref().is_none_or(|wanted| object.resource.group_resource == *wanted)
        && uid.as_ref().is_none_or(|wanted| object.uid == *wanted)
        && name.as_ref().is_none_or(|wanted| *object.name == **wanted)
        && wanted_owner.as_ref().is_none_or(is_owned_by)
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
        owner: owner.as_ref().map(PrintedObject::from),
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

    /// Fails if somebody can push the decisions about others out of the log, or off a page.
    #[test]
    fn one_namespace_cannot_hide_the_decisions_of_another() {
        let log = DecisionLog::new(100);
        let of = |namespace: &str, name: &str| DecisionRecord {
            object: config_map(namespace, name, name),
            error: (namespace == "loud").then(|| "x".repeat(4000)),
            ..decision(name)
        };
        for name in ["a", "b"] {
            log.decided(&of("quiet", name));
        }
        for number in 0..10_000 {
            log.decided(&of("loud", &number.to_string()));
        }
        assert_eq!(log.last().1.len(), 100);
        let quiet = DecisionQuery { namespace: Namespace::parse("quiet"), ..DecisionQuery::default() };
        assert_eq!(log.page(&quiet).decisions.len(), 2);
        let fair = log.page(&DecisionQuery { limit: Some(10), each: Some(5), ..DecisionQuery::default() });
        let shown: Vec<_> = fair.decisions.into_iter().filter_map(|decision| decision.object.name).collect();
        assert_eq!(shown, ["9999", "9998", "9997", "9996", "9995", "b", "a"]);
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

    fn cascade(log: &DecisionLog, owner: &str, numbers: std::ops::Range<usize>) {
        let reference = config_map("a", owner, owner).reference();
        let judged =
            JudgedOwner { reference, class: ReferenceClass::Absent, evidence: Evidence::Graph, error: None };
        for number in numbers {
            let owners = vec![judged.clone()];
            log.decided(&DecisionRecord { owners, ..decision(&format!("{owner}-{number}")) });
        }
    }

    /// Fails if a large cascade leaves nothing to say about an object of it.
    #[test]
    fn what_was_deleted_because_of_an_owner_is_remembered_longer_than_single_decisions() {
        let log = DecisionLog::new(2);
        cascade(&log, "root", 0..500);
        cascade(&log, "other", 0..1);
        log.decided(&DecisionRecord { outcome: "denied", ..decision("denied") });
        let name = |name: &str| DecisionQuery { name: Some(name.to_owned()), ..DecisionQuery::default() };
        let page = log.page(&name("root-7"));
        assert_eq!((page.decisions.len(), page.deletions.len()), (0, 1));
        let DeletionsView { owner, resource, count, .. } = &page.deletions[0];
        assert_eq!(
            (&*owner.reference.name, resource.as_str(), owner.class),
            ("root", "configmaps", ReferenceClass::Absent)
        );
        assert!((8..=500).contains(count), "{count} in a second");
        let of = |query: DecisionQuery| log.page(&query).deletions.len();
        let owner = DecisionQuery { owner: Some("other".to_owned()), ..DecisionQuery::default() };
        let elsewhere = DecisionQuery { namespace: Namespace::parse("x"), ..name("root-7") };
        let kept = DecisionQuery { action: Some("keep".to_owned()), ..name("root-7") };
        assert_eq!([of(owner), of(elsewhere), of(kept), of(name("root-500"))], [1, 0, 0, 0]);
        let found =
            |text: &str| log.deleted(&SearchQuery { text: text.to_owned(), ..SearchQuery::default() });
        assert_eq!((found("other-0").len(), found("denied").len()), (1, 0));
    }

    #[test]
    fn the_memory_of_what_was_deleted_is_bounded_whatever_the_number_of_owners() {
        for owners in [2, 10_000] {
            let log = DecisionLog::new(1);
            for owner in 0..owners {
                cascade(&log, &format!("owner-{owner}"), 0..300_000 / owners);
            }
            let entries = log.entries();
            let bytes: usize = entries.deletions.iter().map(Deletions::bytes).sum();
            assert_eq!(entries.deletions_bytes, bytes);
            assert!(bytes <= MAX_DELETIONS_BYTES && bytes > MAX_DELETIONS_BYTES / 4, "{bytes} bytes");
        }
    }
}
