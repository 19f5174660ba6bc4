//! Reading one object, and the present version of the store.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use super::call::{Answer, Call, METADATA_LIST};
use super::client::Api;
use super::error::{ApiError, ErrorClass};
use super::settings::Verb;
use kube_gc_core::graph::OwnerState;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{Identity, Namespace, ObjectFacts, ResourceType, ResourceVersion, Uid};
use kube_gc_core::verdict::{ReferenceClass, from_state};
use kube_gc_decode::{Decoded, Encoding, Envelope, ListReader, Object};

/// The result of a live look-up of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupResult<T = ObjectFacts> {
    Found(T),
    Absent(AbsenceProof),
}

/// What proves that an object is absent. A live GET makes one, because it passes no admission (the answer
/// to a write proves nothing, rule 1.26), and what the graph has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsenceProof(());

impl AbsenceProof {
    /// Of an owner that the graph has as absent (rules 1.16 to 1.24).
    pub fn of_graph(state: &OwnerState) -> Option<Self> {
        (from_state(state) == Some(ReferenceClass::Absent)).then_some(Self(()))
    }
}

#[cfg(any(test, feature = "test-util"))]
impl AbsenceProof {
    pub const fn of_test() -> Self {
        Self(())
    }
}

/// An object and the answer to the live read that it comes from.
#[derive(Debug)]
pub(super) struct RawObject {
    pub facts: ObjectFacts,
    pub answer: Answer,
}

impl Api {
    /// Reads an object live: a GET without `resourceVersion`, so that no cache answers.
    /// Proves absence (rules 1.11 to 1.14).
    ///
    /// # Errors
    ///
    /// The answer is neither the object nor proof of its absence: a 404 that is not the
    /// object's own, an answer without a uid, or no answer.
    pub async fn look_up(&self, identity: &Identity) -> Result<LookupResult, ApiError> {
        self.look_up_after(identity, None).await
    }

    /// The same of an object that was seen at a version before. If it has a lower one, the store was
    /// restored, which is reported (rule 1.23).
    ///
    /// # Errors
    ///
    /// As [`look_up`](Self::look_up); a restore.
    pub async fn look_up_after(
        &self,
        identity: &Identity,
        seen: Option<&ResourceVersion>,
    ) -> Result<LookupResult, ApiError> {
        Ok(match self.read_raw(identity, seen).await? {
            LookupResult::Found(live) => LookupResult::Found(live.facts),
            LookupResult::Absent(proof) => LookupResult::Absent(proof),
        })
    }

    /// As [`look_up_after`](Self::look_up_after), with the answer as it came.
    pub(super) async fn read_raw(
        &self,
        identity: &Identity,
        seen: Option<&ResourceVersion>,
    ) -> Result<LookupResult<RawObject>, ApiError> {
        let answer = match self.get(identity).await {
            Ok(answer) => answer,
            Err(error) if error.class == ErrorClass::Absent => {
                return Ok(LookupResult::Absent(AbsenceProof(())));
            }
            Err(error) => return Err(error),
        };
        let facts = read_object(identity.namespace.as_ref(), &identity.name, &answer)?;
        let found = facts.resource_version.as_ref().filter(|_| facts.uid == identity.uid);
        if self.proves_restore(&identity.resource.group_resource, seen, found) {
            return Err(answer.restored());
        }
        Ok(if facts.uid == identity.uid || mutation::is(Mutation::AnyUidIsTheOwner) {
            LookupResult::Found(RawObject { facts, answer })
        } else {
            LookupResult::Absent(AbsenceProof(()))
        })
    }

    /// Decides by a live GET after the answer to a write has said that the object is gone: admission
    /// and aggregated APIs may say that of an object that is there (rule 1.26).
    ///
    /// # Errors
    ///
    /// [`Denied`](ErrorClass::Denied), in the words of the answer, if the object is there; the error of
    /// the GET.
    pub(super) async fn confirm_gone(
        &self,
        identity: &Identity,
        answer: ApiError,
    ) -> Result<AbsenceProof, ApiError> {
        if mutation::is(Mutation::BelieveAnswersToWrites) {
            return Ok(AbsenceProof(()));
        }
        if self.is_reserved() {
            self.take_tokens(1).await;
        }
        match self.look_up(identity).await? {
            LookupResult::Absent(proof) => Ok(proof),
            LookupResult::Found(_) => Err(ApiError {
                class: ErrorClass::Denied,
                message: format!(
                    "{}; but a GET shows the object, so an admission plugin or an aggregated API refuses \
                     the write",
                    answer.message
                ),
                ..answer
            }),
        }
    }

