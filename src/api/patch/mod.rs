//! Patches of owner references.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::client::Api;
use super::decode;
use super::error::{ApiError, ErrorClass};
use super::path;
use super::raw_metadata::{CONFLICTS, ListPatch, MERGE_PATCH, PatchOutcome, STRATEGIC_MERGE_PATCH, given_up};
use crate::telemetry::record::{self, PatchConflict};
use kube_gc_core::object::{
    GroupResource, Identity, Namespace, ObjectFacts, OwnerReference, ResourceVersion, Uid,
};

/// Which owner references are to go.
#[derive(Clone, Copy, Debug)]
pub enum References<'a> {
    /// Every reference with one of these uids. Only for objects of which no two
    /// references share a uid: a strategic merge patch removes the wrong one.
    OfOwners(&'a [Uid]),
    /// Exactly these (compared by apiVersion, kind, name and uid); always a JSON
    /// merge patch.
    Exactly(&'a [OwnerReference]),
}

/// What came of a patch of owner references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Patched {
    /// The object as the patch returned it.
    Changed(ObjectFacts),
    /// A live read showed that there is nothing to change.
    Unneeded(ObjectFacts),
    /// The object is gone, or another one has its name.
    Gone,
}

impl From<PatchOutcome> for Patched {
    fn from(outcome: PatchOutcome) -> Self {
        match outcome {
            PatchOutcome::Done(facts) => Self::Changed(facts),
            PatchOutcome::Gone => Self::Gone,
        }
    }
}

/// What becomes of one reference in a JSON merge patch.
enum Edit {
    Keep,
    Remove,
    StopBlocking,
}

const LIST: &str = "ownerReferences";

/// What is searched once for each reference of an object: as many of both as the object has.
/// Sorted, because whoever wrote the references could make a hash table slow.
struct Sorted<T>(Vec<T>);

