//! Patches of owner references and finalizers.
//!
//! A JSON merge patch replaces a whole list. So the entries that stay must come from a live
//! read and be sent back unchanged, with the fields that this program does not know.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::call::Call;
use super::client::Api;
use super::error::{ApiError, ErrorClass};
use super::path;
use super::read::{AbsenceProof, LookupResult, RawObject, read_object};
use super::settings::{FIELD_MANAGER, Verb};
use kube_gc_core::graph::DependentView;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{
    FOREGROUND_FINALIZER, GroupResource, Identity, ORPHAN_FINALIZER, ObjectFacts, OwnerReference,
    ResourceVersion, Uid,
};
use kube_gc_core::text::word;
use kube_gc_decode::Object;
use kube_gc_observe::telemetry::record::{self, PatchConflict};

/// RFC 7386. Every type accepts it.
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";
/// Only built-in types accept it. It merges `ownerReferences` by uid.
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

/// The number of references above which an object gets no strategic merge patch. An API server
/// compares each reference with the others to apply one: 0.1 s of its CPU time for 1,000, as for a
/// read and a JSON merge patch, but 3 s instead of 0.5 s for 8,000.
const MANY_REFERENCES: usize = 1000;

/// How many conflicts with other writers in a row are answered by another read. After that
/// the caller's backoff applies.
const CONFLICTS: u32 = 5;

/// The owner references to remove from an object. A strategic merge patch identifies them by uid. Where
/// two references of the object share a uid, it would remove the wrong one, and among many references,
/// it would cost the API server much.
#[derive(Debug)]
pub enum References {
    /// Every reference with one of these uids.
    OfOwners(Vec<Uid>),
    /// Exactly these, compared by apiVersion, kind, name and uid. Always a JSON merge patch.
    Exactly(Vec<OwnerReference>),
}

impl References {
    /// These of all references of an object.
    pub fn of<'a>(all: impl IntoIterator<Item = &'a OwnerReference>, remove: Vec<OwnerReference>) -> Self {
        let mut seen = HashSet::new();
        let shares_uid = !all.into_iter().all(|reference| seen.insert(&reference.uid));
        Self::among(seen.len(), shares_uid, remove)
    }

    /// The reference of a dependent to an owner that orphans it.
    pub fn of_dependent(dependent: &DependentView) -> Self {
        let DependentView { reference, shares_uid, reference_count, .. } = dependent;
        Self::among(*reference_count, *shares_uid, vec![reference.clone()])
    }

    fn among(count: usize, shares_uid: bool, remove: Vec<OwnerReference>) -> Self {
        if shares_uid || count > MANY_REFERENCES {
            return Self::Exactly(remove);
        }
        Self::OfOwners(remove.into_iter().map(|reference| reference.uid).collect())
    }
}

/// The result of a patch of owner references or finalizers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Patched {
    Changed(ObjectFacts),
    /// A live read showed nothing to change, or that the object of a finalizer is not being deleted.
    Unneeded(ObjectFacts),
    /// The object is gone, or another one has its name.
    Gone(AbsenceProof),
}

/// What a JSON merge patch does with one reference.
enum Edit {
    Keep,
    Remove,
    StopBlocking,
}

const OWNER_REFERENCES: &str = "ownerReferences";
pub(super) const FINALIZERS: &str = "finalizers";

impl Api {
    /// How many requests a patch of owner references takes, as far as known.
    pub fn requests_for_patch(&self, group_resource: &GroupResource, references: &References) -> u32 {
        // A JSON merge patch needs a read. And an object of an aggregated API is read to
        // check its version.
        let is_read = !matches!(references, References::OfOwners(_))
            || self.0.not_strategic.contains(group_resource)
            || self.is_aggregated(group_resource);
        if is_read { 2 } else { 1 }
    }

