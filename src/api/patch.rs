//! Patches of owner references.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::client::Api;
use super::decode;
use super::error::{ApiError, ErrorClass};
use super::live::{CONFLICTS, ListPatch, MERGE_PATCH, PatchOutcome, STRATEGIC_MERGE_PATCH};
use super::path;
use crate::object::{Identity, Namespace, ObjectFacts, OwnerReference, ResourceVersion, Uid};

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

impl Api {
    /// Takes owner references off a dependent (semantics, section 6).
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
                self.edit(dependent, resource_version, |reference| {
                    if uids.contains(&reference.uid) { Edit::Remove } else { Edit::Keep }
                })
                .await
            }
            References::Exactly(unwanted) => {
                self.edit(dependent, resource_version, |reference| {
                    let is_unwanted = unwanted.iter().any(|unwanted| {
                        unwanted.uid == reference.uid
                            && unwanted.name == reference.name
                            && unwanted.kind == reference.kind
                            && unwanted.api_version == reference.api_version
                    });
                    if is_unwanted { Edit::Remove } else { Edit::Keep }
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
        let mut uids = HashSet::new();
        // Merged by uid, a patch would reach only one of two that share it.
        if references.iter().all(|reference| uids.insert(&reference.uid)) {
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
        let group_resource = &dependent.resource.group_resource;
        if entries.is_empty() || self.no_strategic_merge().contains(group_resource) {
            return Ok(None);
        }
        let patch = ListPatch { uid: &dependent.uid, resource_version, list: LIST, entries };
        match self.patch(dependent, STRATEGIC_MERGE_PATCH, &patch).await {
            Ok(outcome) => Ok(Some(outcome.into())),
            Err(error) if error.code == Some(415) => {
                self.no_strategic_merge().insert(group_resource.clone());
                Ok(None)
            }
            // When the reference has gone meanwhile, servers merge the entry in as
            // a new, incomplete reference, and refuse that. A live read tells.
            Err(ApiError { class: ErrorClass::Refused, code: Some(422), .. }) => Ok(None),
            Err(error) => Err(error),
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
            let Some(live) = self.live(dependent).await? else { return Ok(Patched::Gone) };
            let found = live.facts.resource_version.as_ref();
            if resource_version.is_some() && resource_version != found {
                return Err(moved_on(dependent, resource_version, found));
            }
            let lists = live.lists(dependent)?;
            let Some(entries) = apply(lists.owner_references(), &edit) else {
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
                    attempt += 1;
                }
                Err(error) => return Err(error),
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
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::scripted::{Reply, Server, widget, widget_json};

    const OWNERS: &str = r#","ownerReferences":[
        {"apiVersion":"v1","kind":"A","name":"a","uid":"ua","blockOwnerDeletion":true,"later":{"x": 1.0}},
        {"apiVersion":"v1","kind":"B","name":"b","uid":"ub","controller":true},
        {"apiVersion":"v2","kind":"B","name":"b","uid":"ub"}]"#;

    fn uid(text: &str) -> Uid {
        Uid::parse(text).unwrap()
    }

    fn reference(api_version: &str, name: &str, blocks: bool) -> OwnerReference {
        OwnerReference {
            api_version: api_version.into(),
            kind: name.to_uppercase().into(),
            name: name.into(),
            uid: uid(&format!("u{name}")),
            controller: false,
            block_owner_deletion: blocks,
        }
    }

    fn unsupported() -> Reply {
        Reply::status(415, "the body of the request was in an unknown format", "{}")
    }

    fn changed(patched: Result<Patched, ApiError>) -> ObjectFacts {
        match patched {
            Ok(Patched::Changed(facts)) => facts,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_strategic_patch_names_uid_version_and_owners() {
        let server = Server::replying([Reply::ok(widget_json(""))]);
        let version = ResourceVersion::number(7);
        let owners = [uid("ua"), uid("uc")];
        let patched =
            server.api().remove_references(&widget(), References::OfOwners(&owners), Some(&version)).await;
        assert_eq!(changed(patched).owners, []);
        let request = &server.seen()[0];
        assert_eq!(request.line(), "PATCH /apis/example.com/v1/namespaces/ns/widgets/w?fieldManager=kube-gc");
        assert_eq!(request.header("content-type"), "application/strategic-merge-patch+json");
        assert!(request.header("user-agent").starts_with("kube-gc/"));
        assert_eq!(
            request.json(),
            json!({"metadata": {"uid": "u", "resourceVersion": "7", "ownerReferences": [
                {"$patch": "delete", "uid": "ua"}, {"$patch": "delete", "uid": "uc"}]}})
        );
    }

    #[tokio::test]
    async fn custom_resources_get_the_rest_of_the_list_verbatim_and_are_remembered() {
        let live = || Reply::ok(widget_json(OWNERS));
        let done = || Reply::ok(widget_json(""));
        let server = Server::replying([unsupported(), live(), done(), live(), done()]);
        let api = server.api();
        let owners = [uid("ub")];
        let version = ResourceVersion::number(7);
        changed(api.remove_references(&widget(), References::OfOwners(&owners), Some(&version)).await);
        changed(api.remove_references(&widget(), References::OfOwners(&owners), None).await);
        let seen = server.seen();
        let methods: Vec<_> = seen.iter().map(|request| request.method.as_str()).collect();
        assert_eq!(methods, ["PATCH", "GET", "PATCH", "GET", "PATCH"]);
        assert_eq!(seen[2].header("content-type"), "application/merge-patch+json");
        assert!(
            seen[2].body.contains(r#"{"apiVersion":"v1","kind":"A","name":"a","uid":"ua","blockOwnerDeletion":true,"later":{"x": 1.0}}"#),
            "{}", seen[2].body
        );
        assert_eq!(seen[2].json()["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
        assert_eq!(seen[2].json()["metadata"]["uid"], "u");
        assert_eq!(seen[2].json()["metadata"]["resourceVersion"], "7");
    }

    #[tokio::test]
    async fn what_was_decided_on_another_version_is_not_patched() {
        let server = Server::replying([unsupported(), Reply::ok(widget_json(OWNERS))]);
        let version = ResourceVersion::number(6);
        let owners = [uid("ua")];
        let error =
            server.api().remove_references(&widget(), References::OfOwners(&owners), Some(&version)).await;
        assert_eq!(error.unwrap_err().class, ErrorClass::Conflict);
        assert_eq!(server.seen().len(), 2);
    }

    #[tokio::test]
    async fn exact_references_go_alone_though_they_share_a_uid() {
        let server = Server::replying([Reply::ok(widget_json(OWNERS)), Reply::ok(widget_json(""))]);
        let unwanted = [reference("v2", "b", false)];
        changed(server.api().remove_references(&widget(), References::Exactly(&unwanted), None).await);
        let json = server.seen()[1].json();
        let left: Vec<_> = json["metadata"]["ownerReferences"]
            .as_array()
            .unwrap()
            .iter()
            .map(|owner| owner["apiVersion"].as_str().unwrap())
            .collect();
        assert_eq!(left, ["v1", "v1"]);
    }

    #[tokio::test]
    async fn the_last_reference_leaves_null_behind() {
        let one = r#","ownerReferences":[{"apiVersion":"v1","kind":"A","name":"a","uid":"ua"}]"#;
        let server = Server::replying([Reply::ok(widget_json(one)), Reply::ok(widget_json(""))]);
        changed(
            server
                .api()
                .remove_references(&widget(), References::Exactly(&[reference("v1", "a", true)]), None)
                .await,
        );
        assert_eq!(server.seen()[1].json()["metadata"]["ownerReferences"], Value::Null);
    }

    #[tokio::test]
    async fn what_is_gone_already_needs_nothing() {
        let owners = [uid("uz")];
        // Old servers merge the entry in as an incomplete reference, and refuse it.
        let refused =
            Reply::status(422, "invalid", r#"{"causes":[{"field":"metadata.ownerReferences.name"}]}"#);
        let server = Server::replying([refused, Reply::ok(widget_json(""))]);
        let patched = server.api().remove_references(&widget(), References::OfOwners(&owners), None).await;
        assert!(matches!(patched, Ok(Patched::Unneeded(_))), "{patched:?}");
    }

    #[tokio::test]
    async fn an_object_that_is_gone_or_another_is_gone() {
        let owners = [uid("ua")];
        let other = Reply::ok(widget_json("").replace(r#""uid":"u""#, r#""uid":"other""#));
        let other_uid = Reply::status(422, "no", r#"{"causes":[{"field":"metadata.uid"}]}"#);
        for replies in [
            vec![Reply::not_found()],
            vec![other_uid],
            vec![unsupported(), Reply::not_found()],
            vec![unsupported(), other],
        ] {
            let server = Server::replying(replies);
            let patched =
                server.api().remove_references(&widget(), References::OfOwners(&owners), None).await;
            assert_eq!(patched, Ok(Patched::Gone));
        }
        let namespace_gone = Reply::status(404, "no", r#"{"name":"ns","kind":"namespaces"}"#);
        let server = Server::replying([namespace_gone]);
        let error = server.api().remove_references(&widget(), References::OfOwners(&owners), None).await;
        assert_eq!(error.unwrap_err().class, ErrorClass::NamespaceGone);
    }

    #[tokio::test]
    async fn a_conflict_is_the_callers_when_it_named_a_version_and_ours_otherwise() {
        let conflict = || Reply::status(409, "conflict", "{}");
        let live = || Reply::ok(widget_json(OWNERS));
        let unwanted = [reference("v1", "a", true)];
        let server = Server::replying([live(), conflict(), live(), Reply::ok(widget_json(""))]);
        changed(server.api().remove_references(&widget(), References::Exactly(&unwanted), None).await);
        let server = Server::replying([live(), conflict()]);
        let version = ResourceVersion::number(7);
        let error =
            server.api().remove_references(&widget(), References::Exactly(&unwanted), Some(&version)).await;
        assert_eq!(error.unwrap_err().class, ErrorClass::Conflict);
    }

    #[tokio::test]
    async fn blocking_stops_by_uid_or_by_the_whole_list() {
        let server = Server::replying([Reply::ok(widget_json(""))]);
        let references = [reference("v1", "a", true), reference("v1", "c", false)];
        changed(server.api().stop_blocking(&widget(), &references, None).await);
        assert_eq!(
            server.seen()[0].json(),
            json!({"metadata": {"uid": "u", "ownerReferences": [{"uid": "ua", "blockOwnerDeletion": false}]}})
        );
        // Two share a uid: merging by uid would miss one.
        let twins =
            OWNERS.replace(r#""name":"b","uid":"ub""#, r#""name":"b","uid":"ub","blockOwnerDeletion":true"#);
        let server = Server::replying([Reply::ok(widget_json(&twins)), Reply::ok(widget_json(""))]);
        let references = [reference("v1", "b", true), reference("v2", "b", true)];
        changed(server.api().stop_blocking(&widget(), &references, None).await);
        let json = server.seen()[1].json();
        let flags: Vec<_> = json["metadata"]["ownerReferences"]
            .as_array()
            .unwrap()
            .iter()
            .map(|owner| owner["blockOwnerDeletion"].as_bool().unwrap())
            .collect();
        assert_eq!(flags, [true, false, false], "ua was not among the given references");
    }
}
