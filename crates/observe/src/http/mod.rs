//! The two listeners: health and metrics for machines, debug pages for people. TLS and authorization
//! through a [`Reviewer`](crate::access::Reviewer) are optional.
//!
//! The debug pages themselves are where their answers are made; [`page`] is their form.

mod connections;
mod health;
mod middleware;
pub mod page;
mod serve;
mod tls;
mod ui;

pub use health::health_router;
pub use kube_gc_config::Listener;
pub use middleware::{Closing, Hosts, STREAM};
pub use serve::{Listening, Protection, bind};
pub use tls::{Certificates, TlsFiles};
pub use ui::routes as page_routes;

#[cfg(test)]
mod tests;
