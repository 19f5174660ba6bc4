//! `/debug/plan`: one plan at a time.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use tokio::sync::Semaphore;

use super::page::{ended, json, text, within_timeout};
use super::{Introspection, PlanRequest};
use kube_gc_core::insight::Document;

/// Plans that are made at a time: each can be about as many objects as there are.
const CONCURRENT_PLANS: usize = 1;

#[derive(Clone)]
struct Plans {
    introspection: Arc<dyn Introspection>,
    turns: Arc<Semaphore>,
}

type Parameters = Query<Vec<(String, String)>>;

/// The page.
pub(super) fn router(introspection: Arc<dyn Introspection>) -> Router {
    let turns = Arc::new(Semaphore::new(CONCURRENT_PLANS));
    Router::new().route("/debug/plan", get(plan)).with_state(Plans { introspection, turns })
}

async fn plan(State(plans): State<Plans>, Query(parameters): Parameters) -> Response {
    let request = match PlanRequest::read(parameters) {
        Ok(request) => request,
        Err(problem) => return text(StatusCode::BAD_REQUEST, problem),
    };
    within_timeout(async {
        // The semaphore is never closed, so this cannot fail.
        let _permit = plans.turns.acquire().await;
        match plans.introspection.plan(request).await {
            Ok(Some(plan)) => json(StatusCode::OK, &Document::new("Plan", &plan)),
            Ok(None) => text(StatusCode::NOT_FOUND, "no object in the graph has this uid"),
            Err(error) => ended(error),
        }
    })
    .await
}
