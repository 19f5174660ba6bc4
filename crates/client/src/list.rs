//! Lists that serve a single purpose, read page by page. ([`ListWatch`](super::ListWatch) follows a
//! type.)

use super::call::{Call, JSON, list_accept};
use super::client::Api;
use super::error::{ApiError, ErrorClass};
use kube_gc_core::object::{Namespace, ObjectFacts, ResourceType, ResourceVersion};
use kube_gc_decode::{Decoded, Encoding, ListReader};

/// A list that expires this often before its last page is too large to be read.
const ATTEMPTS: u32 = 3;

#[derive(Clone, Copy)]
pub(super) struct Selection<'a> {
    pub resource: &'a ResourceType,
    pub namespace: Option<&'a str>,
    /// A parameter of the request with its value, such as `labelSelector`.
    pub selector: Option<(&'a str, &'a str)>,
    /// Whether the list may come from the server's cache, and be behind.
    pub cached: bool,
    /// Whether whole objects are needed, in JSON, rather than their metadata.
    pub whole: bool,
}

impl<'a> Selection<'a> {
    /// The request of a page; that of the first one has no token.
    fn page(self, size: u32, token: &str, preferred: Encoding) -> Call<'a> {
        let accept = if self.whole { JSON } else { list_accept(preferred) };
        let call = Call::list(self.resource, self.namespace, accept).with("limit", &size.to_string());
        let from = if self.cached && token.is_empty() { "0" } else { "" };
        let parameters = [self.selector.unwrap_or_default(), ("resourceVersion", from), ("continue", token)];
        let parameters = parameters.into_iter().filter(|(_, value)| !value.is_empty());
        parameters.fold(call, |call, (key, value)| call.with(key, value))
    }
}

/// Called for every object of a list as it was sent.
type Visit<'a> = &'a mut (dyn FnMut(Encoding, &[u8]) -> Result<(), String> + Send);

impl Api {
    /// Lists a type, or those of its objects that a selector names: a parameter with its value, such as
    /// `labelSelector`. Lists consistently and in pages, and calls `visit` for every object. Returns the version
    /// of the first page, for which the whole list stands. For confirmations; [`watch`](Self::watch) follows a
    /// type. If a part of the list must be read again, objects are visited again.
    ///
    /// # Errors
    ///
    /// The list cannot be read to its end, or the server does not understand the selector. What was visited then
    /// proves nothing.
    pub async fn list(
        &self,
        resource: &ResourceType,
        namespace: Option<&Namespace>,
        selector: Option<(&str, &str)>,
        mut visit: impl FnMut(ObjectFacts) + Send,
    ) -> Result<Option<ResourceVersion>, ApiError> {
        let namespace = namespace.map(Namespace::as_str);
        let mut visit = |encoding: Encoding, item: &[u8]| -> Result<(), String> {
            Decoded::read(encoding, item)?.object.into_iter().for_each(&mut visit);
            Ok(())
        };
        let selection = Selection { resource, namespace, selector, cached: false, whole: false };
        Box::pin(self.list_items(selection, &mut visit)).await
    }