impl<T: Ord> Sorted<T> {
    fn new(items: impl Iterator<Item = T>) -> Self {
        let mut items: Vec<_> = items.collect();
        items.sort_unstable();
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

/// What tells a reference from all others.
fn exactly(reference: &OwnerReference) -> (&Uid, &str, &str, &str) {
    let OwnerReference { api_version, kind, name, uid, .. } = reference;
    (uid, name, kind, api_version)
}

impl Api {
    /// How many requests a patch of owner references takes, as far as is known of the type.
    #[must_use]
    pub fn requests_for_patch(&self, group_resource: &GroupResource) -> u32 {
        // A JSON merge patch is made of what is read for it; and of what another API server
        // answers for, it is read whether it is still the same.
        let is_read = self.strategic_merge().is_refused(group_resource) || self.is_aggregated(group_resource);
        if is_read { 2 } else { 1 }
    }

    /// Removes owner references from a dependent (rules 6.1 to 6.3).
    ///
    /// A strategic merge patch with the uid, and the resource version when one is
    /// given; for types that know none (415, remembered per type), and for exact
    /// references, a JSON merge patch of what a live read shows, with that read's
    /// uid and resource version.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorClass::Conflict) when the object is not at the given resource
    /// version; anything else that a request can meet.
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
            References::OfOwners(uids) => {
                let entries: Vec<_> = uids.iter().map(|uid| Removal { patch: "delete", uid }).collect();
                if let Some(patched) = self.strategic(dependent, &entries, resource_version).await? {
                    return Ok(patched);
                }
                let unwanted = Sorted::new(uids.iter());
                self.edit(dependent, resource_version, |reference| {
                    if unwanted.has(&&reference.uid) { Edit::Remove } else { Edit::Keep }
                })
                .await
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

    /// Sets `blockOwnerDeletion` to false on those of these references (all of
    /// the object's own) that block, by the same rules.
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
        // Merged by uid, a patch would reach only one of two that share it.
        if uids.len() == references.len() {
            let entries: Vec<_> = references
                .iter()
                .filter(|reference| reference.block_owner_deletion)
                .map(|reference| Release { uid: &reference.uid, block_owner_deletion: false })
                .collect();
            if let Some(patched) = self.strategic(dependent, &entries, resource_version).await? {
                return Ok(patched);
            }
        }
        self.edit(dependent, resource_version, |reference| {
            let blocks = reference.block_owner_deletion && uids.contains(&reference.uid);
            if blocks { Edit::StopBlocking } else { Edit::Keep }
        })
        .await
    }

    /// Tries a strategic merge patch; `None` when a JSON merge patch must do it.
    async fn strategic<T: Serialize>(
        &self,
        dependent: &Identity,
        entries: &[T],
        resource_version: Option<&ResourceVersion>,
    ) -> Result<Option<Patched>, ApiError> {
        if entries.is_empty() {
            return Ok(None);
        }
        let support = self.strategic_merge().of(&dependent.resource.group_resource);
        // What was looked at must not grow old while others try.
        let first = if self.is_reserved() { None } else { support.wait_for_first().await };
        if support.is_refused() {
            return Ok(None);
        }
        // Other API servers may ignore what a patch is bound to.
        if self.is_aggregated(&dependent.resource.group_resource) {
            let Some(live) = self.read_raw(dependent).await? else { return Ok(Some(Patched::Gone)) };
            let found = live.facts.resource_version.as_ref();
            if resource_version.is_some() && resource_version != found {
                return Err(given_up(LIST, moved_on(dependent, resource_version, found)));
            }
        }
        let patch = ListPatch { uid: &dependent.uid, resource_version, list: LIST, entries };
        let patched = self.patch(dependent, STRATEGIC_MERGE_PATCH, &patch).await;
        if let Some(answered) = patched.as_ref().map_or_else(|error| error.code, |_| Some(200)) {
            support.ended(answered == 415);
        }
        drop(first);
        match patched {
            Ok(outcome) => Ok(Some(outcome.into())),
            Err(error) if error.code == Some(415) => Ok(None),
            // When the reference has gone meanwhile, servers merge the entry in as
            // a new, incomplete reference, and refuse that. A live read tells.
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
            let Some(live) = self.read_raw(dependent).await? else { return Ok(Patched::Gone) };
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
            match self.patch(dependent, MERGE_PATCH, &patch).await {
                Ok(outcome) => return Ok(outcome.into()),
                // The caller did not ask for a version: this is between the read
                // and the patch, and reading again settles it.
                Err(error)
                    if error.class == ErrorClass::Conflict
                        && resource_version.is_none()
                        && attempt < CONFLICTS =>
                {
                    record::patch_conflict(LIST, PatchConflict::ReadAgain);
                    attempt += 1;
                }
                Err(error) => return Err(given_up(LIST, error)),
            }
        }
    }
}

/// The list after the edits; `None` when nothing changes. What is kept is verbatim.
fn apply(references: &[&RawValue], edit: impl Fn(&OwnerReference) -> Edit) -> Option<Vec<Box<RawValue>>> {
    let mut changed = false;
    let mut entries = Vec::with_capacity(references.len());
    for &raw in references {
        // One that has no uid, or cannot be read, is not ours to touch.
        let reference = decode::reference(raw.get()).ok().flatten();
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

fn release(raw: &RawValue) -> Option<Box<RawValue>> {
    let mut fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(raw.get()).ok()?;
    fields.insert("blockOwnerDeletion".into(), false.into());
    to_raw_value(&fields).ok()
}

/// The answer to a patch that was decided on another version than the live one.
fn moved_on(
    dependent: &Identity,
    decided: Option<&ResourceVersion>,
    found: Option<&ResourceVersion>,
) -> ApiError {
    let text = |version: Option<&ResourceVersion>| {
        version.map_or_else(|| "no version".to_owned(), |version| format!("version {version}"))
    };
    let namespace = dependent.namespace.as_ref().map(Namespace::as_str);
    ApiError {
        class: ErrorClass::Conflict,
        action: "PATCH",
        target: path::describe(&dependent.resource.group_resource, namespace, Some(&dependent.name)),
        message: format!("decided on {}, but the object is at {}", text(decided), text(found)),
        code: None,
    }
}

#[cfg(test)]
mod tests;
