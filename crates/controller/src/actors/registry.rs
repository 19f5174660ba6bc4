//! The state of the monitors, for readiness, metrics and debugging, and what others need to know of
//! what they have seen.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::{Notify, watch};

use kube_gc_client::GroupFailure;
use kube_gc_core::namespaces::{Ended, TurnOf};
use kube_gc_core::object::{Catalog, GroupResource, ObjectFacts, ResourceType, ResourceVersion, Uid};

#[derive(Clone, Debug)]
pub struct MonitorState {
    pub resource: Arc<ResourceType>,
    /// Whether its list, and the links that follow from it, are in the graph.
    pub synced: bool,
    /// Whether that was so at any time since the monitor started.
    pub was_synced: bool,
    /// When `synced` last changed.
    pub since: SystemTime,
    /// The last failure, until a later request succeeds.
    pub last_error: Option<String>,
    /// The last failure of a type that is not synced, even after a later request has succeeded.
    pub last_failure: Option<String>,
    /// The first failure since something succeeded.
    pub failing_since: Option<SystemTime>,
    /// The graph contains everything up to this version.
    pub applied: Option<ResourceVersion>,
    /// Whether it is being drained, because its type is no longer served.
    pub draining: bool,
}

impl MonitorState {
    /// Whether the graph has all changes of the type. A watch that cannot be opened lacks some, though its
    /// type may have been synced long ago.
    pub const fn is_up_to_date(&self) -> bool {
        self.synced && self.last_error.is_none()
    }

    /// Why the graph may lack changes of the type.
    pub fn why_incomplete(&self) -> &str {
        self.last_error.as_ref().or(self.last_failure.as_ref()).map_or("not listed yet", String::as_str)
    }

    fn failed(&mut self, error: String) {
        self.failing_since.get_or_insert_with(SystemTime::now);
        self.last_failure = Some(error.clone());
        self.last_error = Some(error);
    }

    /// Returns whether that is a change.
    fn set_synced(&mut self, synced: bool) -> bool {
        let is_changed = self.synced != synced;
        if is_changed {
            (self.synced, self.since) = (synced, SystemTime::now());
        }
        self.was_synced |= synced;
        self.last_failure.take_if(|_| synced);
        is_changed
    }
}

/// The state of every monitor. The monitors write it.
#[derive(Clone, Debug, Default)]
pub struct Registry(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    monitors: Mutex<BTreeMap<GroupResource, MonitorState>>,
    /// Namespaces that the monitors have seen being deleted.
    terminating: TerminatingNamespaces,
    /// Why namespaces cannot be finished, whatever they contain.
    hindrance: watch::Sender<Option<String>>,
    /// Whether the rights for that were refused since the last look at them.
    refused: Notify,
}

impl Registry {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<GroupResource, MonitorState>> {
        // Each entry is replaced as a whole, so a panic elsewhere leaves none half written.
        self.0.monitors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The namespaces that the monitors have seen being deleted.
    pub fn terminating(&self) -> &TerminatingNamespaces {
        &self.0.terminating
    }

    /// Why namespaces cannot be finished, whatever they contain.
    pub fn hindrance(&self) -> &watch::Sender<Option<String>> {
        &self.0.hindrance
    }

    /// Notifies who looks at the rights to finish namespaces that the server has refused a write.
    pub fn refused(&self) -> &Notify {
        &self.0.refused
    }

    /// Adds a monitor that has started.
    pub fn started(&self, resource: &Arc<ResourceType>) {
        let state = MonitorState {
            resource: Arc::clone(resource),
            synced: false,
            was_synced: false,
            since: SystemTime::now(),
            last_error: None,
            last_failure: None,
            failing_since: None,
            applied: None,
            draining: false,
        };
        self.entries().insert(resource.group_resource.clone(), state);
    }

    /// Removes a monitor that has ended.
    pub fn ended(&self, resource: &GroupResource) {
        self.entries().remove(resource);
    }

