//! The owners and dependents of an object, once or for somebody who follows them.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep_until};

use super::introspection::CollectorIntrospection;
use super::questions::Freshness;
use crate::actors::graph_handle::PartitionEnded;
use crate::http::{Ended, Follow, MOST_PAGED, NeighbourhoodPage, ObjectQuery};
use kube_gc_core::graph::ViewLimits;
use kube_gc_insight::{NeighbourhoodQuery, neighbourhood, page};

/// The time after which an object is looked at again.
const EVERY: Duration = Duration::from_secs(1);

impl CollectorIntrospection {
    /// The owners and dependents of an object; `None` if it is not in the graph.
    pub(super) async fn neighbourhood_of(
        &self,
        query: &ObjectQuery,
    ) -> Result<Option<NeighbourhoodPage>, PartitionEnded> {
        let Some(root) = self.questions.find(&query.uid, query.resource.as_ref()).await? else {
            return Ok(None);
        };
        let limits = ViewLimits { dependents_of_a_type: query.max, ..ViewLimits::default() };
        // One more than the page, which shows whether there is another page.
        let limit = query.after + query.limit + 1;
        let only_namespaced = root.namespace.is_some();
        let question = NeighbourhoodQuery { root, up: query.up, down: query.down, limit };
        let asked = self.questions.ask(limits, Freshness::Recent, |asker| neighbourhood(asker, &question));
        let (answer, mut incomplete) = asked.await?;
        incomplete.extend(self.undiscovered_types());
        if query.down > 0 {
            incomplete.extend(self.unsynced_types(only_namespaced));
        }
        incomplete.sort();
        let (mut shown, next) = page(&answer, query.after, query.limit);
        shown.truncated |= next.is_some_and(|next| next > MOST_PAGED);
        let next = next.filter(|next| *next <= MOST_PAGED).map(|next| next.to_string());
        Ok(Some(NeighbourhoodPage { shown, incomplete, next }))
    }
}

/// An object that somebody follows.
#[derive(Debug)]
pub(super) struct FollowedObject {
    collector: CollectorIntrospection,
    query: ObjectQuery,
    due: Instant,
}

impl FollowedObject {
    pub(super) fn new(collector: CollectorIntrospection, query: ObjectQuery) -> Self {
        Self { collector, query, due: Instant::now() }
    }
}

impl Follow for FollowedObject {
    fn look(&mut self) -> BoxFuture<'_, Result<Option<NeighbourhoodPage>, Ended>> {
        self.due = Instant::now() + EVERY;
        async move { Ok(self.collector.neighbourhood_of(&self.query).await?) }.boxed()
    }

    fn outdated(&self) -> BoxFuture<'_, ()> {
        sleep_until(self.due).boxed()
    }
}
