//! The two listeners: health and metrics for machines, debug pages for people.
//!
//! The pages only show what an [`Introspection`] returns. TLS and authorization through a
//! [`Reviewer`](access::Reviewer) are optional.
//!
//! | listener | page | shows |
//! |---|---|---|
//! | health | `/livez`, `/healthz` | 200 while the process is alive |
//! | health | `/readyz` | 200 once the collector can work; `?verbose` shows why not |
//! | health | `/metrics` | Prometheus metrics |
//! | debug | `/`, `/ui/…` | for browsers: a page that shows what the others answer |
//! | debug | `/debug/monitors` | each watched type, whether it is synced, its last error |
//! | debug | `/debug/discovery` | each part of the API that cannot be discovered, since when, its last error |
//! | debug | `/debug/graph` | owners and dependents as DOT; `?format=json`, `?uid=` repeatable |
//! | debug | `/debug/decisions` | the last decisions, each with its evidence; filters: `?namespace=`, `?resource=`, … |
//! | debug | `/debug/search` | objects by a part of kind and name: `?q=`, `?namespace=`, `?resource=`, `?limit=` |
//! | debug | `/debug/neighbourhood` | owners and dependents of `?uid=`, to a distance: `?up=`, `?down=`, `?max=`, `?limit=` |
//! | debug | `/debug/explain` | why the object `?uid=` is still there, and what was decided about it |
//! | debug | `/debug/plan` | what happens to every object if the object `?uid=` is deleted: `?policy=`, `?limit=` |
//! | debug | `/debug/summary` | sync, role, brake, queues, stuck objects and latencies at a glance |
//! | debug | `/debug/stream` | the summary each second, and changes of the neighbourhood of `?uid=`, as server-sent events |
//! | debug | `/debug/stuck` | stuck objects, since when, why; filters: `?reason=`, … |
//! | debug | `/debug/stuck/causes` | what was deleted long ago, by what holds it: `?namespace=`, `?older=` |
//! | debug | `/debug/queues` | the work queues and the objects that keep failing |
//! | debug | `/debug/node` | `kube-gc node run` only: the last plan for the node, and what came of it |
//! | debug | `/debug/idle` | whether any work is left; `?seen=RESOURCE=VERSION` repeatable, `?parked=ok` |

mod access;
mod causes;
mod comparison;
mod connections;
mod debug;
mod decisions;
mod health;
mod host;
mod insight;
mod middleware;
#[cfg(feature = "node")]
mod node;
mod page;
mod parameters;
mod plan;
mod readiness;
mod serve;
mod stream;
mod stuck;
mod tls;
mod turns;
mod ui;
mod view;
mod write_timeout;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

use kube_gc_core::object::Uid;

pub use crate::config::Listener;
pub use access::Authorizer;
pub use causes::{CausesPage, CausesQuery};
pub use comparison::{ComparisonCounts, DisagreementView};
pub use debug::debug_router;
pub use decisions::{DecisionQuery, DecisionView, DecisionsPage};
pub use health::health_router;
#[cfg(feature = "node")]
pub use health::node_health_router;
pub use host::Hosts;
pub use insight::{
    ExplanationPage, FindQuery, FoundObject, FoundPage, Latencies, LatencyHistogram, MOST_PAGED,
    NeighbourhoodPage, ObjectQuery, QueueSummary, SummaryPage,
};
#[cfg(feature = "node")]
pub use node::{NodeIntrospection, node_debug_router};
pub use plan::{PlanPage, PlanRequest};
pub use readiness::{Check, Facts, Leadership, Readiness};
pub use serve::{Protection, bind};
pub use stuck::{StuckItem, StuckPage, StuckQuery, hint};
pub use tls::{Certificates, TlsFiles};
pub use view::{
    FailingItem, GraphFormat, IdleQuery, IdleReport, MonitorStatus, ObjectView, OwnerView, QueueCounts,
    QueueStatus, Timestamp, Undiscovered,
};

/// An actor that should have answered has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a part of the collector has stopped; see its log")]
pub struct Ended;

/// A text that is generated while it is read. It ends with an error if its source has
/// ended.
pub type TextStream = BoxStream<'static, Result<String, Ended>>;

/// Read-only queries about the running collector.
pub trait Introspection: Send + Sync + 'static {
    /// Every monitor, ordered by group and resource.
    fn monitors(&self) -> BoxFuture<'_, Vec<MonitorStatus>>;

    /// The parts of the API that cannot be discovered.
    fn undiscovered(&self) -> Vec<Undiscovered>;

    /// The whole graph (nodes that have an edge), generated while it is read.
    fn graph(&self, format: GraphFormat) -> TextStream;

    /// The connected components of the objects with these uids; `None` if none of them is in
    /// the graph.
    fn component(&self, uids: Vec<Uid>, format: GraphFormat) -> BoxFuture<'_, Result<Option<String>, Ended>>;

    /// Objects by a part of their kind and name.
    fn search(&self, query: FindQuery) -> BoxFuture<'_, Result<FoundPage, Ended>>;

    /// The owners and dependents of an object; `None` if it is not in the graph.
    fn neighbourhood(&self, query: ObjectQuery) -> BoxFuture<'_, Result<Option<NeighbourhoodPage>, Ended>>;

    /// The owners and dependents of an object again and again, whenever they may have changed.
    fn follow(&self, query: ObjectQuery) -> Box<dyn Follow>;

    /// Why an object is still there; `None` if it is not in the graph.
    fn explain(&self, query: ObjectQuery) -> BoxFuture<'_, Result<Option<ExplanationPage>, Ended>>;

    /// What happens to every object if one is deleted; `None` if it is not in the graph.
    fn plan(&self, _: PlanRequest) -> BoxFuture<'_, Result<Option<PlanPage>, Ended>> {
        std::future::ready(Ok(None)).boxed()
    }

    /// The collector at a glance.
    fn summary(&self) -> BoxFuture<'_, Result<SummaryPage, Ended>>;

    /// The last decisions.
    fn decisions(&self, query: &DecisionQuery) -> DecisionsPage;

    /// The stuck objects.
    fn stuck(&self, query: StuckQuery) -> BoxFuture<'_, Result<StuckPage, Ended>>;

    /// What was deleted long ago and is still there, by what holds it.
    fn causes(&self, _: CausesQuery) -> BoxFuture<'_, Result<CausesPage, Ended>> {
        std::future::ready(Ok(CausesPage::default())).boxed()
    }

    /// Whether any work is left.
    fn idle(&self, query: IdleQuery) -> BoxFuture<'_, IdleReport>;

    /// Every work queue.
    fn queues(&self) -> BoxFuture<'_, Vec<QueueStatus>>;

    /// Decisions of a dry run that nobody else has carried out, newest first; `None` if this is
    /// not a dry run.
    fn disagreements(&self) -> BoxFuture<'_, Option<Vec<DisagreementView>>> {
        std::future::ready(None).boxed()
    }

    /// Whether the collector can work. This is not a future, because probes must be answered
    /// even if an actor is busy.
    fn readiness(&self) -> Readiness;
}

/// An object that somebody follows.
pub trait Follow: Send + Sync {
    /// Its owners and dependents now; `None` if it is not in the graph.
    fn look(&mut self) -> BoxFuture<'_, Result<Option<NeighbourhoodPage>, Ended>>;

    /// Resolves when another look may show something else than the last one. Who waits for this has
    /// to give up and ask again each second. Cancel safe.
    fn outdated(&self) -> BoxFuture<'_, ()>;
}

#[cfg(test)]
pub(crate) mod absent;
#[cfg(test)]
mod tests;
