//! Patches of owner references.

pub(super) mod metadata;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use metadata::{CONFLICTS, ListPatch, MERGE_PATCH, PatchOutcome, STRATEGIC_MERGE_PATCH, given_up};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

use super::client::Api;
use super::error::{ApiError, ErrorClass};
use super::path;
use super::read::AbsenceProof;
use crate::telemetry::record::{self, PatchConflict};
use kube_gc_core::object::{GroupResource, Identity, ObjectFacts, OwnerReference, ResourceVersion, Uid};
use kube_gc_core::text::word;
pub use metadata::{Finalizer, FinalizerRemoval};

/// The number of references above which an object gets no strategic merge patch. An API server
/// compares each reference with the others to apply one: 0.1 s of its CPU time for 1,000, as for a
/// read and a JSON merge patch, but 3 s instead of 0.5 s for 8,000.
pub const MANY_REFERENCES: usize = 1000;

/// The owner references to remove.
#[derive(Clone, Copy, Debug)]
pub enum References<'a> {
    /// Every reference with one of these uids. Only for objects whose references all have
    /// different uids: a strategic merge patch would remove the wrong one.
    OfOwners(&'a [Uid]),
    /// The same, for objects with more than [`MANY_REFERENCES`] references. Always a JSON merge patch.
    OfOwnersAmongMany(&'a [Uid]),
    /// Exactly these, compared by apiVersion, kind, name and uid. Always a JSON merge patch.
    Exactly(&'a [OwnerReference]),
}

/// The result of a patch of owner references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Patched {
    /// The patched object.
    Changed(ObjectFacts),
    /// A live read showed nothing to change.
    Unneeded(ObjectFacts),
    /// The object is gone, or another one has its name.
    Gone(AbsenceProof),
}

impl From<PatchOutcome> for Patched {
    fn from(outcome: PatchOutcome) -> Self {
        match outcome {
            PatchOutcome::Done(facts) => Self::Changed(facts),
            PatchOutcome::Gone(proof) => Self::Gone(proof),
        }
    }
}

/// What a JSON merge patch does with one reference.
enum Edit {
    Keep,
    Remove,
    StopBlocking,
}

const LIST: &str = "ownerReferences";

/// A set that is searched once for each reference of an object. Sorted rather than hashed,
/// because the author of the references could provoke hash collisions.
struct Sorted<T>(Vec<T>);

impl<T: Ord> Sorted<T> {
    fn new(items: impl Iterator<Item = T>) -> Self {
        let mut items: Vec<_> = items.collect();
        items.sort();
        Self(items)
    }

    fn has(&self, item: &T) -> bool {
        let compare = |other: &T| {
            #[cfg(test)]
            kube_gc_core::object::steps::count();
            other.cmp(item)
        };
        self.0.binary_search_by(compare).is_ok()
    }
}

/// The fields that identify a reference.
fn exactly(reference: &OwnerReference) -> (&Uid, &str, &str, &str) {
    let OwnerReference { api_version, kind, name, uid, .. } = reference;
    (uid, name, kind, api_version)
}

impl Api {
    /// How many requests a patch of owner references takes, as far as known.
    #[must_use]
    pub fn requests_for_patch(&self, group_resource: &GroupResource, references: References<'_>) -> u32 {
        // A JSON merge patch needs a read. And an object of an aggregated API is read to
        // check its version.
        let is_read = !matches!(references, References::OfOwners(_))
            || self.0.strategic_merge.is_refused(group_resource)
            || self.is_aggregated(group_resource);
        if is_read { 2 } else { 1 }
    }

    /// Removes owner references from a dependent (rules 6.1 to 6.3).
    ///
    /// Sends a strategic merge patch with the uid, and with the resource version when one is
    /// given. For types that do not accept it (415, remembered per type), for exact references
    /// and among many, sends a JSON merge patch of the list that a live read shows, with that
    /// read's uid and resource version.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorClass::Conflict) when the object is not at the given resource
    /// version; any other error of a request.
    pub async fn remove_references(
        &self,
        dependent: &Identity,
        references: References<'_>,
        resource_version: Option<&ResourceVersion>,
    ) -> Result<Patched, ApiError> {
        #[derive(Serialize)]
        struct Removal<'a> {
            #[serde(rename = "$patch")]
            patch: &'static str,
            uid: &'a Uid,
        }
        match references {
            References::OfOwners(uids) | References::OfOwnersAmongMany(uids) => {
                let unwanted = Sorted::new(uids.iter());
                let edit = |reference: &OwnerReference| {
                    if unwanted.has(&&reference.uid) { Edit::Remove } else { Edit::Keep }
                };
                if matches!(references, References::OfOwners(_)) {
                    let entries: Vec<_> = uids.iter().map(|uid| Removal { patch: "delete", uid }).collect();
                    if let Some(patched) =
                        self.strategic(dependent, &entries, resource_version, &edit).await?
                    {
                        return Ok(patched);
                    }
                }
                self.edit(dependent, resource_version, edit).await
            }
            References::Exactly(unwanted) => {
                let unwanted = Sorted::new(unwanted.iter().map(exactly));
                self.edit(dependent, resource_version, |reference| {
                    if unwanted.has(&exactly(reference)) { Edit::Remove } else { Edit::Keep }
                })
                .await
            }
        }
    }

    /// Sets `blockOwnerDeletion` to false on those of these references that block.
    /// `references` are all that the object has.
    ///
    /// # Errors
    ///
    /// As [`remove_references`](Self::remove_references).
    pub async fn stop_blocking(
        &self,
        dependent: &Identity,
        references: &[OwnerReference],
        resource_version: Option<&ResourceVersion>,
    ) -> Result<Patched, ApiError> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Release<'a> {
            uid: &'a Uid,
            block_owner_deletion: bool,
        }
        let uids: HashSet<_> = references.iter().map(|reference| &reference.uid).collect();
        let edit = |reference: &OwnerReference| {
            let blocks = reference.block_owner_deletion && uids.contains(&reference.uid);
            if blocks { Edit::StopBlocking } else { Edit::Keep }
        };
        // A strategic merge patch merges by uid, so it changes only one of two that share a uid.
        if uids.len() == references.len() && references.len() <= MANY_REFERENCES {
            let entries: Vec<_> = references
                .iter()
                .filter(|reference| reference.block_owner_deletion)
                .map(|reference| Release { uid: &reference.uid, block_owner_deletion: false })
                .collect();
            if let Some(patched) = self.strategic(dependent, &entries, resource_version, &edit).await? {
                return Ok(patched);
            }
        }
        self.edit(dependent, resource_version, edit).await
    }

    /// Tries a strategic merge patch, which does the same as the edits; `None` if a JSON merge patch is
    /// needed.
    async fn strategic<T: Serialize>(
        &self,
        dependent: &Identity,
        entries: &[T],
        resource_version: Option<&ResourceVersion>,
        edit: impl Fn(&OwnerReference) -> Edit + Send,
    ) -> Result<Option<Patched>, ApiError> {
        if entries.is_empty() {
            return Ok(None);
        }
        let support = self.0.strategic_merge.of(&dependent.resource.group_resource);
        // A reserved slot means that the caller has made its checks: it must not wait here.
        let first = if self.is_reserved() { None } else { support.wait_for_first().await };
        if support.is_refused() {
            return Ok(None);
        }
        // An aggregated API may ignore the preconditions of a patch.
        if self.is_aggregated(&dependent.resource.group_resource) {
            let live = match self.read_raw(dependent).await? {
                Ok(live) => live,
                Err(proof) => return Ok(Some(Patched::Gone(proof))),
            };
            let found = live.facts.resource_version.as_ref();
            if resource_version.is_some() && resource_version != found {
                return Err(given_up(LIST, moved_on(dependent, resource_version, found)));
            }
        }
        let patch = ListPatch { uid: &dependent.uid, resource_version, list: LIST, entries };
        let patched = self.patch(dependent, STRATEGIC_MERGE_PATCH, &patch, |facts| left(facts, &edit)).await;
        let is_unsupported = |error: &ApiError| error.code == Some(415) && error.class != ErrorClass::Denied;
        if patched.as_ref().map_or_else(|error| error.code.is_some(), |_| true) {
            support.ended(patched.as_ref().is_err_and(is_unsupported));
        }
        drop(first);
        match patched {
            Ok(outcome) => Ok(Some(outcome.into())),
            Err(error) if is_unsupported(&error) => Ok(None),
            // If the reference was removed meanwhile, the server merges the entry as a new,
            // incomplete reference and refuses that. A live read shows it.
            Err(ApiError { class: ErrorClass::Refused, code: Some(422), .. }) => Ok(None),
            Err(error) => Err(given_up(LIST, error)),
        }
    }

    /// Changes the references that a live read shows.
    async fn edit(
        &self,
        dependent: &Identity,
        resource_version: Option<&ResourceVersion>,
        edit: impl Fn(&OwnerReference) -> Edit + Send,
    ) -> Result<Patched, ApiError> {
        let mut attempt = 1;
        loop {
            let live = match self.read_raw(dependent).await? {
                Ok(live) => live,
                Err(proof) => return Ok(Patched::Gone(proof)),
            };
            let found = live.facts.resource_version.as_ref();
            if resource_version.is_some() && resource_version != found {
                return Err(given_up(LIST, moved_on(dependent, resource_version, found)));
            }
            let metadata = live.metadata(dependent)?;
            let Some(entries) = apply(metadata.owner_references(), &edit) else {
                return Ok(Patched::Unneeded(live.facts));
            };
            let patch =
                ListPatch { uid: &dependent.uid, resource_version: found, list: LIST, entries: &entries };
            match self.patch(dependent, MERGE_PATCH, &patch, |facts| left(facts, &edit)).await {
                Ok(outcome) => return Ok(outcome.into()),
                // The caller asked for no version: the object changed between the read and the
                // patch, so read it again.
                Err(error)
                    if error.class == ErrorClass::Conflict
                        && resource_version.is_none()
                        && attempt < CONFLICTS =>
                {
                    record::patch_conflict(LIST, PatchConflict::Retry);
                    attempt += 1;
                }
                Err(error) => return Err(given_up(LIST, error)),
            }
        }
    }
}