    /// For how long an object has at least been as it is, by the API server's own clock: the header
    /// `Date` of the answer against the latest time in its metadata. Zero if that cannot be told.
    pub async fn age(&self, identity: &Identity) -> Duration {
        let answer = self.get(identity).await;
        answer.ok().and_then(|answer| age(identity, &answer)).unwrap_or_default()
    }

    /// The answer to a live GET of an object's metadata.
    pub(super) async fn get(&self, identity: &Identity) -> Result<Answer, ApiError> {
        self.call(Call::object(Verb::Get, identity)?).await
    }

    /// The answer to a live GET of the metadata of the object that has this name.
    pub(super) async fn get_named(
        &self,
        resource: &ResourceType,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Answer, ApiError> {
        self.call(Call::named(Verb::Get, resource, namespace, name)?).await
    }

    /// Asks for the present version of the store that serves a type: a consistent list of
    /// one object.
    pub(super) fn present_version(
        &self,
        resource: &Arc<ResourceType>,
    ) -> BoxFuture<'static, Result<Envelope, ApiError>> {
        let (api, resource) = (self.clone(), Arc::clone(resource));
        async move {
            let answer = api.call(Call::list(&resource, None, METADATA_LIST).with("limit", "1")).await?;
            ListReader::read(answer.encoding, &answer.body, &mut |_| Ok(()))
                .map_err(|why| answer.unusable(why))
        }
        .boxed()
    }
}

/// For how long the object in an answer has at least named its present owners. An object may be adopted
/// long after its creation, and the API server notes the time of each change in `managedFields`.
fn age(identity: &Identity, answer: &Answer) -> Option<Duration> {
    let date = answer.server_time()?;
    let ObjectMeta { uid, creation_timestamp, managed_fields, .. } =
        answer.json::<Object<ObjectMeta>>().ok()?.metadata;
    uid.and_then(|uid| Uid::parse(&uid)).filter(|uid| *uid == identity.uid)?;
    let changes = managed_fields.filter(|fields| !fields.is_empty())?.into_iter().map(|fields| fields.time);
    let mut times = changes.chain([creation_timestamp]);
    let latest = times.try_fold(Timestamp::MIN, |latest, time| Some(latest.max(time?.0)))?;
    // Both are whole seconds, rounded down: the object may be almost a second younger.
    Duration::try_from(date.duration_since(latest)).ok()?.checked_sub(Duration::from_secs(1))
}

