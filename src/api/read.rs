//! Reading one object, and lists that serve a single purpose.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Method;

use super::call::{Answer, Call};
use super::client::Api;
use super::error::{ApiError, ErrorClass, unusable};
use super::media_type::{METADATA_LIST, list_accept};
use super::pagination::Pagination;
use super::path;
use super::restore_fence::RESTORED;
use super::settings::Verb;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{Identity, Namespace, ObjectFacts, ResourceType, ResourceVersion, Uid};
use kube_gc_decode::{Encoding, Envelope, FactsReader, ListReader, ObjectView, json_fault};

/// The result of a live look-up of an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// The object exists.
    Found(ObjectFacts),
    /// The object is proved absent.
    Absent(AbsenceProof),
}

/// What proves that an object is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbsenceProof {
    /// The server answered with the object's own 404.
    NotFound,
    /// Another object has the name.
    OtherUid(Uid),
}

/// The metadata of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListMeta {
    /// The version of the first page, for which the whole list stands.
    pub resource_version: Option<ResourceVersion>,
}

/// An object, and what its facts do not contain.
#[derive(Debug)]
pub(super) struct ReadObject {
    pub facts: ObjectFacts,
    /// Being deleted, and kept by a finalizer or a grace period.
    pub is_held: bool,
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
        match self.get(identity).await {
            Ok(answer) => {
                let found = read_object("GET", identity, &answer)?.facts;
                Ok(if found.uid == identity.uid || mutation::is(Mutation::AnyUidIsTheOwner) {
                    LookupResult::Found(found)
                } else {
                    LookupResult::Absent(AbsenceProof::OtherUid(found.uid))
                })
            }
            Err(error) if error.class == ErrorClass::Absent => {
                Ok(LookupResult::Absent(AbsenceProof::NotFound))
            }
            Err(error) => Err(error),
        }
    }

    /// The answer to a live GET of an object's metadata.
    pub(super) async fn get(&self, identity: &Identity) -> Result<Answer, ApiError> {
        self.call(Call::object(Verb::Get, Method::GET, "GET", identity)?).await
    }

    /// Lists a type, consistently and in pages, and calls `visit` for every object. For
    /// confirmations; [`watch`](Self::watch) follows a type. If the list expires and starts
    /// again, objects are visited again.
    ///
    /// # Errors
    ///
    /// The list cannot be read to its end. What was visited then proves nothing.
    pub async fn list(
        &self,
        resource: &ResourceType,
        namespace: Option<&Namespace>,
        visit: impl FnMut(ObjectFacts) + Send,
    ) -> Result<ListMeta, ApiError> {
        self.list_selected(resource, namespace, None, visit).await
    }

    /// Lists the objects of a type that a label selector names, or all of them.
    ///
    /// # Errors
    ///
    /// As for [`list`](Self::list), and if the server does not understand the selector.
    pub async fn list_selected(
        &self,
        resource: &ResourceType,
        namespace: Option<&Namespace>,
        selector: Option<&str>,
        mut visit: impl FnMut(ObjectFacts) + Send,
    ) -> Result<ListMeta, ApiError> {
        /// A list that expires this often before its last page is too large to be read.
        const ATTEMPTS: u32 = 3;
        let namespace = namespace.map(Namespace::as_str);
        let base = format!("{}?limit=", path::collection(resource, namespace));
        let mut page_size = self.settings().page_size.max(1);
        let mut pages = Pagination::default();
        let mut reader = FactsReader::default();
        let mut preferred = self.settings().encoding;
        let mut attempts = 1;
        let mut token = String::new();
        let mut first_version = None;
        let mut seen = self.restore_fence().last_seen(&resource.group_resource, self.high_water());
        loop {
            let mut page_path = base.clone() + &page_size.to_string();
            if let Some(selector) = selector {
                page_path.push_str("&labelSelector=");
                path::encode(&mut page_path, selector);
            }
            if !token.is_empty() {
                page_path.push_str("&continue=");
                path::encode(&mut page_path, &token);
            }
            let mut call = Call::get(Verb::List, page_path, list_accept(preferred), &resource.group_resource);
            call.action = "LIST";
            call.target = path::describe(&resource.group_resource, namespace, None);
            let target = call.target.clone();
            let answer = match self.call(call).await {
                Ok(answer) => answer,
                Err(error) if error.class == ErrorClass::Expired && attempts < ATTEMPTS => {
                    attempts += 1;
                    token.clear();
                    pages = Pagination::default();
                    first_version = None;
                    seen = self.restore_fence().last_seen(&resource.group_resource, self.high_water());
                    continue;
                }
                // Every server knows JSON.
                Err(error) if preferred != Encoding::Json && error.says_not_acceptable() => {
                    preferred = Encoding::Json;
                    continue;
                }
                // A few very large objects must not keep the others from being listed.
                Err(error) if error.class == ErrorClass::TooLong && page_size > 1 => {
                    page_size = (page_size / 8).max(1);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let mut items = ListReader::new(answer.encoding);
            let mut objects = 0;
            let read = items
                .feed(&answer.body, &mut |view| {
                    objects += 1;
                    reader.facts(view).into_iter().for_each(&mut visit);
                })
                .and_then(|()| items.finish());
            let envelope = match read {
                Ok(envelope) => envelope,
                // The same page may be readable in JSON.
                Err(_) if preferred != Encoding::Json && answer.encoding != Encoding::Json => {
                    preferred = Encoding::Json;
                    continue;
                }
                Err(error) => return Err(unusable("LIST", target, error.0, answer.code)),
            };
            if let Err(why) = pages.go_on(&envelope.next, objects) {
                return Err(unusable("LIST", target, why.to_owned(), answer.code));
            }
            first_version = first_version.or(envelope.resource_version);
            if self.proves_restore(&resource.group_resource, seen.as_ref(), first_version.as_ref()) {
                return Err(ApiError {
                    class: ErrorClass::GateClosed,
                    action: "LIST",
                    target,
                    message: RESTORED.to_owned(),
                    code: None,
                });
            }
            if envelope.next.is_empty() {
                return Ok(ListMeta { resource_version: first_version });
            }
            token = envelope.next;
        }
    }

    /// Asks for the present version of the store that serves a type: a consistent list of
    /// one object.
    pub(super) fn present_version(
        &self,
        resource: &Arc<ResourceType>,
    ) -> BoxFuture<'static, Result<Envelope, ApiError>> {
        let (api, resource) = (self.clone(), Arc::clone(resource));
        async move {
            let path = path::collection(&resource, None) + "?limit=1";
            let mut call = Call::get(Verb::List, path, METADATA_LIST, &resource.group_resource);
            call.action = "LIST";
            call.target = resource.group_resource.to_string();
            let answer = api.call(call).await?;
            let mut items = ListReader::new(answer.encoding);
            items
                .feed(&answer.body, &mut |_| {})
                .and_then(|()| items.finish())
                .map_err(|error| unusable("LIST", resource.group_resource.to_string(), error.0, answer.code))
        }
        .boxed()
    }
}

