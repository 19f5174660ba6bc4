//! Holds writes back while the store may have been restored from a backup.
//!
//! During a restore nobody can reach the API server, so every watch ends first. Afterwards,
//! objects that were deleted since the backup exist again, with the same uid and version. A
//! DELETE that was decided because its owner was absent would succeed. So when watches end
//! before their time, nothing is written until a consistent list has shown the store's
//! current version. One list serves all types, because they share a store, and because a
//! type that cannot be listed must not block the others.
//!
//! A restore can also raise the version (`etcdutl snapshot restore --bump-revision`). Then
//! the list shows nothing. So everything that was found or decided before watches broke is
//! void in any case. Each break is a numbered [`Disturbance`]. All actors acknowledge it
//! once they have forgotten what they had proved before. A decision notes the latest
//! acknowledged number, and a write that was decided under an earlier one is not sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::call::Call;
use super::client::Api;
use super::error::{ApiError, ErrorClass};
use super::write_gate::WriteGate;
use kube_gc_core::object::{Disturbance, GroupResource, ResourceType, ResourceVersion, Scope};

/// The error message of requests after a restore was found.
pub(super) const RESTORED: &str =
    "the API server's data was restored from a backup; kube-gc lists everything again before it writes";

/// How long a write waits for all actors to acknowledge a disturbance, and for the answer to
/// a version query.
const AT_MOST: Duration = Duration::from_secs(10);

/// The types whose watch ended before its time and whose store was not checked since.
/// Clones share one state.
#[derive(Clone, Debug)]
pub struct RestoreFence(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// One version query at a time: its answer serves all writes.
    querying: tokio::sync::Mutex<()>,
    proof: watch::Sender<String>,
    /// The state has changed. (A `watch` channel would wake its receivers in a random order.)
    changed: Notify,
    gate: WriteGate,
}

#[derive(Debug, Default)]
struct State {
    latest: u64,
    /// The latest disturbance that all actors have acknowledged.
    acknowledged: u64,
    /// The greatest version of the store that was found since the latest disturbance.
    found: Option<ResourceVersion>,
    /// The number of version queries that failed.
    failed_queries: u64,
    /// The types whose store is to be checked, each with the number of its disturbance.
    raised: BTreeMap<GroupResource, u64>,
    /// The types whose versions are those of the store.
    followed: BTreeMap<GroupResource, Arc<ResourceType>>,
}

/// A version query. If the store is not behind `seen`, it lifts the fence for all
/// disturbances up to a number.
struct Query {
    number: u64,
    resource: Arc<ResourceType>,
    seen: ResourceVersion,
}

