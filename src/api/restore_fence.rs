//! Whether the store is still the one that was seen.
//!
//! A store is restored from a backup while nobody can reach the API server, so every
//! watch ends first. What was deleted since the backup is there again then, with the
//! same uid and at the same version: a DELETE that was decided on its owner's absence
//! would go through. So when watches have ended before their time, nothing is written
//! until a consistent list has said at which version the store is. The list is one for
//! all types, because they share a store, and because a type that cannot be listed must
//! not hold up the others.
//!
//! A restore can also raise the version (`etcdutl snapshot restore --bump-revision`), and
//! then that list shows nothing. So whatever was found or decided before watches broke is
//! void in any case: each time has a number, whoever decides notes the latest of which
//! everybody has been told, and a write that was decided under an earlier one is not sent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::client::{Api, Call};
use super::error::{ApiError, ErrorClass};
use super::high_water::HighWater;
use super::list_watch::present_version;
use super::write_gate::WriteGate;
use kube_gc_core::object::{Disturbance, GroupResource, ResourceType, ResourceVersion, Scope};

/// How long the answer may take: a write waits for it.
const AT_MOST: Duration = Duration::from_secs(10);

/// What comes of a query where all is well.
const DISPELLED: (ErrorClass, Cow<'static, str>) =
    (ErrorClass::Fenced, Cow::Borrowed("watches broke; the store is still the same, and it is decided anew"));

/// What becomes of a write that was decided before.
const OVER: &str = "watches broke since this was decided, and it is decided anew";

/// What comes of one where the store went back.
pub(super) const RESTORED: &str = "the store was restored from a backup; everything is read anew first";

/// Types whose watch has ended before its time, and which could not be checked since.
/// Clones share one state.
#[derive(Clone, Debug)]
pub struct RestoreFence(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// One query at a time: it answers everybody.
    querying: tokio::sync::Mutex<()>,
    proof: watch::Sender<String>,
    /// Another disturbance, or the store was found since. (`watch` would wake many in a
    /// random order.)
    disturbed: Notify,
    /// Everybody has been told of one.
    told: Notify,
    gate: WriteGate,
}

#[derive(Debug, Default)]
struct State {
    /// How many restore_fence there ever were; the number of the latest disturbance.
    raised: u64,
    /// The latest of which everybody has been told.
    told: u64,
    /// The greatest version that was found since.
    found: Option<ResourceVersion>,
    /// How many questions there were that dispelled none.
    asked: u64,
    /// Each with its number.
    doubted: BTreeMap<GroupResource, u64>,
    /// The types whose versions are those of the store.
    followed: BTreeMap<GroupResource, Arc<ResourceType>>,
}

/// What dispels all restore_fence up to a number: the store is not behind this version.
struct Query {
    number: u64,
    resource: Arc<ResourceType>,
    seen: ResourceVersion,
}

impl RestoreFence {
    /// None so far. A store that was restored closes the gate.
    pub(super) fn new(gate: WriteGate) -> Self {
        let (proof, _) = watch::channel(String::new());
        Self(Arc::new(Inner {
            state: Mutex::default(),
            querying: tokio::sync::Mutex::default(),
            proof,
            disturbed: Notify::new(),
            told: Notify::new(),
            gate,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A type is watched whose versions are those of the store.
    pub(super) fn follow(&self, resource: &Arc<ResourceType>) {
        self.state().followed.insert(resource.group_resource.clone(), Arc::clone(resource));
    }

    /// The watch of a type has ended before its time.
    pub(super) fn raise(&self, resource: &GroupResource) {
        let mut state = self.state();
        let number = state.next();
        state.doubted.insert(resource.clone(), number);
        drop(state);
        self.0.disturbed.notify_waiters();
    }

    /// A connection to the API server was lost, or could not be made: it may come back with
    /// another store. Where nothing was seen, there is nothing to doubt.
    pub(super) fn connection_lost(&self, resource: &GroupResource) {
        let is_any_followed = !self.state().followed.is_empty();
        if is_any_followed {
            self.raise(resource);
        }
    }

    /// The store is not behind what was seen of a type: it was found at this version.
    pub(super) fn lift(&self, resource: &GroupResource, version: Option<&ResourceVersion>) {
        let mut state = self.state();
        if state.doubted.remove(resource).is_some() {
            state.find(version);
            drop(state);
            self.0.disturbed.notify_waiters();
        }
    }

    fn lift_up_to(&self, number: u64, version: Option<&ResourceVersion>) {
        let mut state = self.state();
        state.doubted.retain(|_, doubt| *doubt > number);
        if state.raised == number {
            state.find(version);
        }
        drop(state);
        self.0.disturbed.notify_waiters();
    }

    /// The latest disturbance, and what is known of the store since.
    #[must_use]
    pub fn disturbance(&self) -> Disturbance {
        let state = self.state();
        // Each type was found at its own time: when all were, all is after the latest.
        let found = state.found.clone().filter(|_| state.doubted.is_empty());
        Disturbance { number: state.raised, found }
    }

    /// Resolves when there is another disturbance than this one, or more is known of it.
    pub async fn changed_from(&self, known: &Disturbance) -> Disturbance {
        loop {
            // Before the look: what changes after it is not missed.
            let disturbed = self.0.disturbed.notified();
            let now = self.disturbance();
            if now != *known {
                return now;
            }
            disturbed.await;
        }
    }

    /// Resolves when there has been a disturbance after this one.
    pub(super) async fn superseded(&self, number: u64) {
        loop {
            let disturbed = self.0.disturbed.notified();
            if self.is_superseded(number) {
                return;
            }
            disturbed.await;
        }
    }

    /// Whether what was decided under this number is not to be done any more.
    pub fn is_superseded(&self, number: u64) -> bool {
        self.state().raised != number
    }

    /// Everybody has forgotten what was proved before this disturbance.
    pub fn acknowledge(&self, number: u64) {
        self.state().told = number;
        self.0.told.notify_waiters();
    }

    /// The latest disturbance of which everybody has been told: what is decided now rests
    /// on nothing older.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.state().told
    }

    /// Waits until everybody has been told of the latest disturbance, for a while.
    async fn all_acknowledged(&self) {
        let told = async {
            loop {
                let told = self.0.told.notified();
                let is_told = {
                    let state = self.state();
                    state.told == state.raised
                };
                if is_told {
                    return;
                }
                told.await;
            }
        };
        // Who waits in vain tries again.
        let _ = timeout(AT_MOST, told).await;
    }

    /// The store was restored from a backup: nothing is written until all has been read
    /// anew.
    pub fn report_restore(&self, proof: String) {
        // At once: until anybody gets to it, much could be written.
        self.0.gate.pause();
        self.state().next();
        self.0.disturbed.notify_waiters();
        self.0.proof.send_replace(proof);
    }

    /// Forgets all: the store was restored, and everything is read anew.
    pub fn reset(&self) {
        let mut state = self.state();
        state.doubted.clear();
        state.followed.clear();
        // No watch from before goes on: whatever is seen from now on has happened since.
        state.found = Some(ResourceVersion::number(0));
        drop(state);
        self.0.disturbed.notify_waiters();
    }

    /// What proves that the store was restored, whenever something does.
    #[must_use]
    pub fn restores(&self) -> watch::Receiver<String> {
        self.0.proof.subscribe()
    }

    /// The last version seen of a type, if that says something of the store.
    pub(super) fn last_seen(
        &self,
        resource: &GroupResource,
        high_water: &HighWater,
    ) -> Option<ResourceVersion> {
        let is_followed = self.state().followed.contains_key(resource);
        high_water.get(resource).filter(|_| is_followed)
    }

    pub(super) fn is_raised(&self) -> bool {
        !self.state().doubted.is_empty()
    }

    /// What is to be asked, if there is any doubt: for the greatest version seen of any
    /// type, since a backup may be younger than what was last seen of most.
    fn query(&self, high_water: &HighWater) -> Option<Query> {
        let state = self.state();
        state.doubted.first_key_value()?;
        let number = state.raised;
        let seen =
            state.followed.iter().filter_map(|(name, resource)| Some((high_water.get(name)?, resource)));
        let greatest = seen.reduce(|one, other| if other.0.is_after(&one.0) { other } else { one });
        greatest.map(|(seen, resource)| Query { number, resource: Arc::clone(resource), seen })
    }
}

impl State {
    /// The number of another disturbance.
    fn next(&mut self) -> u64 {
        self.raised += 1;
        self.found = None;
        self.raised
    }

    /// The store was found at this version.
    fn find(&mut self, version: Option<&ResourceVersion>) {
        let Some(version) = version else { return };
        if !self.found.as_ref().is_some_and(|found| found.is_after(version)) {
            self.found = Some(version.clone());
        }
    }
}

impl Api {
    /// Before a write: if there is any doubt, has it dispelled, and sends nothing all
    /// the same. What was decided may rest on what is over when the answer comes.
    pub(super) async fn check_restore_fence(&self, call: &Call<'_>) -> Result<(), ApiError> {
        let restore_fence = self.restore_fence();
        if !restore_fence.is_raised() {
            if self.decided_under().is_some_and(|number| restore_fence.is_superseded(number)) {
                restore_fence.all_acknowledged().await;
                return Err(call.error(ErrorClass::Fenced, format!("not sent: {OVER}"), None));
            }
            return Ok(());
        }
        let asked = restore_fence.state().asked;
        let turn = restore_fence.0.querying.lock().await;
        // Unless somebody else has just tried.
        let query = restore_fence.query(self.high_water()).filter(|_| restore_fence.state().asked == asked);
        let (class, why) = match query {
            Some(query) => self.ask(&query).await,
            None if restore_fence.is_raised() => (
                ErrorClass::GateClosed,
                "watches broke, and it is not known whether the store is still the same".into(),
            ),
            None => DISPELLED,
        };
        drop(turn);
        if class == ErrorClass::Fenced {
            restore_fence.all_acknowledged().await;
        }
        Err(call.error(class, format!("not sent: {why}"), None))
    }

    /// Namespaces are few, built in, and need no webhook to be read. Where they are
    /// behind, or cannot be read, the type itself is asked: it may have a store of its
    /// own. Says what came of it.
    async fn ask(&self, query: &Query) -> (ErrorClass, Cow<'static, str>) {
        let Query { number, resource, seen } = query;
        let restore_fence = self.restore_fence();
        let (mut behind, mut failed) = (None, String::new());
        for asked in [&namespaces(), resource] {
            let answer = timeout(AT_MOST, present_version(self, asked)).await;
            match answer.map(|answer| answer.map(|envelope| envelope.resource_version)) {
                Ok(Ok(Some(found))) if seen.is_after(&found) => behind = Some(found),
                Ok(Ok(found)) => {
                    restore_fence.lift_up_to(*number, found.as_ref());
                    return DISPELLED;
                }
                Ok(Err(error)) => failed = error.to_string(),
                Err(_) => {
                    let of = &asked.group_resource;
                    failed = format!("LIST {of}: no answer within {} s", AT_MOST.as_secs());
                }
            }
        }
        restore_fence.state().asked += 1;
        let Some(found) = behind else {
            let why = format!("watches broke, and nobody says whether the store is still the same: {failed}");
            return (ErrorClass::GateClosed, why.into());
        };
        self.store_is_behind(&resource.group_resource, seen, &found);
        (ErrorClass::GateClosed, RESTORED.into())
    }

    /// Whether a consistent list that stands for this version, and was asked for when
    /// that one of the type had been seen, proves that the store was restored. Who
    /// follows types is told.
    pub(super) fn proves_restore(
        &self,
        resource: &GroupResource,
        seen: Option<&ResourceVersion>,
        found: Option<&ResourceVersion>,
    ) -> bool {
        let (Some(seen), Some(found)) = (seen, found) else { return false };
        // Unless somebody else has found out, and the graph has been built anew since.
        let still = self.restore_fence().last_seen(resource, self.high_water());
        let is_behind = seen.is_after(found) && still.is_some_and(|still| !seen.is_after(&still));
        if is_behind {
            self.store_is_behind(resource, seen, found);
        }
        is_behind
    }

    fn store_is_behind(&self, of: &GroupResource, seen: &ResourceVersion, found: &ResourceVersion) {
        self.restore_fence()
            .report_restore(format!("the store is at version {found}, {seen} had been seen of {of}"));
    }
}

fn namespaces() -> Arc<ResourceType> {
    Arc::new(ResourceType {
        group_resource: GroupResource::parse("namespaces"),
        version: "v1".into(),
        kind: "Namespace".into(),
        scope: Scope::Cluster,
    })
}

#[cfg(test)]
mod tests;