    /// Removes all monitors, because they have ended.
    pub fn clear(&self) {
        self.entries().clear();
    }

    /// Changes the state of a monitor, if it runs.
    pub fn update<T: Default>(
        &self,
        resource: &GroupResource,
        change: impl FnOnce(&mut MonitorState) -> T,
    ) -> T {
        self.entries().get_mut(resource).map(change).unwrap_or_default()
    }

    /// Notes up to which version the graph has applied what this monitor has read.
    pub fn applied_up_to(&self, resource: &GroupResource, version: Option<ResourceVersion>) {
        self.update(resource, |state| state.applied = version);
    }

    /// Notes that the graph contains the whole list of a monitor, or that its watch continues.
    /// Returns whether the monitor was not synced before.
    pub fn synced(&self, resource: &GroupResource) -> bool {
        self.update(resource, |state| state.set_synced(true))
    }

    /// Notes that a list has arrived or that the watch works: the failures are over.
    pub fn succeeded(&self, resource: &GroupResource) {
        self.update(resource, |state| (state.last_error, state.failing_since) = (None, None));
    }

    /// Notes a failure of the watch, which may continue where it was: a synced monitor stays
    /// synced.
    pub fn failed(&self, resource: &GroupResource, error: String) {
        self.update(resource, |state| state.failed(error));
    }

    /// Notes a failed list: changes since the last one are unknown. Returns whether the monitor was
    /// synced before.
    pub fn lost(&self, resource: &GroupResource, error: String) -> bool {
        self.update(resource, |state| {
            state.failed(error);
            state.set_synced(false)
        })
    }

    /// All monitors, ordered by group and resource.
    pub fn all(&self) -> Vec<MonitorState> {
        self.entries().values().cloned().collect()
    }

    /// Whether the graph is known to contain everything up to this version of a resource. Versions
    /// that cannot be compared show nothing.
    pub fn has_applied(&self, resource: &GroupResource, version: &ResourceVersion) -> bool {
        let entries = self.entries();
        let applied = entries.get(resource).and_then(|state| state.applied.as_ref());
        applied.is_some_and(|applied| applied >= version)
    }

    /// The watched types that a user may mean, who may leave out the group.
    pub fn meant(&self, resource: &GroupResource) -> Vec<GroupResource> {
        let entries = self.entries();
        if entries.contains_key(resource) {
            return vec![resource.clone()];
        }
        entries.keys().filter(|named| resource.may_mean(named)).cloned().collect()
    }

    pub fn is_monitored(&self, resource: &GroupResource) -> bool {
        self.entries().contains_key(resource)
    }

    /// Whether the graph has the objects of this resource, perhaps as they were some time ago.
    pub fn was_synced(&self, resource: &GroupResource) -> bool {
        self.entries().get(resource).is_some_and(|state| state.was_synced)
    }

