//! Lists and deletes the content of a namespace, page by page.

use http::Method;
use serde::Deserialize;
use serde_json::json;

use crate::api::call::Call;
use crate::api::client::Api;
use crate::api::error::{ApiError, unusable};
use crate::api::media_type::{JSON, METADATA_LIST};
use crate::api::pagination::Pagination;
use crate::api::path;
use crate::api::settings::Verb;
use kube_gc_core::object::{ResourceType, ResourceVersion, Uid};
use kube_gc_decode::{Keyed, json_fault, or_default};

/// Objects in a page that is listed or deleted. Only their metadata is read.
const PAGE: u32 = 500;

/// One object in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageItem {
    /// Its name.
    pub name: String,
    /// Its uid; some aggregated APIs give none.
    pub uid: Option<Uid>,
    /// Its version; some aggregated APIs give none.
    pub version: Option<ResourceVersion>,
    /// Whether it is being deleted.
    pub being_deleted: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
}

/// A page of the objects of a type in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The objects, whether or not they have a name and a uid.
    pub items: Vec<PageItem>,
    /// The token for the next page; empty at the end.
    pub next: String,
    /// How many objects the next pages have, at least.
    pub more: u64,
}

impl Api {
    /// Lists a page of a type in a namespace, live. Every object counts, whatever it looks like.
    ///
    /// # Errors
    ///
    /// The page cannot be read, so nothing is known.
    pub async fn content_page(
        &self,
        resource: &ResourceType,
        namespace: &str,
        next: &str,
    ) -> Result<Page, ApiError> {
        let path = page_path(resource, namespace, next);
        let mut call = Call::get(Verb::List, path, METADATA_LIST, &resource.group_resource);
        call.action = "LIST";
        call.target = path::describe(&resource.group_resource, Some(namespace), None);
        let target = call.target.clone();
        let answer = self.call(call).await?;
        page(&answer.body).map_err(|fault| unusable("LIST", target, fault, answer.code))
    }

    /// Deletes a page of the objects of a type in a namespace, and returns the page as it was before.
    /// A request that takes too long has deleted a part of the page.
    ///
    /// The token names objects as they were when the first page was read, and the server deletes them
    /// by name. So the caller has to look first whether this is still the same namespace.
    ///
    /// # Errors
    ///
    /// [`Expired`](crate::api::ErrorClass::Expired) if the token is too old; any other error of a write.
    pub async fn delete_content_page(
        &self,
        resource: &ResourceType,
        namespace: &str,
        next: &str,
    ) -> Result<Page, ApiError> {
        let options =
            json!({ "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background" });
        let path = page_path(resource, namespace, next);
        let mut call = Call::get(Verb::DeleteCollection, path, METADATA_LIST, &resource.group_resource);
        call.method = Method::DELETE;
        call.action = "DELETE";
        call.target = path::describe(&resource.group_resource, Some(namespace), None);
        call.body = Some((JSON, options.to_string().into_bytes()));
        let target = call.target.clone();
        let answer = self.call(call).await?;
        // Some aggregated APIs answer with a `Status`, and delete everything at once.
        let deleted = page(&answer.body).unwrap_or_default();
        let mut pages = Pagination::default();
        pages
            .go_on(next, 1)
            .and_then(|()| pages.go_on(&deleted.next, 1))
            .map_err(|fault| unusable("DELETE", target, fault.to_owned(), answer.code))?;
        Ok(deleted)
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
    remaining_item_count: Option<i64>,
}

fn page_path(resource: &ResourceType, namespace: &str, next: &str) -> String {
    let mut path = path::collection(resource, Some(namespace)) + &format!("?limit={PAGE}");
    if !next.is_empty() {
        path.push_str("&continue=");
        path::encode(&mut path, next);
    }
    path
}

/// Reads a page. Anything but a list is an error, because an empty list is taken for proof.
pub(super) fn page(body: &[u8]) -> Result<Page, String> {
    #[derive(Deserialize)]
    struct List {
        kind: String,
        metadata: Keyed<ListMeta>,
        // Go writes an empty list as `null`; a list without it is none.
        #[serde(deserialize_with = "or_default")]
        items: Vec<Keyed<Item>>,
    }
    #[derive(Deserialize)]
    struct Item {
        #[serde(default, deserialize_with = "or_default")]
        metadata: Keyed<Metadata>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Metadata {
        name: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        deletion_timestamp: Option<String>,
        finalizers: Option<Vec<String>>,
    }
    let Keyed(list): Keyed<List> = serde_json::from_slice(body).map_err(|error| json_fault(&error))?;
    if !list.kind.ends_with("List") {
        return Err("the response is not a list".to_owned());
    }
    let item = |Keyed(Item { metadata: Keyed(metadata) })| PageItem {
        name: metadata.name.unwrap_or_default(),
        uid: metadata.uid.as_deref().and_then(Uid::parse),
        version: metadata.resource_version.as_deref().and_then(ResourceVersion::parse),
        being_deleted: metadata.deletion_timestamp.is_some(),
        finalizers: metadata.finalizers.unwrap_or_default(),
    };
    let ListMeta { next, remaining_item_count } = list.metadata.0;
    let next = next.unwrap_or_default();
    // A page that is not the last one is followed by at least one object.
    let least = u64::from(!next.is_empty());
    let more =
        remaining_item_count.and_then(|count| u64::try_from(count).ok()).unwrap_or_default().max(least);
    Ok(Page { items: list.items.into_iter().map(item).collect(), next, more })
}
