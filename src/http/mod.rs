//! The two listeners: health and metrics for machines, debug pages for people.
//!
//! Everything here is a view: it asks an [`Introspection`] and shows the answer. Before
//! that, on request: TLS, and an [`Authority`] that says who may see it.
//!
//! | listener | page | shows |
//! |---|---|---|
//! | health | `/livez`, `/healthz` | the process answers |
//! | health | `/readyz` | 200 once it can do its work; `?verbose` says why not |
//! | health | `/metrics` | Prometheus metrics |
//! | debug | `/debug/monitors` | each watched type, whether it is synced, its last error |
//! | debug | `/debug/discovery` | what cannot be discovered, since when, its last error |
//! | debug | `/debug/graph` | owners and dependents as DOT; `?format=json`, `?uid=` repeatable |
//! | debug | `/debug/decisions` | the last decisions, each with its evidence; filtered by `?namespace=`, `?resource=`, … |
//! | debug | `/debug/stuck` | what cannot be finished now, since when, why; filtered by `?reason=`, … |
//! | debug | `/debug/queues` | the work queues and what keeps failing |
//! | debug | `/debug/idle` | whether there is anything left to do; `?seen=RESOURCE=VERSION` repeatable, `?parked=ok` |

mod access;
mod compared;
mod connections;
mod debug;
mod decisions;
mod front;
mod health;
mod page;
mod parameters;
mod patience;
mod readiness;
mod serve;
mod stuck;
mod tls;
mod view;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

use kube_gc_core::object::Uid;

pub use crate::config::Listener;
pub use access::{Authority, Guard, Token};
pub use compared::{Compared, Disagreement};
pub use debug::debug_router;
pub use decisions::{DecisionQuery, DecisionView, DecisionsPage, OwnerView};
pub use health::health_router;
pub use readiness::{Check, Facts, Leadership, Outcome, Readiness};
pub use serve::{BindError, Listening, Protection, bind};
pub use stuck::{StuckItem, StuckPage, StuckQuery, hint};
pub use tls::{Certificates, TlsError, TlsFiles};
pub use view::{
    FailingItem, GraphFormat, IdleQuery, IdleReport, MonitorStatus, ObjectView, QueueCounts, QueueStatus,
    Timestamp, Undiscovered,
};

/// A part of the collector that should have answered has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a part of the collector has ended")]
pub struct Ended;

/// A text that is made while it is read. It ends early, with an error, if what makes
/// it has ended.
pub type TextStream = BoxStream<'static, Result<String, Ended>>;

/// What can be asked of the running collector. Asking changes nothing.
pub trait Introspection: Send + Sync + 'static {
    /// Every monitor, ordered by group and resource.
    fn monitors(&self) -> BoxFuture<'_, Vec<MonitorStatus>>;

    /// What cannot be discovered.
    fn undiscovered(&self) -> Vec<Undiscovered>;

    /// The whole graph (nodes that have an edge), made while it is read.
    fn graph(&self, format: GraphFormat) -> TextStream;

    /// What is connected with the objects of these uids. `None` when none of them is
    /// in the graph.
    fn component(&self, uids: Vec<Uid>, format: GraphFormat) -> BoxFuture<'_, Result<Option<String>, Ended>>;

    /// The last decisions.
    fn decisions(&self, query: &DecisionQuery) -> DecisionsPage;

    /// What cannot be finished now.
    fn stuck(&self, query: StuckQuery) -> BoxFuture<'_, Result<StuckPage, Ended>>;

    /// Whether there is anything left to do.
    fn idle(&self, query: IdleQuery) -> BoxFuture<'_, IdleReport>;

    /// Every work queue.
    fn queues(&self) -> BoxFuture<'_, Vec<QueueStatus>>;

    /// What nobody else has done although a dry run would do it, newest first; `None` if this
    /// is no dry run.
    fn disagreements(&self) -> BoxFuture<'_, Option<Vec<Disagreement>>> {
        std::future::ready(None).boxed()
    }

    /// Whether it can do its work. Not a future: probes must be answered also
    /// when an actor is busy.
    fn readiness(&self) -> Readiness;
}

#[cfg(test)]
mod tests;