    pub fn is_synced(&self, resource: &GroupResource) -> bool {
        self.entries().get(resource).is_some_and(|state| state.synced)
    }
}

/// The namespaces that the watch has shown as being deleted, for those who finish them: names and
/// uids that nobody has taken yet. It keeps nothing unless somebody wants it.
#[derive(Debug, Default)]
pub struct TerminatingNamespaces {
    wanted: AtomicBool,
    state: Mutex<Terminating>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Terminating {
    seen: BTreeMap<Box<str>, Uid>,
    /// Those that were taken and are being worked on, with the uids of namespaces.
    busy: BTreeMap<TurnOf, Option<Uid>>,
    /// For those that had a turn: how many objects they wait for, without those that have gone since
    /// its beginning.
    awaited: HashMap<TurnOf, i64>,
    /// Those whose awaited objects are gone.
    emptied: BTreeSet<TurnOf>,
    /// How often work began or ended.
    changes: u64,
}

impl TerminatingNamespaces {
    fn state(&self) -> MutexGuard<'_, Terminating> {
        // Nothing can panic while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to keep them. Call it before the first monitor starts.
    pub fn want(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    /// Whether somebody finishes them.
    pub fn are_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Forgets them and keeps no more.
    pub fn abandon(&self) {
        self.wanted.store(false, Ordering::Release);
        *self.state() = Terminating::default();
    }

    /// Notes an object that a watch or a list has shown, if it is a terminating namespace.
    pub fn notice(&self, resource: &GroupResource, facts: &ObjectFacts) {
        let is_namespace = resource.group.is_empty() && &*resource.resource == "namespaces";
        if is_namespace && facts.being_deleted && self.are_wanted() {
            let state = &mut *self.state();
            state.seen.insert(facts.name.clone(), facts.uid.clone());
            state.changes += 1;
            self.news.notify_one();
        }
    }

    /// Notes that an object for which this may wait is gone. The last one that it waits for is news.
    pub fn gone(&self, of: TurnOf) {
        let Terminating { awaited, emptied, changes, .. } = &mut *self.state();
        let Some(awaited) = awaited.get_mut(&of) else { return };
        *awaited -= 1;
        if *awaited == 0 {
            emptied.insert(of);
            *changes += 1;
            self.news.notify_one();
        }
    }

    /// The turn begins: objects that have gone before are none that it waits for.
    pub fn turn_begins(&self, of: &TurnOf) {
        let state = &mut *self.state();
        state.awaited.insert(of.clone(), 0);
        state.changes += 1;
    }

    /// The turn has ended. Returns whether this waits for objects that are gone already.
    pub fn turn_ended(&self, of: &TurnOf, how: Ended) -> bool {
        let Terminating { awaited, changes, .. } = &mut *self.state();
        *changes += 1;
        let Ended::Held { awaited: count @ 1.. } = how else {
            awaited.remove(of);
            return false;
        };
        let awaited = awaited.entry(of.clone()).or_default();
        *awaited = awaited.saturating_add_unsigned(count);
        *awaited <= 0
    }

    /// Takes what was noted since the last call: namespaces, and what waits for nothing any more. They
    /// count as busy until [`work_on`](Self::work_on) is called.
    pub fn take(&self) -> (BTreeMap<Box<str>, Uid>, BTreeSet<TurnOf>) {
        let state = &mut *self.state();
        state.busy = state.at_work();
        (std::mem::take(&mut state.seen), std::mem::take(&mut state.emptied))
    }

    /// Sets which are being worked on.
    pub fn work_on(&self, busy: BTreeMap<TurnOf, Option<Uid>>) {
        self.state().busy = busy;
    }

    /// Resolves when something was noted.
    pub async fn news(&self) {
        self.news.notified().await;
    }

    /// Those that are not finished and do not wait for somebody else, with known uids of namespaces.
    pub fn busy(&self) -> BTreeMap<TurnOf, Option<Uid>> {
        self.state().at_work()
    }

    /// How often work began or ended: two equal readings mean that none did in between.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }
}

impl Terminating {
    fn at_work(&self) -> BTreeMap<TurnOf, Option<Uid>> {
        let seen = self.seen.iter().map(|(name, uid)| (TurnOf::Namespace(name.clone()), Some(uid.clone())));
        let emptied = self.emptied.iter().map(|of| (of.clone(), None));
        emptied.chain(self.busy.clone()).chain(seen).collect()
    }
}

/// What a confirmation round of the orphan workers needs to know of the monitored types. Discovery
/// publishes it.
#[derive(Clone, Debug, Default)]
pub struct RoundTypes {
    /// Every monitored type.
    pub types: Vec<RoundType>,
    /// Resolves the references that are found.
    pub catalog: Arc<Catalog>,
    /// The parts of the API that were never discovered and may contain any dependents.
    pub undiscovered: Vec<GroupFailure>,
}

/// One type that a round has to list.
#[derive(Clone, Debug)]
pub struct RoundType {
    pub resource: Arc<ResourceType>,
    /// How it is followed.
    pub followed: Followed,
}

/// How far the graph has the objects of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// The type was never synced: its dependents are unknown.
    Not,
    /// The type is no longer synced: the graph has its objects as they were at the end of its watch.
    NoLonger,
    /// The type is synced.
    Synced,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::tests::widgets;

