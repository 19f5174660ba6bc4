//! The owners and dependents of an object, once or for somebody who follows them.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep_until};

use super::introspection::CollectorIntrospection;
use super::questions::{Answered, Freshness};
use crate::actors::graph_follower::GraphFollower;
use crate::actors::graph_handle::PartitionEnded;
use crate::http::{Ended, Follow, MOST_PAGED, NeighbourhoodPage, ObjectQuery};
use kube_gc_core::graph::{Follower, ViewLimits};
use kube_gc_insight::{NeighbourhoodQuery, Unseen, neighbourhood, page};

/// How long an answer counts that rests on live reads.
const READS_COUNT: Duration = Duration::from_secs(10);

/// What a look has found.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// The page; `None` if the object is not in the graph.
    pub page: Option<NeighbourhoodPage>,
    /// The types that are not in the graph, if that concerns the page.
    outside: Option<Outside>,
    /// Whether the page rests on live reads.
    rests_on_reads: bool,
}

/// The types that are not, or not all, in the graph.
#[derive(Debug, PartialEq, Eq)]
struct Outside {
    of: OutsideOf,
    types: Vec<Unseen>,
}

/// Which types concern a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OutsideOf {
    dependents: bool,
    only_namespaced: bool,
}

impl CollectorIntrospection {
    /// The owners and dependents of an object. The follower is woken when they may have changed.
    pub(super) async fn neighbourhood_of(
        &self,
        query: &ObjectQuery,
        follower: Option<&Follower>,
    ) -> Result<Looked, PartitionEnded> {
        let Some(root) = self.questions.find(&query.uid, query.resource.as_ref(), follower).await? else {
            return Ok(Looked::default());
        };
        let limits = ViewLimits { dependents_of_a_type: query.max, ..ViewLimits::default() };
        // One more than the page, which shows whether there is another page.
        let limit = query.after + query.limit + 1;
        let of = OutsideOf { dependents: query.down > 0, only_namespaced: root.namespace.is_some() };
        let question = NeighbourhoodQuery { root, up: query.up, down: query.down, limit };
        let Answered { answer, unseen, rests_on_reads } = self
            .questions
            .ask_for(follower, limits, Freshness::Recent, |asker| neighbourhood(asker, &question))
            .await?;
        let outside = self.outside(of);
        let mut incomplete = unseen;
        incomplete.extend(outside.types.iter().cloned());
        incomplete.sort();
        let (mut shown, next) = page(&answer, query.after, query.limit);
        shown.truncated |= next.is_some_and(|next| next > MOST_PAGED);
        let next = next.filter(|next| *next <= MOST_PAGED).map(|next| next.to_string());
        let page = Some(NeighbourhoodPage { shown, incomplete, next });
        Ok(Looked { page, outside: Some(outside), rests_on_reads })
    }

    fn outside(&self, of: OutsideOf) -> Outside {
        let mut types = self.undiscovered_types();
        if of.dependents {
            types.extend(self.unsynced_types(of.only_namespaced));
        }
        Outside { of, types }
    }
}

/// An object that somebody follows.
#[derive(Debug)]
pub(super) struct FollowedObject {
    collector: CollectorIntrospection,
    query: ObjectQuery,
    follower: GraphFollower,
    outside: Option<Outside>,
    /// When the live reads no longer count that the last answer rests on.
    reads_count_until: Option<Instant>,
}

impl FollowedObject {
    pub(super) fn new(collector: CollectorIntrospection, query: ObjectQuery) -> Self {
        let follower = collector.questions.graph().follower();
        Self { collector, query, follower, outside: None, reads_count_until: None }
    }

    async fn look_again(&mut self) -> Result<Option<NeighbourhoodPage>, PartitionEnded> {
        let follower = self.follower.ask_again();
        let looked = self.collector.neighbourhood_of(&self.query, Some(follower)).await?;
        self.outside = looked.outside;
        self.reads_count_until = looked.rests_on_reads.then(|| Instant::now() + READS_COUNT);
        Ok(looked.page)
    }

    async fn until_outdated(&self) {
        // The graph does not know of these. Whoever follows asks again each second.
        if self.outside.as_ref().is_some_and(|outside| self.collector.outside(outside.of) != *outside) {
            return;
        }
        let reads_count = async {
            match self.reads_count_until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.follower.outdated() => {}
            () = reads_count => {}
        }
    }
}

impl Follow for FollowedObject {
    fn look(&mut self) -> BoxFuture<'_, Result<Option<NeighbourhoodPage>, Ended>> {
        async move { Ok(self.look_again().await?) }.boxed()
    }

    fn outdated(&self) -> BoxFuture<'_, ()> {
        self.until_outdated().boxed()
    }
}
