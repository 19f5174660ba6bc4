//! Removes one of the garbage collector's finalizers.

use std::fmt;

use serde_json::value::RawValue;

use super::client::Api;
use super::error::{ApiError, ErrorClass};
use super::raw_metadata::{CONFLICTS, ListPatch, MERGE_PATCH, PatchOutcome, given_up};
use super::read::AbsenceProof;
use crate::telemetry::record::{self, PatchConflict};
use kube_gc_core::object::{FOREGROUND_FINALIZER, Identity, ORPHAN_FINALIZER, ObjectFacts};

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
