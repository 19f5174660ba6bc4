//! A live object whose owner references and finalizers are kept verbatim, and the patches
//! of these lists.
//!
//! A JSON merge patch replaces a whole list. So the entries that stay must come from a live
//! read and be sent back unchanged, with the fields that this program does not know.

use std::fmt;

use http::Method;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::api::call::Call;
use crate::api::client::Api;
use crate::api::error::{ApiError, ErrorClass, unusable};
use crate::api::path;
use crate::api::read::{AbsenceProof, RawObject, read_object};
use crate::api::settings::{FIELD_MANAGER, Verb};
use crate::telemetry::record::{self, PatchConflict};
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{
    FOREGROUND_FINALIZER, Identity, ORPHAN_FINALIZER, ObjectFacts, ResourceVersion, Uid,
};
use kube_gc_decode::json_fault;

/// RFC 7386. Every type accepts it.
pub(in crate::api) const MERGE_PATCH: &str = "application/merge-patch+json";
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
    pub(super) fn metadata(&self, identity: &Identity) -> Result<RawMetadata<'_>, ApiError> {
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
pub(in crate::api) fn undone(action: &'static str, identity: &Identity, left: &str, code: u16) -> ApiError {
    ApiError {
        class: ErrorClass::Denied,
        action,
        target: path::describe_object(identity),
        message: format!(
            "the API server accepted the write, but the object still {left}: a mutating webhook or policy \
             may have restored it"
        ),
        code: Some(code),
    }
}

/// A finalizer of the garbage collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finalizer {
    /// `foregroundDeletion`.
    Foreground,
    /// `orphan`.
    Orphan,
}

impl Finalizer {
    /// The name in `metadata.finalizers`.
    #[must_use]
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

/// The result of removing a finalizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinalizerRemoval {
    /// The finalizer was removed; the patched object.
    Removed(ObjectFacts),
    /// The object did not have the finalizer; the object as it was read.
    NotPresent(ObjectFacts),
    /// The object is gone, or another one has its name.
    Gone(AbsenceProof),
    /// The object is not being deleted, so its finalizers stay; the object as it was read.
    NotBeingDeleted(ObjectFacts),
}

const LIST: &str = "finalizers";

