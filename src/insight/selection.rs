//! The objects that a label selector names. The graph has no labels, and a list of these objects
//! alone would hide their owners, so they are listed besides.

use std::collections::HashSet;

use futures::StreamExt as _;

use super::error::InsightError;
use super::glob::TypeFilter;
use super::lists::{AT_ONCE, INTERRUPTED, Watcher};
use super::session::Session;
use crate::api::ErrorClass;
use kube_gc_core::object::{Namespace, Uid};
use kube_gc_core::text::bounded;
use kube_gc_insight::Unseen;

/// The status of a request that the server does not understand.
const BAD_REQUEST: u16 = 400;

/// The objects that a selector names.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub uids: HashSet<Uid>,
    /// The types that could not be listed.
    pub unseen: Vec<Unseen>,
}

impl Selection {
    /// Adds what could not be listed, unless it is named already.
    pub fn add_unseen_to(&self, unseen: &mut Vec<Unseen>) {
        for missing in &self.unseen {
            if !unseen.iter().any(|known| known.what == missing.what) {
                unseen.push(missing.clone());
            }
        }
    }
}

impl Session {
    /// Lists the objects that a selector names; `None` if there is no selector.
    ///
    /// # Errors
    ///
    /// The server does not understand the selector.
    pub(super) async fn select(
        &self,
        namespace: Option<&Namespace>,
        filter: &TypeFilter,
        selector: Option<&str>,
        watcher: &Watcher<'_>,
    ) -> Result<Option<Selection>, InsightError> {
        let Some(selector) = selector else { return Ok(None) };
        let mut types = self.types(namespace);
        types.retain(|resource| filter.admits(&resource.group_resource));
        let mut lists = futures::stream::iter(types)
            .map(async |resource| {
                let mut uids = Vec::new();
                let list = self
                    .api
                    .list_selected(&resource, namespace, Some(selector), |facts| uids.push(facts.uid));
                let listed = watcher.interrupted.run_until_cancelled(list).await;
                (resource, uids, listed)
            })
            .buffer_unordered(AT_ONCE);
        let mut selection = Selection::default();
        while let Some((resource, uids, listed)) = lists.next().await {
            selection.uids.extend(uids);
            let why = match listed {
                Some(Ok(_)) => continue,
                Some(Err(error)) if error.class == ErrorClass::Refused && error.code == Some(BAD_REQUEST) => {
                    return Err(InsightError::Selector(bounded(&error)));
                }
                Some(Err(error)) => bounded(&error),
                None => INTERRUPTED.to_owned(),
            };
            selection.unseen.push(Unseen { what: resource.group_resource.to_string(), why });
        }
        Ok(Some(selection))
    }
}
