//! Whether the store is still the one that was seen.
//!
//! A store is restored from a backup while nobody can reach the API server, so every
//! watch ends first. What was deleted since the backup is there again then, with the
//! same uid and at the same version: a DELETE that was decided on its owner's absence
//! would go through. So when watches have ended before their time, nothing is written
//! until a consistent list has said at which version the store is. The list is one for
//! all types, because they share a store, and because a type that cannot be listed must
//! not hold up the others.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::client::{Api, Call};
use super::error::{ApiError, ErrorClass};
use super::list_watch::{HighWater, present_version};
use crate::object::{GroupResource, ResourceType, ResourceVersion, Scope};

/// How long the answer may take: a write waits for it.
const AT_MOST: Duration = Duration::from_secs(10);

/// What comes of a question where all is well.
const DISPELLED: (ErrorClass, Cow<'static, str>) = (
    ErrorClass::Doubted,
    Cow::Borrowed("watches broke; the store is still the same, and it is decided anew"),
);

/// What comes of one where the store went back.
pub(super) const RESTORED: &str = "the store was restored from a backup; everything is read anew first";

/// Types whose watch has ended before its time, and which could not be checked since.
/// Clones share one state.
#[derive(Clone, Debug)]
pub struct Doubts(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// One question at a time: it answers everybody.
    asking: tokio::sync::Mutex<()>,
    proof: watch::Sender<String>,
}

#[derive(Debug, Default)]
struct State {
    /// How many doubts there ever were.
    raised: u64,
    /// How many questions there were that dispelled none.
    asked: u64,
    /// Each with its number.
    doubted: BTreeMap<GroupResource, u64>,
    /// The types whose versions are those of the store.
    followed: BTreeMap<GroupResource, Arc<ResourceType>>,
}

/// What dispels all doubts up to a number: the store is not behind this version.
struct Question {
    number: u64,
    resource: Arc<ResourceType>,
    seen: ResourceVersion,
}

impl Default for Doubts {
    fn default() -> Self {
        let (proof, _) = watch::channel(String::new());
        Self(Arc::new(Inner { state: Mutex::default(), asking: tokio::sync::Mutex::default(), proof }))
    }
}

impl Doubts {
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
        state.raised += 1;
        let number = state.raised;
        state.doubted.insert(resource.clone(), number);
    }

    /// A connection to the API server was lost, or could not be made: it may come back with
    /// another store. Where nothing was seen, there is nothing to doubt.
    pub(super) fn connection_lost(&self, resource: &GroupResource) {
        let is_any_followed = !self.state().followed.is_empty();
        if is_any_followed {
            self.raise(resource);
        }
    }

    /// The store is not behind what was seen of a type.
    pub(super) fn settle(&self, resource: &GroupResource) {
        self.state().doubted.remove(resource);
    }

    fn settle_up_to(&self, number: u64) {
        self.state().doubted.retain(|_, doubt| *doubt > number);
    }

    /// Forgets all: the store was restored, and everything is read anew.
    pub fn forget_all(&self) {
        let mut state = self.state();
        state.doubted.clear();
        state.followed.clear();
    }

    /// What proves that the store was restored, whenever something does.
    #[must_use]
    pub fn proofs(&self) -> watch::Receiver<String> {
        self.0.proof.subscribe()
    }

    /// The last version seen of a type, if that says something of the store.
    pub(super) fn seen(&self, resource: &GroupResource, high_water: &HighWater) -> Option<ResourceVersion> {
        let is_followed = self.state().followed.contains_key(resource);
        high_water.get(resource).filter(|_| is_followed)
    }

    pub(super) fn is_any(&self) -> bool {
        !self.state().doubted.is_empty()
    }

    /// What is to be asked, if there is any doubt: for the greatest version seen of any
    /// type, since a backup may be younger than what was last seen of most.
    fn question(&self, high_water: &HighWater) -> Option<Question> {
        let state = self.state();
        state.doubted.first_key_value()?;
        let number = state.raised;
        let seen =
            state.followed.iter().filter_map(|(name, resource)| Some((high_water.get(name)?, resource)));
        let greatest = seen.reduce(|one, other| if other.0.is_after(&one.0) { other } else { one });
        greatest.map(|(seen, resource)| Question { number, resource: Arc::clone(resource), seen })
    }
}

impl Api {
    /// Before a write: if there is any doubt, has it dispelled, and sends nothing all
    /// the same. What was decided may rest on what is over when the answer comes.
    pub(super) async fn refuse_in_doubt(&self, call: &Call<'_>) -> Result<(), ApiError> {
        let doubts = self.doubts();
        if !doubts.is_any() {
            return Ok(());
        }
        let asked = doubts.state().asked;
        let _turn = doubts.0.asking.lock().await;
        // Unless somebody else has just tried.
        let question = doubts.question(self.high_water()).filter(|_| doubts.state().asked == asked);
        let (class, why) = match question {
            Some(question) => self.ask(&question).await,
            None if doubts.is_any() => (
                ErrorClass::GateClosed,
                "watches broke, and it is not known whether the store is still the same".into(),
            ),
            None => DISPELLED,
        };
        Err(call.error(class, format!("not sent: {why}"), None))
    }

    /// Namespaces are few, built in, and need no webhook to be read. Where they are
    /// behind, or cannot be read, the type itself is asked: it may have a store of its
    /// own. Says what came of it.
    async fn ask(&self, question: &Question) -> (ErrorClass, Cow<'static, str>) {
        let Question { number, resource, seen } = question;
        let doubts = self.doubts();
        let (mut behind, mut failed) = (None, String::new());
        for asked in [&namespaces(), resource] {
            let answer = timeout(AT_MOST, present_version(self, asked)).await;
            match answer.map(|answer| answer.map(|envelope| envelope.resource_version)) {
                Ok(Ok(Some(found))) if seen.is_after(&found) => behind = Some(found),
                Ok(Ok(_)) => {
                    doubts.settle_up_to(*number);
                    return DISPELLED;
                }
                Ok(Err(error)) => failed = error.to_string(),
                Err(_) => {
                    let of = &asked.group_resource;
                    failed = format!("LIST {of}: no answer within {} s", AT_MOST.as_secs());
                }
            }
        }
        doubts.state().asked += 1;
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
        let still = self.doubts().seen(resource, self.high_water());
        let is_behind = seen.is_after(found) && still.is_some_and(|still| !seen.is_after(&still));
        if is_behind {
            self.store_is_behind(resource, seen, found);
        }
        is_behind
    }

    fn store_is_behind(&self, of: &GroupResource, seen: &ResourceVersion, found: &ResourceVersion) {
        // At once: until anybody gets to it, much could be written.
        self.gate().pause();
        let proof = format!("the store is at version {found}, {seen} had been seen of {of}");
        self.doubts().0.proof.send_replace(proof);
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