    /// Removes owner references from a dependent (rules 6.1 to 6.3).
    ///
    /// Sends a strategic merge patch with the uid, and with the resource version when one is
    /// given. For types that do not accept it (415, remembered per type) and for exact references,
    /// sends a JSON merge patch of the list that a live read shows, with that
    /// read's uid and resource version.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorClass::Conflict) when the object is not at the given resource
    /// version; any other error of a request.
    pub async fn remove_references(
        &self,
        dependent: &Identity,
        references: &References,
        resource_version: Option<&ResourceVersion>,
    ) -> Result<Patched, ApiError> {
        let remove_if = |is_unwanted: bool| if is_unwanted { Edit::Remove } else { Edit::Keep };
        match references {
            References::OfOwners(uids) => {
                let unwanted: HashSet<&Uid> = uids.iter().collect();
                let edit = |reference: &OwnerReference| remove_if(unwanted.contains(&reference.uid));
                let entries = uids.iter().map(|uid| json!({ "$patch": "delete", "uid": uid })).collect();
                self.edit_references(dependent, entries, resource_version, edit).await
            }
            References::Exactly(unwanted) => {
                let unwanted: HashSet<_> = unwanted.iter().map(OwnerReference::named).collect();
                let edit = |reference: &OwnerReference| remove_if(unwanted.contains(&reference.named()));
                self.edit_references(dependent, Vec::new(), resource_version, edit).await
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
        let uids: HashSet<_> = references.iter().map(|reference| &reference.uid).collect();
        let edit = |reference: &OwnerReference| {
            let blocks = reference.block_owner_deletion && uids.contains(&reference.uid);
            if blocks { Edit::StopBlocking } else { Edit::Keep }
        };
        let mut entries = Vec::new();
        // A strategic merge patch merges by uid, so it changes only one of two that share a uid.
        if uids.len() == references.len() && references.len() <= MANY_REFERENCES {
            let blocking = references.iter().filter(|reference| reference.block_owner_deletion);
            entries
                .extend(blocking.map(|blocking| json!({ "uid": blocking.uid, "blockOwnerDeletion": false })));
        }
        self.edit_references(dependent, entries, resource_version, edit).await
    }

    /// Edits owner references: by a strategic merge patch of these entries, which does the same, or by a
    /// JSON merge patch if there are none or the type does not accept it.
    async fn edit_references(
        &self,
        dependent: &Identity,
        entries: Vec<Value>,
        resource_version: Option<&ResourceVersion>,
        edit: impl Fn(&OwnerReference) -> Edit + Send,
    ) -> Result<Patched, ApiError> {
        let left = |facts: &ObjectFacts| left(facts, &edit);
        if let Some(patched) = self.strategic(dependent, &entries, resource_version, left).await? {
            return Ok(patched);
        }
        self.edit_list(
            dependent,
            resource_version,
            None,
            OWNER_REFERENCES,
            |lists, _| apply(lists, &edit),
            left,
        )
        .await
    }

    /// Tries a strategic merge patch; `None` if a JSON merge patch is needed.
    async fn strategic(
        &self,
        dependent: &Identity,
        entries: &[Value],
        resource_version: Option<&ResourceVersion>,
        left: impl Fn(&ObjectFacts) -> Option<String>,
    ) -> Result<Option<Patched>, ApiError> {
        let resource = &dependent.resource.group_resource;
        if entries.is_empty() || self.0.not_strategic.contains(resource) {
            return Ok(None);
        }
        // An aggregated API may ignore the preconditions of a patch.
        if self.is_aggregated(resource) {
            match self.read_raw(dependent, None).await? {
                LookupResult::Found(live) => is_at(dependent, resource_version, &live)
                    .map_err(|error| given_up(OWNER_REFERENCES, error))?,
                LookupResult::Absent(proof) => return Ok(Some(Patched::Gone(proof))),
            }
        }
        let list = (OWNER_REFERENCES, entries);
        match self.patch(dependent, STRATEGIC_MERGE_PATCH, resource_version, list, left).await {
            Ok(patched) => Ok(Some(patched)),
            Err(error) if error.code == Some(415) && error.class != ErrorClass::Denied => {
                self.0.not_strategic.insert(resource.clone());
                Ok(None)
            }
            // If the reference was removed meanwhile, the server merges the entry as a new,
            // incomplete reference and refuses that. A live read shows it.
            Err(ApiError { class: ErrorClass::Refused, code: Some(422), .. }) => Ok(None),
            Err(error) => Err(given_up(OWNER_REFERENCES, error)),
        }
    }

    /// Changes a list that a live read shows. `change` returns the new list; `None` if nothing is to
    /// change.
    async fn edit_list(
        &self,
        object: &Identity,
        resource_version: Option<&ResourceVersion>,
        seen: Option<&ResourceVersion>,
        list: &'static str,
        change: impl Fn(RawMetadata<'_>, &ObjectFacts) -> Option<Vec<Box<RawValue>>>,
        left: impl Fn(&ObjectFacts) -> Option<String>,
    ) -> Result<Patched, ApiError> {
        let mut attempt = 1;
        loop {
            let live = match self.read_raw(object, seen).await? {
                LookupResult::Found(live) => live,
                LookupResult::Absent(proof) => return Ok(Patched::Gone(proof)),
            };
            is_at(object, resource_version, &live).map_err(|error| given_up(list, error))?;
            let Some(entries) = change(live.answer.json::<Object<_>>()?.metadata, &live.facts) else {
                return Ok(Patched::Unneeded(live.facts));
            };
            let found = live.facts.resource_version.as_ref();
            match self.patch(object, MERGE_PATCH, found, (list, &entries), &left).await {
                // The caller asked for no version: the object changed between the read and the
                // patch, so read it again.
                Err(error)
                    if error.class == ErrorClass::Conflict
                        && resource_version.is_none()
                        && attempt < CONFLICTS =>
                {
                    record::patch_conflict(list, PatchConflict::Retry);
                    attempt += 1;
                }
                result => return result.map_err(|error| given_up(list, error)),
            }
        }
    }

    /// Sends a patch of a list, with the uid and optionally a resource version as preconditions. `left`
    /// says what the object that the answer shows still has, although the patch removes it: a mutating
    /// webhook may have added it again.
    ///
    /// # Errors
    ///
    /// [`Denied`](ErrorClass::Denied) if the patch did not do its work; any other error of a write.
    pub(super) async fn patch<T: Serialize>(
        &self,
        object: &Identity,
        content_type: &'static str,
        resource_version: Option<&ResourceVersion>,
        (list, entries): (&'static str, &[T]),
        left: impl Fn(&ObjectFacts) -> Option<String>,
    ) -> Result<Patched, ApiError> {
        let call = Call::object(Verb::Patch, object)?.with("fieldManager", FIELD_MANAGER);
        let body = || {
            // `null` removes the list.
            let entries = Some(entries).filter(|entries| !entries.is_empty());
            let mut metadata = BTreeMap::from([(list, to_raw_value(&entries)?)]);
            if !(list == FINALIZERS && mutation::is(Mutation::FinalizeByName)) {
                metadata.insert("uid", to_raw_value(&object.uid)?);
                if let Some(version) = resource_version {
                    metadata.insert("resourceVersion", to_raw_value(version)?);
                }
            }
            serde_json::to_vec(&BTreeMap::from([("metadata", metadata)]))
        };
        let body = body().map_err(|error| call.error(ErrorClass::Refused, error.to_string(), None))?;
        let answer = match self.call(call.writing(content_type, body)).await {
            Ok(answer) => answer,
            Err(error) if error.class == ErrorClass::SaysGone => {
                return self.confirm_gone(object, error).await.map(Patched::Gone);
            }
            Err(error) => return Err(error),
        };
        let facts = read_object(object.namespace.as_ref(), &object.name, &answer)?;
        match left(&facts).filter(|_| !mutation::is(Mutation::BelieveCodesOfPatches)) {
            None => Ok(Patched::Changed(facts)),
            Some(left) => Err(answer.undone(&left)),
        }
    }
}

/// Fails if an object is not at the version for which a patch was decided.
fn is_at(object: &Identity, decided: Option<&ResourceVersion>, live: &RawObject) -> Result<(), ApiError> {
    let found = live.facts.resource_version.as_ref();
    let Some(decided) = decided.filter(|decided| Some(*decided) != found) else { return Ok(()) };
    let found = found.map_or_else(|| "no version".to_owned(), |version| format!("version {version}"));
    let message = format!("decided at version {decided}, but the object is at {found}");
    Err(ApiError::new(ErrorClass::Conflict, "PATCH", path::describe_object(object), message))
}

/// The final error of a patch of a list. Counts conflicts.
fn given_up(list: &'static str, error: ApiError) -> ApiError {
    if error.class == ErrorClass::Conflict {
        record::patch_conflict(list, PatchConflict::Requeue);
    }
    error
}

/// `metadata.ownerReferences` and `metadata.finalizers`, verbatim.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMetadata<'a> {
    #[serde(borrow)]
    owner_references: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    finalizers: Option<Vec<&'a RawValue>>,
}

/// The references after the edits; `None` if nothing changes. Entries that stay are verbatim.
fn apply(lists: RawMetadata<'_>, edit: impl Fn(&OwnerReference) -> Edit) -> Option<Vec<Box<RawValue>>> {
    let mut changed = false;
    let mut entries = Vec::new();
    for raw in lists.owner_references.unwrap_or_default() {
        // A reference without a uid, or one that cannot be read, stays.
        let reference = kube_gc_decode::reference(raw.get()).ok().flatten();
        match reference.as_ref().map_or(Edit::Keep, &edit) {
            Edit::Keep => entries.push(raw.to_owned()),
            Edit::Remove => changed = true,
            Edit::StopBlocking => {
                let mut fields: serde_json::Map<String, Value> = serde_json::from_str(raw.get()).ok()?;
                fields.insert("blockOwnerDeletion".into(), false.into());
                entries.push(to_raw_value(&fields).ok()?);
                changed = true;
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

/// A finalizer of the garbage collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finalizer {
    Foreground,
    Orphan,
}

impl Finalizer {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Foreground => FOREGROUND_FINALIZER,
            Self::Orphan => ORPHAN_FINALIZER,
        }
    }
}

impl fmt::Display for Finalizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Api {
    /// Removes a finalizer from an object that is being deleted (rule 6.6). Reads
    /// the object live, and sends a JSON merge patch with its uid and resource version and with
    /// the other finalizers verbatim. Tries up to five times if it conflicts with other writers.
    /// Never patches an object that was re-created under the same name.
    ///
    /// # Errors
    ///
    /// Denied, refused, five conflicts in a row, or an answer that shows the finalizer; a version that is
    /// lower than what was seen. It was not removed.
    pub async fn remove_finalizer(
        &self,
        object: &Identity,
        seen: Option<&ResourceVersion>,
        finalizer: Finalizer,
    ) -> Result<Patched, ApiError> {
        let is_it = |raw: &RawValue| {
            serde_json::from_str::<String>(raw.get()).is_ok_and(|name| name == finalizer.name())
        };
        let change = |lists: RawMetadata<'_>, live: &ObjectFacts| {
            let finalizers = lists.finalizers.filter(|_| live.being_deleted)?;
            let others = finalizers.iter().filter(|raw| !is_it(raw)).map(|raw| (*raw).to_owned());
            Some(others.collect::<Vec<_>>()).filter(|others| others.len() < finalizers.len())
        };
        let left = |facts: &ObjectFacts| {
            let is_left = match finalizer {
                Finalizer::Foreground => facts.finalizers.foreground,
                Finalizer::Orphan => facts.finalizers.orphan,
            };
            is_left.then(|| format!("has the finalizer {finalizer}"))
        };
        self.edit_list(object, None, seen, FINALIZERS, change, left).await
    }
}

#[cfg(test)]
mod tests;
