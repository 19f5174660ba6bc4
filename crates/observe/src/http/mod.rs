//! The two listeners: health and metrics for machines, debug pages for people. TLS and authorization
//! through a [`Reviewer`](access::Reviewer) are optional.
//!
//! The debug pages themselves are where their answers are made; [`page`] and [`view`] are
//! their form.

mod access;
mod connections;
mod health;
mod middleware;
pub mod page;
mod serve;
mod stream;
mod tls;
mod ui;
mod view;

pub use access::{Access, Answer, Authorizer, Bearer, Cache, ReviewError, Reviewer, Token, User};
pub use health::Check;
pub use health::{ComparisonCounts, Facts, Readiness, health_router};
pub use kube_gc_config::Listener;
pub use middleware::Hosts;
pub use page::{
    CausesQuery, DEFAULT_LIMIT, DecisionQuery, ExplainQuery, FindQuery, GraphQuery, IdleQuery, MOST_PAGED,
    ObjectQuery, PlanRequest, StuckQuery,
};
pub use serve::{Listening, Protection, bind};
pub use stream::{CONCURRENT_QUESTIONS, Streamed, routes as stream_routes};
pub use tls::{Certificates, TlsFiles};
pub use ui::routes as page_routes;
pub use view::{
    CausesPage, DecisionView, DecisionsPage, DisagreementView, Ended, ExplanationPage, FailingItem,
    FoundObject, FoundPage, IdleReport, Latencies, MonitorStatus, NeighbourhoodPage, ObjectView, OwnerView,
    PlanPage, QueueCounts, QueueStatus, QueueSummary, StuckItem, StuckPage, SummaryPage, Timestamp,
    Undiscovered, hint,
};

#[cfg(test)]
mod tests;
