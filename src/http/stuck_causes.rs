//! `/debug/stuck/causes`: one answer at a time.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use tokio::sync::Semaphore;

use super::page::{ended, json, text, within_timeout};
use super::{CausesQuery, Introspection};
use kube_gc_core::insight::Document;

/// Answers at a time: each reads many objects.
const AT_ONCE: usize = 1;

#[derive(Clone)]
struct Causes {
    introspection: Arc<dyn Introspection>,
    turns: Arc<Semaphore>,
}

type Parameters = Query<Vec<(String, String)>>;

/// The page.
pub(super) fn router(introspection: Arc<dyn Introspection>) -> Router {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    Router::new().route("/debug/stuck/causes", get(causes)).with_state(Causes { introspection, turns })
}

async fn causes(State(causes): State<Causes>, Query(parameters): Parameters) -> Response {
    let query = match CausesQuery::read(parameters) {
        Ok(query) => query,
        Err(problem) => return text(StatusCode::BAD_REQUEST, problem),
    };
    within_timeout(async {
        // The semaphore is never closed, so this cannot fail.
        let _permit = causes.turns.acquire().await;
        match causes.introspection.causes(query).await {
            Ok(page) => json(StatusCode::OK, &Document::new("Stuck", &page)),
            Err(error) => ended(error),
        }
    })
    .await
}