/// Reads the object in an answer.
///
/// # Errors
///
/// The answer is not an object, has no uid, or has another name than was asked for. It
/// proves nothing.
pub(super) fn read_object(
    namespace: Option<&Namespace>,
    name: &str,
    answer: &Answer,
) -> Result<ObjectFacts, ApiError> {
    let read = Decoded::read(Encoding::Json, &answer.body).map_err(|why| answer.unusable(why))?;
    let facts = read.object.ok_or_else(|| answer.unusable("the object in the response has no uid"))?;
    if *facts.name != *name || facts.namespace.as_ref() != namespace {
        return Err(answer.unusable("the response is an object with another name"));
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::testing::{Part, Reply, Server, widget, widget_json, widgets};

    async fn look_up(reply: Reply) -> Result<LookupResult, ApiError> {
        Server::replying([reply]).api().look_up(&widget()).await
    }

    #[tokio::test]
    async fn presence_and_absence_need_proof() {
        assert!(matches!(look_up(Reply::ok(widget_json(""))).await, Ok(LookupResult::Found(_))));
        let absent = Ok(LookupResult::Absent(AbsenceProof(())));
        assert_eq!(look_up(Reply::not_found()).await, absent);
        let other = Reply::ok(widget_json("").replace(r#""uid":"u""#, r#""uid":"v""#));
        assert_eq!(look_up(other).await, absent);
        for (reply, class) in [
            (Reply::code(404, "404 page not found"), ErrorClass::NotServed),
            (Reply::status(404, "no", r#"{"name":"w","kind":"widgets"}"#), ErrorClass::NotServed),
            (Reply::status(404, "no", r#"{"name":"ns","kind":"namespaces"}"#), ErrorClass::NamespaceGone),
            (Reply::ok(widget_json("").replace(r#""uid":"u","#, "")), ErrorClass::Unusable),
            (
                Reply::ok(
                    widget_json("")
                        .replace(r#""uid":"u""#, r#""uid":"v""#)
                        .replace(r#""name":"w""#, r#""name":"x""#),
                ),
                ErrorClass::Unusable,
            ),
            (Reply::ok("{}"), ErrorClass::Unusable),
            // Its own 404, which HTTP does not know of.
            (Reply::not_found().with_code(200), ErrorClass::Unusable),
        ] {
            assert_eq!(look_up(reply).await.unwrap_err().class, class);
        }
    }

    /// Rule 1.29.
    #[tokio::test]
    async fn an_age_is_counted_by_the_servers_clock_and_never_too_high() {
        const CREATED: &str = r#","creationTimestamp":"2026-01-01T00:00:00Z""#;
        const OF_CREATION: &str = r#"{"manager":"m","time":"2026-01-01T00:00:00Z"}"#;
        const OF_ADOPTION: &str = r#"{"manager":"n","time":"2026-01-01T00:00:05Z"}"#;
        let managed = |fields: &str| format!(r#"{CREATED},"managedFields":[{fields}]"#);
        let once = managed(OF_CREATION);
        let at = |second| format!("Thu, 01 Jan 2026 00:00:0{second} GMT");
        for (more, date, seconds) in [
            (&*once, Some(at(0)), 0),
            (&once, Some(at(1)), 0),
            (&once, Some(at(3)), 2),
            (&managed(&format!("{OF_CREATION},{OF_ADOPTION}")), Some(at(8)), 2),
            (&managed(&format!("{OF_ADOPTION},{OF_CREATION}")), Some(at(8)), 2),
            (&managed(r#"{"manager":"m"}"#), Some(at(8)), 0),
            (&managed(""), Some(at(8)), 0),
            (CREATED, Some(at(8)), 0),
            (&once.replacen("2026", "2106", 1), Some(at(3)), 0),
            (&once.replacen("2026-01-01T00:00:00Z", "long ago", 1), Some(at(3)), 0),
            (&once.replacen(r#""2026-01-01T00:00:00Z""#, "null", 1), Some(at(3)), 0),
            (&once, Some("later".to_owned()), 0),
            (&once, None, 0),
        ] {
            let reply = Reply::ok(widget_json(more));
            let reply = date.iter().fold(reply, |reply, date| reply.header("date", date));
            let age = Server::replying([reply]).api().age(&widget()).await;
            assert_eq!(age, Duration::from_secs(seconds), "{more} {date:?}");
        }
        let other = widget_json(&once).replace(r#""uid":"u""#, r#""uid":"v""#);
        let server = Server::replying([Reply::ok(other).header("date", &at(9)), Reply::not_found()]);
        for _ in 0..2 {
            assert_eq!(server.api().age(&widget()).await, Duration::ZERO, "not of this object");
        }
    }

    #[tokio::test]
    async fn a_list_or_patch_answered_with_a_failure_status_has_failed() {
        let failure = || Reply::status(500, "not at home", "{}").with_code(200);
        let server = Server::answering(move |_| failure());
        let mut found = 0;
        let listed = server.api().list(&widgets(), None, None, |_| found += 1).await.unwrap_err();
        let references = crate::References::OfOwners(vec![widget().uid]);
        let patched = server.api().remove_references(&widget(), &references, None).await.unwrap_err();
        for error in [listed, patched] {
            assert_eq!((error.class, found), (ErrorClass::Unusable, 0));
            assert!(error.message.ends_with("not at home"), "{error}");
        }
    }

    #[tokio::test]
    async fn an_object_without_end_is_an_error() {
        let chunk = Bytes::from(vec![b' '; 1 << 20]);
        let server = Server::replying([Reply::stream(vec![Part::Data(chunk); 100])]);
        let error = server.api().look_up(&widget()).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::TooLong, "{error}");
    }

    /// Rule 1.14.
    #[tokio::test]
    async fn a_lookup_is_live_and_requests_only_metadata() {
        let server = Server::replying([Reply::ok(widget_json(r#","labels":{"a":"b"}"#))]);
        server.api().look_up(&widget()).await.unwrap();
        let request = &server.seen()[0];
        assert_eq!(request.line(), "GET /apis/example.com/v1/namespaces/ns/widgets/w");
        assert_eq!(
            request.header("accept"),
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        );
    }
}