impl RestoreFence {
    /// A fence that is not raised. A restore pauses the gate.
    pub(super) fn new(gate: WriteGate) -> Self {
        let (proof, _) = watch::channel(String::new());
        Self(Arc::new(Inner {
            state: Mutex::default(),
            querying: tokio::sync::Mutex::default(),
            proof,
            changed: Notify::new(),
            gate,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.0.changed.notify_waiters();
    }

    /// Waits until the state gives an answer.
    async fn until<T>(&self, answer: impl Fn(&State) -> Option<T>) -> T {
        loop {
            // Registers before it looks, so that no change in between is missed.
            let changed = self.0.changed.notified();
            let answer = answer(&self.state());
            if let Some(answer) = answer {
                return answer;
            }
            changed.await;
        }
    }

    /// A watch begins of a type whose versions are those of the store.
    pub(super) fn follow(&self, resource: &Arc<ResourceType>) {
        self.state().followed.insert(resource.group_resource.clone(), Arc::clone(resource));
    }

    /// The watch of a type ended before its time.
    pub(super) fn raise(&self, resource: &GroupResource) {
        self.change(|state| {
            let number = state.next();
            state.raised.insert(resource.clone(), number);
        });
    }

    /// A connection to the API server was lost or could not be made. The next one may lead
    /// to another store. This does not matter before anything was seen of the store.
    pub(super) fn connection_lost(&self, resource: &GroupResource) {
        let is_any_followed = !self.state().followed.is_empty();
        if is_any_followed {
            self.raise(resource);
        }
    }

    /// The store was found at this version, which is not behind what was seen of the type.
    pub(super) fn lift(&self, resource: &GroupResource, version: Option<&ResourceVersion>) {
        self.change(|state| {
            if state.raised.remove(resource).is_some() {
                state.find(version);
            }
        });
    }

    fn lift_up_to(&self, number: u64, version: Option<&ResourceVersion>) {
        self.change(|state| {
            state.raised.retain(|_, raised| *raised > number);
            if state.latest == number {
                state.find(version);
            }
        });
    }

    /// The latest disturbance, and the store's version since.
    pub fn disturbance(&self) -> Disturbance {
        self.state().disturbance()
    }

    /// Resolves when [`disturbance`](Self::disturbance) differs from this one.
    pub async fn changed_from(&self, known: &Disturbance) -> Disturbance {
        self.until(|state| Some(state.disturbance()).filter(|now| now != known)).await
    }

    /// Resolves when there is a later disturbance than this one.
    pub(super) async fn superseded(&self, number: u64) {
        self.until(|state| (state.latest != number).then_some(())).await;
    }

    /// Whether there is a later disturbance than this one, so that what was decided under it
    /// is void.
    pub fn is_superseded(&self, number: u64) -> bool {
        self.state().latest != number
    }

    /// All actors have forgotten what they had proved before this disturbance.
    pub fn acknowledge(&self, number: u64) {
        self.change(|state| state.acknowledged = number);
    }

    /// The latest disturbance that all actors have acknowledged: a decision made now rests on
    /// nothing older.
    pub fn acknowledged(&self) -> u64 {
        self.state().acknowledged
    }

    /// Waits for a limited time until all actors have acknowledged the latest disturbance.
    async fn all_acknowledged(&self) {
        let acknowledged = self.until(|state| (state.acknowledged == state.latest).then_some(()));
        // After a timeout the caller retries anyway.
        let _ = timeout(AT_MOST, acknowledged).await;
    }

    /// The store was restored from a backup. Pauses the gate until everything is listed
    /// again.
    pub fn report_restore(&self, proof: String) {
        // First of all: much could be written until the actors react.
        self.0.gate.pause();
        self.change(|state| {
            state.next();
        });
        self.0.proof.send_replace(proof);
    }

    /// Forgets all types: the store was restored, and everything is listed again.
    pub fn reset(&self) {
        self.change(|state| {
            state.raised.clear();
            state.followed.clear();
            // No earlier watch continues, so everything seen from now on happened since.
            state.found = Some(ResourceVersion::number(0));
        });
    }

    /// Receives the proof of each restore.
    pub fn restores(&self) -> watch::Receiver<String> {
        self.0.proof.subscribe()
    }

    /// The last version seen of a type, if its versions are those of the store.
    pub(super) fn last_seen(
        &self,
        resource: &GroupResource,
        high_water: &HighWater,
    ) -> Option<ResourceVersion> {
        let is_followed = self.state().followed.contains_key(resource);
        high_water.get(resource).filter(|_| is_followed)
    }

    pub(super) fn is_raised(&self) -> bool {
        !self.state().raised.is_empty()
    }

    /// The query that lifts a raised fence. It compares with the greatest version seen of any
    /// type: a backup may be newer than what was last seen of most types.
    fn query(&self, high_water: &HighWater) -> Option<Query> {
        let state = self.state();
        state.raised.first_key_value()?;
        let number = state.latest;
        let seen =
            state.followed.iter().filter_map(|(name, resource)| Some((high_water.get(name)?, resource)));
        let greatest = seen.reduce(|one, other| if other.0.is_after(&one.0) { other } else { one });
        greatest.map(|(seen, resource)| Query { number, resource: Arc::clone(resource), seen })
    }
}

impl State {
    fn disturbance(&self) -> Disturbance {
        // Each type is checked at its own time. Only when all were, all are after the latest.
        let found = self.found.clone().filter(|_| self.raised.is_empty());
        Disturbance { number: self.latest, found }
    }

    /// Begins another disturbance and returns its number.
    fn next(&mut self) -> u64 {
        self.latest += 1;
        self.found = None;
        self.latest
    }

    /// The store was found at this version.
    fn find(&mut self, version: Option<&ResourceVersion>) {
        let Some(version) = version else { return };
        if !self.found.as_ref().is_some_and(|found| found.is_after(version)) {
            self.found = Some(version.clone());
        }
    }
}

/// Why a write that was decided before the latest disturbance is not sent.
const SUPERSEDED: &str = "watches were interrupted after this decision; kube-gc decides again";

/// The error of a write that was decided before the latest disturbance and was not sent.
pub(super) fn not_sent(call: &Call<'_>) -> ApiError {
    call.error(ErrorClass::Fenced, format!("not sent: {SUPERSEDED}"), None)
}

impl Api {
    /// Before a write: if the fence is raised, checks the store's version. The write is not
    /// sent either way, because what it was decided on may be over when the answer comes.
    pub(super) async fn check_restore_fence(&self, call: &Call<'_>) -> Result<(), ApiError> {
        let fence = self.restore_fence();
        if !fence.is_raised() {
            if self.decided_under().is_some_and(|number| fence.is_superseded(number)) {
                fence.all_acknowledged().await;
                return Err(not_sent(call));
            }
            return Ok(());
        }
        let failed_queries = fence.state().failed_queries;
        let querying = fence.0.querying.lock().await;
        // Unless the query that this one waited for has failed.
        let query = fence.query(self.high_water()).filter(|_| fence.state().failed_queries == failed_queries);
        let result = match query {
            Some(query) => self.run_query(&query).await,
            None if fence.is_raised() => {
                Err("watches were interrupted, and kube-gc cannot check yet whether \
                 the API server's data was restored from a backup; the write is retried"
                    .to_owned())
            }
            None => Ok(()),
        };
        drop(querying);
        if let Err(why) = result {
            return Err(call.error(ErrorClass::GateClosed, format!("not sent: {why}"), None));
        }
        fence.all_acknowledged().await;
        Err(not_sent(call))
    }

    /// Asks for the store's version: by a list of namespaces, because they are few, built in,
    /// and read without a webhook. If that fails or is behind, lists the type itself, which
    /// may have its own store. Lifts the fence, unless it fails with the reason.
    async fn run_query(&self, query: &Query) -> Result<(), String> {
        let Query { number, resource, seen } = query;
        let fence = self.restore_fence();
        let (mut behind, mut failed) = (None, String::new());
        let namespaces = ResourceType::of("namespaces", "v1", "Namespace", Scope::Cluster);
        for listed in [&namespaces, resource] {
            let answer = timeout(AT_MOST, self.present_version(listed)).await;
            match answer.map(|answer| answer.map(|envelope| envelope.resource_version)) {
                Ok(Ok(Some(found))) if seen.is_after(&found) => behind = Some(found),
                Ok(Ok(found)) => {
                    fence.lift_up_to(*number, found.as_ref());
                    return Ok(());
                }
                Ok(Err(error)) => failed = error.to_string(),
                Err(_) => {
                    let of = &listed.group_resource;
                    failed = format!("LIST {of}: no answer within {} s", AT_MOST.as_secs());
                }
            }
        }
        fence.state().failed_queries += 1;
        let Some(found) = behind else {
            let why = format!(
                "watches were interrupted, and kube-gc cannot check whether the API server's data was restored \
                 from a backup; the write is retried: {failed}"
            );
            return Err(why);
        };
        self.report_older_store(&resource.group_resource, seen, &found);
        Err(RESTORED.to_owned())
    }

    /// Whether a consistent list, or an object, at version `found`, requested after `seen` was seen of
    /// the type, or of this object, proves that the store was restored. If so, reports it.
    pub(super) fn proves_restore(
        &self,
        resource: &GroupResource,
        seen: Option<&ResourceVersion>,
        found: Option<&ResourceVersion>,
    ) -> bool {
        let (Some(seen), Some(found)) = (seen, found) else { return false };
        // Unless the restore was found meanwhile and the graph was rebuilt.
        let still = self.restore_fence().last_seen(resource, self.high_water());
        let is_behind = seen.is_after(found) && still.is_some_and(|still| !seen.is_after(&still));
        if is_behind {
            self.report_older_store(resource, seen, found);
        }
        is_behind
    }

    fn report_older_store(&self, of: &GroupResource, seen: &ResourceVersion, found: &ResourceVersion) {
        self.restore_fence().report_restore(format!(
            "a read shows version {found} now, but {of} had reached version {seen} before"
        ));
    }
}

/// The last resource version seen of every type: no list may be older (rule 1.15).
/// It outlives each [`ListWatch`](super::ListWatch). Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct HighWater(Arc<DashMap<GroupResource, ResourceVersion>>);

impl HighWater {
    pub fn get(&self, resource: &GroupResource) -> Option<ResourceVersion> {
        self.0.get(resource).map(|version| version.clone())
    }

    /// Forgets all types, after a restore of the store.
    pub fn forget_all(&self) {
        self.0.clear();
    }

    /// Forgets one type, because another server serves it now.
    pub fn forget(&self, resource: &GroupResource) {
        self.0.remove(resource);
    }

    /// Notes a version that was seen. Never goes back, except among versions that cannot be
    /// compared.
    pub(super) fn advance(&self, resource: &GroupResource, version: &ResourceVersion) {
        let mut known = self.0.entry(resource.clone()).or_insert_with(|| version.clone());
        if !known.is_after(version) {
            known.clone_from(version);
        }
    }

    /// Sets the version, even to a lower one.
    pub(super) fn set(&self, resource: &GroupResource, version: &ResourceVersion) {
        self.0.insert(resource.clone(), version.clone());
    }
}

#[cfg(test)]
mod tests;