/// Reads the object in an answer.
///
/// # Errors
///
/// The answer is not an object, has no uid, or has another name than was asked for. It
/// proves nothing.
pub(super) fn read_object(
    action: &'static str,
    identity: &Identity,
    answer: &Answer,
) -> Result<ReadObject, ApiError> {
    let namespace = identity.namespace.as_ref().map(Namespace::as_str);
    let target = || path::describe(&identity.resource.group_resource, namespace, Some(&identity.name));
    let view = ObjectView::read(&answer.body)
        .map_err(|error| unusable(action, target(), json_fault(&error), answer.code))?;
    let is_held = view.is_held();
    let Some(facts) = FactsReader::default().facts(view) else {
        return Err(unusable(action, target(), "the object in the response has no uid".into(), answer.code));
    };
    if facts.name != identity.name || facts.namespace != identity.namespace {
        return Err(unusable(
            action,
            target(),
            "the response is an object with another name".into(),
            answer.code,
        ));
    }
    Ok(ReadObject { facts, is_held })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::api::scripted::{Part, Reply, Server, widget, widget_json, widgets};

    async fn look_up(reply: Reply) -> Result<LookupResult, ApiError> {
        Server::replying([reply]).api().look_up(&widget()).await
    }

    #[tokio::test]
    async fn presence_and_absence_need_proof() {
        assert!(matches!(look_up(Reply::ok(widget_json(""))).await, Ok(LookupResult::Found(_))));
        assert_eq!(look_up(Reply::not_found()).await, Ok(LookupResult::Absent(AbsenceProof::NotFound)));
        let other = Reply::ok(widget_json("").replace(r#""uid":"u""#, r#""uid":"v""#));
        let evidence = AbsenceProof::OtherUid(Uid::parse("v").unwrap());
        assert_eq!(look_up(other).await, Ok(LookupResult::Absent(evidence)));
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

    #[tokio::test]
    async fn a_list_or_patch_answered_with_a_failure_status_has_failed() {
        let failure = || Reply::status(500, "not at home", "{}").with_code(200);
        let server = Server::answering(move |_| failure());
        let mut found = 0;
        let listed = server.api().list(&widgets(), None, |_| found += 1).await.unwrap_err();
        let uid = [widget().uid];
        let references = crate::api::References::OfOwners(&uid);
        let patched = server.api().remove_references(&widget(), references, None).await.unwrap_err();
        for error in [listed, patched] {
            assert_eq!((error.class, found), (ErrorClass::Unusable, 0));
            assert!(error.message.ends_with("not at home"), "{error}");
        }
    }

    #[tokio::test]
    async fn an_endless_list_is_cancelled() {
        let page = r#"{"kind":"WidgetList","metadata":{"resourceVersion":"3","continue":"t"},"items":[{}]}"#;
        let server = Server::answering(move |_| Reply::ok(page));
        let error = server.api().list(&widgets(), None, drop).await.unwrap_err();
        assert_eq!((error.class, server.seen().len()), (ErrorClass::Unusable, 2), "{error}");
    }

    /// A tenant's objects may be as fat as the API server allows. Fails if a page of them
    /// keeps the rest of the type from being listed.
    #[tokio::test]
    async fn a_page_that_is_too_long_is_requested_in_smaller_ones() {
        let fat = Bytes::from(format!(r#"{{"metadata":{{"x":"{}"}}}},"#, "x".repeat(1 << 20)));
        let server = Server::answering(move |seen| {
            let limit: usize = seen.query("limit").unwrap().parse().unwrap();
            let next = if seen.query("continue").is_some() { "" } else { "t" };
            let start = format!(
                r#"{{"kind":"WidgetList","metadata":{{"resourceVersion":"3","continue":"{next}"}},"items":["#
            );
            let fat = std::iter::repeat_n(Part::Data(fat.clone()), limit);
            let parts = std::iter::once(Part::Data(start.into())).chain(fat);
            Reply::stream(parts.chain([Part::Data("{}]}".into())]))
        });
        server.api().list(&widgets(), None, drop).await.unwrap();
        let limits: Vec<_> =
            server.seen().iter().map(|seen| seen.query("limit").unwrap().to_owned()).collect();
        assert_eq!(limits, ["500", "62", "62"]);
    }

    #[tokio::test]
    async fn an_object_without_end_is_an_error() {
        let chunk = Bytes::from(vec![b' '; 1 << 20]);
        let server = Server::replying([Reply::stream(vec![Part::Data(chunk); 100])]);
        let error = server.api().look_up(&widget()).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::TooLong, "{error}");
    }

    #[tokio::test]
    async fn a_selector_is_one_parameter() {
        let server =
            Server::replying([Reply::ok(r#"{"kind":"WidgetList","metadata":{"resourceVersion":"3"}}"#)]);
        server.api().list_selected(&widgets(), None, Some("a=b,c in (d)&limit=1"), drop).await.unwrap();
        assert_eq!(
            server.requests(),
            ["GET /apis/example.com/v1/widgets?limit=500&labelSelector=a%3Db%2Cc%20in%20%28d%29%26limit%3D1"]
        );
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

    #[tokio::test]
    async fn a_list_returns_every_page_and_restarts_when_it_expires() {
        let page = |version: u64, next: &str, name: &str| {
            Reply::ok(format!(
                r#"{{"kind":"WidgetList","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},
                    "items":[{{"metadata":{{"uid":"{name}","name":"{name}","namespace":"ns"}}}}]}}"#
            ))
        };
        let expired = Reply::status(410, "expired", "{}");
        let server = Server::replying([page(3, "t", "a"), expired, page(5, "u&", "a"), page(6, "", "b")]);
        let mut names = Vec::new();
        let namespace = Namespace::parse("ns");
        let listed =
            server.api().list(&widgets(), namespace.as_ref(), |facts| names.push(facts.name)).await.unwrap();
        assert_eq!(listed.resource_version, Some(ResourceVersion::number(5)));
        assert_eq!(names.iter().map(|name| &**name).collect::<Vec<_>>(), ["a", "a", "b"]);
        let path = "GET /apis/example.com/v1/namespaces/ns/widgets?limit=500";
        assert_eq!(
            server.requests(),
            [path.to_owned(), format!("{path}&continue=t"), path.to_owned(), format!("{path}&continue=u%26")]
        );
    }
}
