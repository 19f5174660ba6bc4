//! A live object whose owner references and finalizers are kept verbatim, and the patches
//! of these lists.
//!
//! A JSON merge patch replaces a whole list. So the entries that stay must come from a live
//! read and be sent back unchanged, with the fields that this program does not know.

use http::Method;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::call::Call;
use super::client::Api;
use super::error::{ApiError, ErrorClass, unusable};
use super::path;
use super::read::{AbsenceProof, RawObject, read_object};
use super::settings::{FIELD_MANAGER, Verb};
use crate::telemetry::record::{self, PatchConflict};
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{Identity, Namespace, ObjectFacts, ResourceVersion, Uid};
use kube_gc_decode::json_fault;

/// RFC 7386. Every type accepts it.
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";
/// Only built-in types accept it. It merges `ownerReferences` by uid.
pub(super) const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

/// How many conflicts with other writers in a row are answered by another read. After that
/// the caller's backoff applies.
pub(super) const CONFLICTS: u32 = 5;

/// The final error of a patch of a list. Counts conflicts.
pub(super) fn given_up(list: &'static str, error: ApiError) -> ApiError {
    if error.class == ErrorClass::Conflict {
        record::patch_conflict(list, PatchConflict::Requeue);
    }
    error
}

/// `metadata.ownerReferences` and `metadata.finalizers`, verbatim.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RawMetadata<'a> {
    #[serde(borrow)]
    owner_references: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    finalizers: Option<Vec<&'a RawValue>>,
}

impl<'a> RawMetadata<'a> {
    pub fn owner_references(&self) -> &[&'a RawValue] {
        self.owner_references.as_deref().unwrap_or_default()
    }

    pub fn finalizers(&self) -> &[&'a RawValue] {
        self.finalizers.as_deref().unwrap_or_default()
    }
}

impl RawObject {
    /// The lists in the answer.
    pub fn metadata(&self, identity: &Identity) -> Result<RawMetadata<'_>, ApiError> {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow)]
            metadata: RawMetadata<'a>,
        }
        serde_json::from_slice::<Object<'_>>(&self.answer.body)
            .map(|object| object.metadata)
            .map_err(|error| unusable("GET", identity.to_string(), json_fault(&error), self.answer.code))
    }
}

/// A patch of one list of the metadata, with a uid and optionally a resource version as
/// preconditions.
#[derive(Debug)]
pub(super) struct ListPatch<'a, T> {
    pub uid: &'a Uid,
    pub resource_version: Option<&'a ResourceVersion>,
    pub list: &'static str,
    pub entries: &'a [T],
}

impl<T: Serialize> Serialize for ListPatch<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Metadata<'a, T>(&'a ListPatch<'a, T>);

        impl<T: Serialize> Serialize for Metadata<'_, T> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let Self(patch) = self;
                let mut map = serializer.serialize_map(None)?;
                if !(patch.list == "finalizers" && mutation::is(Mutation::FinalizeByName)) {
                    map.serialize_entry("uid", patch.uid)?;
                    if let Some(version) = patch.resource_version {
                        map.serialize_entry("resourceVersion", version)?;
                    }
                }
                // `null` removes the list.
                let entries = (!patch.entries.is_empty()).then_some(patch.entries);
                map.serialize_entry(patch.list, &entries)?;
                map.end()
            }
        }

        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("metadata", &Metadata(self))?;
        map.end()
    }
}

/// The result of a patch.
#[derive(Debug)]
pub(super) enum PatchOutcome {
    /// The patched object.
    Done(ObjectFacts),
    /// The object is gone, or another one has its name.
    Gone(AbsenceProof),
}

impl Api {
    /// Sends a patch. `left` says what the object that the answer shows still has, although the patch
    /// removes it: a mutating webhook may have added it again.
    ///
    /// # Errors
    ///
    /// [`Denied`](ErrorClass::Denied) if the patch did not do its work; any other error of a write.
    pub(super) async fn patch<T: Serialize>(
        &self,
        identity: &Identity,
        content_type: &'static str,
        patch: &ListPatch<'_, T>,
        left: impl Fn(&ObjectFacts) -> Option<String>,
    ) -> Result<PatchOutcome, ApiError> {
        let mut call = Call::object(Verb::Patch, Method::PATCH, "PATCH", identity)?;
        call.path.push_str("?fieldManager=");
        call.path.push_str(FIELD_MANAGER);
        let body = serde_json::to_vec(patch)
            .map_err(|error| call.error(ErrorClass::Refused, error.to_string(), None))?;
        call.body = Some((content_type, body));
        let answer = match self.call(call).await {
            Ok(answer) => answer,
            Err(error) if error.class == ErrorClass::SaysGone => {
                return self.confirm_gone(identity, error).await.map(PatchOutcome::Gone);
            }
            Err(error) => return Err(error),
        };
        let facts = read_object("PATCH", identity, &answer)?.facts;
        match left(&facts).filter(|_| !mutation::is(Mutation::BelieveCodesOfPatches)) {
            None => Ok(PatchOutcome::Done(facts)),
            Some(left) => Err(undone("PATCH", identity, &left, answer.code)),
        }
    }
}

/// The error of a write that was accepted and did not do its work.
pub(super) fn undone(action: &'static str, identity: &Identity, left: &str, code: u16) -> ApiError {
    let namespace = identity.namespace.as_ref().map(Namespace::as_str);
    ApiError {
        class: ErrorClass::Denied,
        action,
        target: path::describe(&identity.resource.group_resource, namespace, Some(&identity.name)),
        message: format!(
            "the API server accepted the write, but the object still {left}: a mutating webhook or policy \
             may have restored it"
        ),
        code: Some(code),
    }
}