/// The list after the edits; `None` if nothing changes. Entries that stay are verbatim.
fn apply(references: &[&RawValue], edit: impl Fn(&OwnerReference) -> Edit) -> Option<Vec<Box<RawValue>>> {
    let mut changed = false;
    let mut entries = Vec::with_capacity(references.len());
    for &raw in references {
        // A reference without a uid, or one that cannot be read, stays.
        let reference = kube_gc_decode::reference(raw.get()).ok().flatten();
        match reference.as_ref().map_or(Edit::Keep, &edit) {
            Edit::Keep => entries.push(raw.to_owned()),
            Edit::Remove => changed = true,
            Edit::StopBlocking => {
                let released = release(raw)?;
                changed = true;
                entries.push(released);
            }
        }
    }
    changed.then_some(entries)
}

/// What an object still has although the edits are done: the first reference that they would change.
fn left(facts: &ObjectFacts, edit: impl Fn(&OwnerReference) -> Edit) -> Option<String> {
    facts.owners.iter().find_map(|reference| {
        let what = match edit(reference) {
            Edit::Keep => return None,
            Edit::Remove => "refers to",
            Edit::StopBlocking => "blocks",
        };
        let OwnerReference { kind, name, uid, .. } = reference;
        Some(format!("{what} {} {} with the uid {}", word(kind), word(name), word(&uid.to_string())))
    })
}

