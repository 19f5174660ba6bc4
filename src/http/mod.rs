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
//! | debug | `/debug/decisions` | what another collector has not done of that which a dry run would do |
//! | debug | `/debug/queues` | the work queues and what keeps failing |
//! | debug | `/debug/idle` | whether there is anything left to do; `?seen=RESOURCE=VERSION` repeatable, `?parked=ok` |

mod access;
mod compared;
mod debug;
mod front;
mod health;
mod page;
mod patience;
mod readiness;
mod serve;
mod tls;
mod view;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::object::Uid;

pub use crate::config::Listener;
pub use access::{Authority, Guard, Token};
pub use compared::{Compared, Disagreement};
pub use debug::debug_router;
pub use health::health_router;
pub use readiness::{Check, Facts, Leadership, Outcome, Readiness};
pub use serve::{BindError, Listening, Protection, bind};
pub use tls::{Certificates, TlsError, TlsFiles};
pub use view::{
    FailingItem, GraphFormat, IdleQuery, IdleReport, MonitorStatus, QueueCounts, QueueStatus, Timestamp,
    Undiscovered,
};

/// What can be asked of the running collector. Asking changes nothing.
pub trait Introspection: Send + Sync + 'static {
    /// Every monitor, ordered by group and resource.
    fn monitors(&self) -> BoxFuture<'_, Vec<MonitorStatus>>;

    /// What cannot be discovered.
    fn undiscovered(&self) -> Vec<Undiscovered>;

    /// The whole graph (nodes that have an edge) or, with uids, their connected
    /// component. `None` when none of the uids is in the graph.
    fn graph(&self, uids: Vec<Uid>, format: GraphFormat) -> BoxFuture<'_, Option<String>>;

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
