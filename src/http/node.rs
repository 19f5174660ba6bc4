//! The pages of node collection: the same health listener, and `/debug/node`.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;

use super::Readiness;
use super::page::{json_text, not_found, text};

const INDEX: &str = "\
/debug/node      the last plan for this node, and what came of it
";

/// Read-only queries about node collection.
pub trait NodeIntrospection: Send + Sync + 'static {
    /// Whether the node can be collected.
    fn readiness(&self) -> Readiness;

    /// The last plan, and what came of it, as indented JSON; nothing before the first one.
    fn last(&self) -> Option<Result<String, serde_json::Error>>;
}

/// The pages of the debug listener.
pub fn node_debug_router(introspection: Arc<dyn NodeIntrospection>) -> Router {
    Router::new()
        .route("/debug/node", get(async move || last(&*introspection)))
        .route("/", get(async || text(StatusCode::OK, INDEX)))
        .route("/debug", get(async || text(StatusCode::OK, INDEX)))
        .fallback(not_found)
}

fn last(introspection: &dyn NodeIntrospection) -> Response {
    match introspection.last() {
        Some(Ok(report)) => json_text(StatusCode::OK, &report),
        Some(Err(error)) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        None => text(StatusCode::SERVICE_UNAVAILABLE, "the node has not been looked at yet"),
    }
}