impl Api {
    /// Removes a finalizer from an object that is being deleted (rule 6.6). Reads
    /// the object live, and sends a JSON merge patch with its uid and resource version and with
    /// the other finalizers verbatim. Tries up to five times if it conflicts with other writers.
    /// Never patches an object that was re-created under the same name.
    ///
    /// # Errors
    ///
    /// Denied, refused, five conflicts in a row, or an answer that shows the finalizer. It was not
    /// removed.
    pub async fn remove_finalizer(
        &self,
        object: &Identity,
        finalizer: Finalizer,
    ) -> Result<FinalizerRemoval, ApiError> {
        let is_it = |raw: &RawValue| {
            serde_json::from_str::<String>(raw.get()).is_ok_and(|name| name == finalizer.name())
        };
        let mut attempt = 1;
        loop {
            let live = match self.read_raw(object).await? {
                Ok(live) => live,
                Err(proof) => return Ok(FinalizerRemoval::Gone(proof)),
            };
            if !live.facts.being_deleted {
                return Ok(FinalizerRemoval::NotBeingDeleted(live.facts));
            }
            let metadata = live.metadata(object)?;
            let remaining: Vec<&RawValue> =
                metadata.finalizers().iter().copied().filter(|raw| !is_it(raw)).collect();
            if remaining.len() == metadata.finalizers().len() {
                return Ok(FinalizerRemoval::NotPresent(live.facts));
            }
            let patch = ListPatch {
                uid: &object.uid,
                resource_version: live.facts.resource_version.as_ref(),
                list: LIST,
                entries: &remaining,
            };
            let left = |facts: &ObjectFacts| {
                let is_left = match finalizer {
                    Finalizer::Foreground => facts.finalizers.foreground,
                    Finalizer::Orphan => facts.finalizers.orphan,
                };
                is_left.then(|| format!("has the finalizer {finalizer}"))
            };
            match self.patch(object, MERGE_PATCH, &patch, left).await {
                Ok(PatchOutcome::Done(facts)) => return Ok(FinalizerRemoval::Removed(facts)),
                Ok(PatchOutcome::Gone(proof)) => return Ok(FinalizerRemoval::Gone(proof)),
                Err(error) if error.class == ErrorClass::Conflict && attempt < CONFLICTS => {
                    record::patch_conflict(LIST, PatchConflict::Retry);
                    attempt += 1;
                }
                Err(error) => return Err(given_up(LIST, error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::scripted::{Reply, Server, widget, widget_json};
    use kube_gc_core::object::ResourceVersion;

    fn live(finalizers: &str) -> Reply {
        Reply::ok(widget_json(&format!(r#","deletionTimestamp":"t","finalizers":{finalizers}"#)))
    }

    async fn remove(server: &Server) -> Result<FinalizerRemoval, ApiError> {
        server.api().remove_finalizer(&widget(), Finalizer::Orphan).await
    }

    #[tokio::test]
    async fn other_finalizers_stay_and_uid_and_version_are_preconditions() {
        let server = Server::replying([live(r#"["x/y","orphan","z"]"#), live(r#"["x/y","z"]"#)]);
        assert!(matches!(remove(&server).await, Ok(FinalizerRemoval::Removed(_))));
        let request = &server.seen()[1];
        assert_eq!(request.header("content-type"), "application/merge-patch+json");
        assert_eq!(
            request.json(),
            json!({"metadata": {"uid": "u", "resourceVersion": "7", "finalizers": ["x/y", "z"]}})
        );
        let server = Server::replying([live(r#"["orphan"]"#), live("[]")]);
        remove(&server).await.unwrap();
        assert_eq!(server.seen()[1].json()["metadata"]["finalizers"], Value::Null);
    }

    /// Rule 1.10.
    #[tokio::test]
    async fn finalizers_are_patched_only_if_necessary() {
        let other = widget_json(r#","deletionTimestamp":"t","finalizers":["orphan"]"#)
            .replace(r#""uid":"u""#, r#""uid":"v""#);
        let living = widget_json(r#","finalizers":["orphan"]"#);
        for (reply, outcome) in [
            (live(r#"["z"]"#), "NotPresent"),
            (live("null"), "NotPresent"),
            (Reply::ok(living), "NotBeingDeleted"),
            (Reply::not_found(), "Gone"),
            (Reply::ok(other), "Gone"),
        ] {
            let server = Server::replying([reply]);
            let removal = remove(&server).await.unwrap();
            match &removal {
                FinalizerRemoval::NotPresent(live) | FinalizerRemoval::NotBeingDeleted(live) => {
                    assert_eq!(live.resource_version, Some(ResourceVersion::number(7)), "as it was read");
                }
                FinalizerRemoval::Removed(_) | FinalizerRemoval::Gone(_) => {}
            }
            assert!(format!("{removal:?}").starts_with(outcome), "{removal:?}");
            assert_eq!(server.seen().len(), 1);
        }
    }

    #[tokio::test]
    async fn conflicts_lead_to_another_read_up_to_a_limit() {
        let conflict = || Reply::status(409, "conflict", "{}");
        let holding = || live(r#"["orphan"]"#);
        let server = Server::replying([holding(), conflict(), holding(), live("[]")]);
        assert!(matches!(remove(&server).await, Ok(FinalizerRemoval::Removed(_))));
        let server = Server::answering(move |seen| if seen.method == "GET" { holding() } else { conflict() });
        assert_eq!(remove(&server).await.unwrap_err().class, ErrorClass::Conflict);
        assert_eq!(server.seen().len(), 10);
    }

    #[tokio::test]
    async fn an_object_recreated_in_between_is_left_alone() {
        let other_uid = || Reply::status(422, "no", r#"{"causes":[{"field":"metadata.uid"}]}"#);
        let holding = || live(r#"["orphan"]"#);
        let server = Server::replying([holding(), other_uid(), Reply::not_found()]);
        assert!(matches!(remove(&server).await, Ok(FinalizerRemoval::Gone(_))));
        // Rule 1.26: it may be a webhook that says so.
        let server = Server::replying([holding(), other_uid(), holding()]);
        assert_eq!(remove(&server).await.unwrap_err().class, ErrorClass::Denied);
    }

    /// Rule 6.14. Fails if the code of the answer counts: the owner would never be tried again.
    #[tokio::test]
    async fn a_finalizer_that_the_answer_shows_was_not_removed() {
        let holding = || live(r#"["orphan","z"]"#);
        let server = Server::replying([holding(), holding()]);
        let error = remove(&server).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Denied);
        assert_eq!(
            error.to_string(),
            "PATCH widgets.example.com ns/w: 200 OK: the API server accepted the write, but the object still \
             has the finalizer orphan: a mutating webhook or policy may have restored it"
        );
    }
}