    /// Some aggregated APIs have versions that are texts.
    #[test]
    fn only_a_version_that_is_as_late_shows_that_an_earlier_one_is_applied() {
        let resource = widgets();
        let (registry, name) = (Registry::default(), &resource.group_resource);
        let nine = ResourceVersion::number(9);
        assert!(!registry.has_applied(name, &nine), "not watched");
        registry.started(&resource);
        for (applied, expected) in [("8", false), ("9", true), ("10", true), ("a-text", false), ("", false)] {
            registry.applied_up_to(name, ResourceVersion::parse(applied));
            assert_eq!(registry.has_applied(name, &nine), expected, "{applied}");
        }
    }

    /// Rule 11.7.
    #[test]
    fn a_namespace_is_news_when_the_last_object_that_it_waits_for_is_gone() {
        let (terminating, ns) = (TerminatingNamespaces::default(), TurnOf::Namespace("ns".into()));
        let busy = || terminating.busy().len();
        let changes = std::cell::Cell::new(terminating.changes());
        let is_news = || changes.replace(terminating.changes()) != terminating.changes();
        let emptied = || terminating.take().1.len();
        let go = |count| (0..count).for_each(|_| terminating.gone(ns.clone()));
        go(1);
        terminating.turn_begins(&ns);
        assert!(is_news(), "a turn that nobody has heard of may have ended since");
        go(1);
        assert!(!terminating.turn_ended(&ns, Ended::Held { awaited: 5_000 }));
        assert!(is_news());
        terminating.gone(TurnOf::Namespace("other".into()));
        go(4_998);
        assert_eq!((emptied(), busy(), is_news()), (0, 0, false));
        go(1);
        assert_eq!((busy(), is_news(), emptied()), (1, true, 1));
        terminating.turn_begins(&ns);
        go(2);
        assert!(terminating.turn_ended(&ns, Ended::Held { awaited: 2 }), "they went during the turn");
        terminating.turn_begins(&ns);
        assert!(!terminating.turn_ended(&ns, Ended::Held { awaited: 0 }), "nothing is known");
        assert!(!terminating.turn_ended(&ns, Ended::Done));
        go(5);
        assert_eq!((emptied(), terminating.state().awaited.len()), (0, 0));
    }

    #[test]
    fn a_failed_list_ends_the_sync_and_a_failed_watch_does_not() {
        let resource = widgets();
        let (registry, name) = (Registry::default(), &resource.group_resource);
        registry.started(&resource);
        let error = |registry: &Registry| registry.all()[0].last_error.clone();
        // Only the first call changes it.
        assert!(registry.synced(name) && !registry.synced(name));
        registry.failed(name, "watch".into());
        assert!(registry.is_synced(name));
        assert!(registry.lost(name, "list".into()) && !registry.lost(name, "list again".into()));
        assert!(!registry.is_synced(name) && registry.all()[0].failing_since.is_some());
        assert_eq!(error(&registry).as_deref(), Some("list again"));
        registry.succeeded(name);
        assert_eq!((error(&registry), registry.all()[0].failing_since), (None, None));
        // Until it is synced, that is why objects are missing.
        assert_eq!(registry.all()[0].why_incomplete(), "list again");
        // A watch may fail before a busy graph has applied the list.
        registry.failed(name, "watch".into());
        assert!(registry.synced(name) && registry.is_synced(name));
        assert_eq!(error(&registry).as_deref(), Some("watch"));
        registry.succeeded(name);
        registry.update(name, |state| state.set_synced(false));
        assert_eq!(registry.all()[0].why_incomplete(), "not listed yet");
    }
}
