//! For tests: an object that is not in the graph, and never will be.

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::{Ended, Follow, NeighbourhoodPage};

/// Whoever follows it sees nothing.
pub(crate) struct Absent;

impl Follow for Absent {
    fn look(&mut self) -> BoxFuture<'_, Result<Option<NeighbourhoodPage>, Ended>> {
        std::future::ready(Ok(None)).boxed()
    }

    fn outdated(&self) -> BoxFuture<'_, ()> {
        std::future::pending().boxed()
    }
}