fn release(raw: &RawValue) -> Option<Box<RawValue>> {
    let mut fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(raw.get()).ok()?;
    fields.insert("blockOwnerDeletion".into(), false.into());
    to_raw_value(&fields).ok()
}

/// The error of a patch that was decided on another version than the live one.
fn moved_on(
    dependent: &Identity,
    decided: Option<&ResourceVersion>,
    found: Option<&ResourceVersion>,
) -> ApiError {
    let text = |version: Option<&ResourceVersion>| {
        version.map_or_else(|| "no version".to_owned(), |version| format!("version {version}"))
    };
    ApiError {
        class: ErrorClass::Conflict,
        action: "PATCH",
        target: path::describe_object(dependent),
        message: format!("decided at {}, but the object is at {}", text(decided), text(found)),
        code: None,
    }
}

/// How long other patches wait for the first one, which may hang in a webhook.
const AHEAD: Duration = Duration::from_secs(1);

/// Which types accept strategic merge patches.
///
/// Discovery does not say it. Built-in types accept them, custom resources do not (415), and
/// an aggregated API may or may not. So the first patch of a type goes ahead of all others.
/// Otherwise each of many concurrent patches would find out by itself.
#[derive(Debug, Default)]
pub struct StrategicMergeSupport(DashMap<GroupResource, Arc<TypeSupport>>);

/// What is known of one type.
#[derive(Debug, Default)]
pub struct TypeSupport {
    first: Mutex<()>,
    is_over: AtomicBool,
    is_refused: AtomicBool,
}

impl StrategicMergeSupport {
    pub fn of(&self, resource: &GroupResource) -> Arc<TypeSupport> {
        if let Some(support) = self.0.get(resource) {
            return Arc::clone(&support);
        }
        Arc::clone(&self.0.entry(resource.clone()).or_default())
    }

    /// Whether the type is known to refuse strategic merge patches.
    pub fn is_refused(&self, resource: &GroupResource) -> bool {
        self.0.get(resource).is_some_and(|support| support.is_refused())
    }
}

impl TypeSupport {
    pub fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Acquire)
    }

    /// Waits for the first patch of the type, for a limited time. The caller that is the first
    /// keeps the guard until its patch was answered.
    pub async fn wait_for_first(&self) -> Option<MutexGuard<'_, ()>> {
        if self.is_over.load(Ordering::Acquire) {
            return None;
        }
        let first = timeout(AHEAD, self.first.lock()).await.ok();
        first.filter(|_| !self.is_over.load(Ordering::Acquire))
    }

    /// A patch was answered.
    pub fn ended(&self, refused: bool) {
        if refused {
            self.is_refused.store(true, Ordering::Release);
        }
        self.is_over.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