    /// Lists a selection, and calls `visit` for every object as it was sent.
    pub(super) async fn list_items(
        &self,
        selection: Selection<'_>,
        visit: Visit<'_>,
    ) -> Result<Option<ResourceVersion>, ApiError> {
        let resource = &selection.resource.group_resource;
        let mut page_size = self.settings().page_size.max(1);
        let mut pages = Pagination::default();
        let mut preferred = if selection.whole { Encoding::Json } else { self.settings().encoding };
        let mut attempts = 1;
        let mut token = String::new();
        let mut first_version = None;
        let last_seen = || {
            let seen = self.restore_fence().last_seen(resource, self.high_water());
            seen.filter(|_| !selection.cached)
        };
        let mut seen = last_seen();
        loop {
            let answer = match self.call(selection.page(page_size, &token, preferred)).await {
                Ok(answer) => answer,
                Err(error) if error.class == ErrorClass::Expired && attempts < ATTEMPTS => {
                    attempts += 1;
                    token.clear();
                    pages = Pagination::default();
                    first_version = None;
                    seen = last_seen();
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
            let mut objects = 0;
            let read = ListReader::read(answer.encoding, &answer.body, &mut |item| {
                objects += 1;
                visit(answer.encoding, item)
            });
            let envelope = match read {
                Ok(envelope) => envelope,
                // The same page may be readable in JSON.
                Err(_) if preferred != Encoding::Json && answer.encoding != Encoding::Json => {
                    preferred = Encoding::Json;
                    continue;
                }
                Err(why) => return Err(answer.unusable(why)),
            };
            if let Err(why) = pages.go_on(&envelope.next, objects) {
                return Err(answer.unusable(why));
            }
            first_version = first_version.or(envelope.resource_version);
            if self.proves_restore(resource, seen.as_ref(), first_version.as_ref()) {
                return Err(answer.restored());
            }
            if envelope.next.is_empty() {
                return Ok(first_version);
            }
            token = envelope.next;
        }
    }
}

/// The longest continue token. A longer one would exceed the length of a URL.
const LONGEST_TOKEN: usize = 16 << 10;

/// How many pages in a row may be empty. A page is empty when the API server finds nothing in
/// a part of the collection.
const EMPTY_PAGES: u32 = 100;

/// The greatest number of objects of a type that an aggregated API may list. The API server's
/// own types are bounded by its store.
pub const OBJECTS_OF_AGGREGATED: u64 = 1_000_000;

/// The pages of one list.
#[derive(Debug, Default)]
pub struct Pagination {
    last: String,
    empty: u32,
}

impl Pagination {
    /// Notes a page's number of objects and its continue token.
    ///
    /// # Errors
    ///
    /// The list would never end.
    pub fn go_on(&mut self, token: &str, objects: usize) -> Result<(), &'static str> {
        self.empty = if objects == 0 { self.empty + 1 } else { 0 };
        if token.is_empty() {
            return Ok(());
        }
        if token.len() > LONGEST_TOKEN {
            return Err("the continue token is longer than 16 KiB");
        }
        if token == self.last {
            return Err("the API server returned the same continue token twice: the list would never end");
        }
        if self.empty >= EMPTY_PAGES {
            return Err("100 pages in a row were empty: the list would never end");
        }
        token.clone_into(&mut self.last);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::testing::{Part, Reply, Server, widgets};

    #[tokio::test]
    async fn an_endless_list_is_cancelled() {
        let page = r#"{"kind":"WidgetList","metadata":{"resourceVersion":"3","continue":"t"},"items":[{}]}"#;
        let server = Server::answering(move |_| Reply::ok(page));
        let error = server.api().list(&widgets(), None, None, drop).await.unwrap_err();
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
        server.api().list(&widgets(), None, None, drop).await.unwrap();
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

    #[tokio::test(start_paused = true)]
    async fn a_page_that_broke_ends_the_list() {
        let first = page(3, "t", "a");
        let broken = Part::Data(first[..first.len() - 2].to_owned().into());
        let server = Server::replying([Reply::stream([broken, Part::Break])]);
        let error = server.api().list(&widgets(), None, None, drop).await.unwrap_err();
        assert_eq!((error.class, server.seen().len()), (ErrorClass::Transient, 1), "{error}");
    }

    #[tokio::test]
    async fn a_selector_is_one_parameter() {
        let server =
            Server::replying([Reply::ok(r#"{"kind":"WidgetList","metadata":{"resourceVersion":"3"}}"#)]);
        let selector = ("labelSelector", "a=b,c in (d)&limit=1");
        server.api().list(&widgets(), None, Some(selector), drop).await.unwrap();
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
        let listed = server
            .api()
            .list(&widgets(), namespace.as_ref(), None, |facts| names.push(facts.name))
            .await
            .unwrap();
        assert_eq!(listed, Some(ResourceVersion::number(5)));
        assert_eq!(names.iter().map(|name| &**name).collect::<Vec<_>>(), ["a", "a", "b"]);
        let path = "GET /apis/example.com/v1/namespaces/ns/widgets?limit=500";
        assert_eq!(
            server.requests(),
            [path.to_owned(), format!("{path}&continue=t"), path.to_owned(), format!("{path}&continue=u%26")]
        );
    }

    #[test]
    fn a_list_that_would_never_end_is_an_error() {
        let mut pages = Pagination::default();
        for page in 0..1000 {
            pages.go_on(&page.to_string(), page % 100).unwrap();
        }
        pages.go_on("a", 1).unwrap();
        assert!(pages.go_on("a", 1).is_err());
        let mut pages = Pagination::default();
        let ends = (0..1000).find(|page| pages.go_on(&page.to_string(), 0).is_err());
        assert_eq!(ends, Some(99));
        assert!(Pagination::default().go_on(&"a".repeat(LONGEST_TOKEN + 1), 1).is_err());
    }
}
