//! Lists that serve a single purpose. ([`ListWatch`](super::ListWatch) follows a type.)
//!
//! A list is read page by page. The API server needs most of the time, and a page begins with the
//! continue token. So the next page is requested as soon as a page begins to arrive, and the server
//! prepares it while this one is read.

use super::call::Call;
use super::client::{Api, NextPage, PageError, ReadPage};
use super::error::{ApiError, ErrorClass, unusable};
use super::media_type::list_accept;
use super::pagination::Pagination;
use super::path;
use super::restore_fence::RESTORED;
use super::settings::Verb;
use kube_gc_core::object::{Namespace, ObjectFacts, ResourceType, ResourceVersion};
use kube_gc_decode::{Encoding, FactsReader, ObjectView};

/// A list that expires this often before its last page is too large to be read.
const ATTEMPTS: u32 = 3;

/// The metadata of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListMeta {
    /// The version of the first page, for which the whole list stands.
    pub resource_version: Option<ResourceVersion>,
}

/// What is listed.
#[derive(Clone, Copy)]
struct Selection<'a> {
    resource: &'a ResourceType,
    namespace: Option<&'a str>,
    /// A label selector.
    selector: Option<&'a str>,
}

impl<'a> Selection<'a> {
    /// The request of a page; that of the first one has no token.
    fn page(self, size: u32, token: &str, preferred: Encoding) -> Call<'a> {
        let mut path = path::collection(self.resource, self.namespace);
        path.push_str("?limit=");
        path.push_str(&size.to_string());
        if let Some(selector) = self.selector {
            path.push_str("&labelSelector=");
            path::encode(&mut path, selector);
        }
        if !token.is_empty() {
            path.push_str("&continue=");
            path::encode(&mut path, token);
        }
        let mut call = Call::get(Verb::List, path, list_accept(preferred), &self.resource.group_resource);
        call.action = "LIST";
        call.target = self.description();
        call
    }

    /// What is listed, for people.
    fn description(self) -> String {
        path::describe(&self.resource.group_resource, self.namespace, None)
    }
}

impl Api {
    /// Lists a type, consistently and in pages, and calls `visit` for every object. For
    /// confirmations; [`watch`](Self::watch) follows a type. If a part of the list must be read
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
        let selection = Selection { resource, namespace: namespace.map(Namespace::as_str), selector };
        Box::pin(self.list_pages(selection, &mut visit)).await
    }

    /// Not generic, and so compiled once.
    async fn list_pages(
        &self,
        selection: Selection<'_>,
        visit: &mut (dyn FnMut(ObjectFacts) + Send),
    ) -> Result<ListMeta, ApiError> {
        let resource = &selection.resource.group_resource;
        let mut page_size = self.settings().page_size.max(1);
        let mut pages = Pagination::default();
        let mut reader = FactsReader::default();
        let mut preferred = self.settings().encoding;
        let mut attempts = 1;
        let mut token = String::new();
        let mut next: Option<NextPage<'_>> = None;
        let mut first_version = None;
        let mut seen = self.restore_fence().last_seen(resource, self.high_water());
        loop {
            let opened = match next.take() {
                Some(next) if next.token == token => next.opened().await,
                // A page that failed is requested again. What should have followed it is dropped.
                _ => self.open_page(selection.page(page_size, &token, preferred)).await,
            };
            let mut visit = |view: ObjectView<'_>| reader.facts(view).into_iter().for_each(&mut *visit);
            let request = |token: String| {
                let call = selection.page(page_size, &token, preferred);
                pages.allows(&token).then(|| NextPage::new(token, self.open_page(call)))
            };
            let read = match opened {
                Ok(page) => page.read(&mut next, &request, &mut visit).await,
                Err(error) => Err(error.into()),
            };
            let ReadPage { envelope, objects, code } = match read {
                Ok(read) => read,
                Err(PageError::Failed(error))
                    if error.class == ErrorClass::Expired && attempts < ATTEMPTS =>
                {
                    attempts += 1;
                    token.clear();
                    pages = Pagination::default();
                    first_version = None;
                    seen = self.restore_fence().last_seen(resource, self.high_water());
                    continue;
                }
                // Every server knows JSON, and the same page may be readable in it.
                Err(error) if preferred != Encoding::Json && error.is_about_encoding() => {
                    preferred = Encoding::Json;
                    continue;
                }
                // A few very large objects must not keep the others from being listed.
                Err(PageError::Failed(error)) if error.class == ErrorClass::TooLong && page_size > 1 => {
                    page_size = (page_size / 8).max(1);
                    continue;
                }
                Err(PageError::Failed(error) | PageError::Unreadable { error, .. }) => return Err(error),
            };
            if let Err(why) = pages.go_on(&envelope.next, objects) {
                return Err(unusable("LIST", selection.description(), why.to_owned(), code));
            }
            first_version = first_version.or(envelope.resource_version);
            if self.proves_restore(resource, seen.as_ref(), first_version.as_ref()) {
                return Err(ApiError {
                    class: ErrorClass::GateClosed,
                    action: "LIST",
                    target: selection.description(),
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
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::api::scripted::{Part, Reply, Server, widgets};

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

    fn page(version: u64, next: &str, name: &str) -> String {
        format!(
            r#"{{"kind":"WidgetList","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},
                "items":[{{"metadata":{{"uid":"{name}","name":"{name}","namespace":"ns"}}}}]}}"#
        )
    }

    /// A server that prepares pages is not left waiting. Fails if a page is requested only after the
    /// one in front of it, or more than one ahead.
    #[tokio::test(start_paused = true)]
    async fn the_next_page_is_requested_when_a_page_begins_to_arrive() {
        let pages = [page(3, "t", "a"), page(3, "u", "b"), page(3, "", "c")].map(|page| {
            let (head, rest) = page.split_at(page.find("\"name\"").unwrap());
            let parts = [head, rest].map(|part| Part::Data(part.to_owned().into()));
            let [head, rest] = parts;
            Reply::stream([head, Part::Pause(Duration::from_secs(10)), rest])
        });
        let server = Server::replying(pages);
        let mut names = Vec::new();
        server.api().list(&widgets(), None, |facts| names.push(facts.name)).await.unwrap();
        assert_eq!(names.iter().map(|name| &**name).collect::<Vec<_>>(), ["a", "b", "c"]);
        let times: Vec<u64> = server.seen().iter().map(|seen| seen.at.as_secs()).collect();
        assert_eq!(times, [0, 0, 10]);
    }

    /// Fails if a page that was requested early takes the place of one that did not arrive whole.
    #[tokio::test(start_paused = true)]
    async fn a_page_that_broke_ends_the_list_though_the_next_one_is_there() {
        let first = page(3, "t", "a");
        let broken = Part::Data(first[..first.len() - 2].to_owned().into());
        let server = Server::answering(move |seen| match seen.query("continue") {
            None => Reply::stream([broken.clone(), Part::Pause(Duration::from_secs(1)), Part::Break]),
            Some(_) => Reply::ok(page(3, "", "b")),
        });
        let error = server.api().list(&widgets(), None, drop).await.unwrap_err();
        assert_eq!((error.class, server.seen().len()), (ErrorClass::Transient, 2), "{error}");
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

    #[tokio::test]
    async fn a_list_returns_every_page_and_restarts_when_it_expires() {
        let expired = Reply::status(410, "expired", "{}");
        let server = Server::replying([
            Reply::ok(page(3, "t", "a")),
            expired,
            Reply::ok(page(5, "u&", "a")),
            Reply::ok(page(6, "", "b")),
        ]);
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
