//! Pages whose answers take turns, because each may concern many objects.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use tokio::sync::Semaphore;

use super::debug::Debug;
use super::page::{answered, asked, ended, json, text};
use super::{CausesQuery, Ended, PlanRequest};
use kube_gc_insight::Document;

/// Plans that are made at a time: each can be about as many objects as there are.
const CONCURRENT_PLANS: usize = 1;
/// Searches for causes at a time: each reads many objects.
const CONCURRENT_CAUSES: usize = 1;

/// Whose turn it is.
#[derive(Clone)]
pub(super) struct Turns {
    plans: Arc<Semaphore>,
    causes: Arc<Semaphore>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            plans: Arc::new(Semaphore::new(CONCURRENT_PLANS)),
            causes: Arc::new(Semaphore::new(CONCURRENT_CAUSES)),
        }
    }
}

/// `/debug/plan`.
pub(super) async fn plan(debug: Debug, parameters: Vec<(String, String)>) -> Response {
    let Debug { introspection, turns: Turns { plans, .. }, .. } = &debug;
    in_turn(plans, PlanRequest::read(parameters), |request| async move {
        about_an_object("Plan", introspection.plan(request).await)
    })
    .await
}

/// `/debug/stuck/causes`.
pub(super) async fn causes(debug: Debug, parameters: Vec<(String, String)>) -> Response {
    let Debug { introspection, turns: Turns { causes, .. }, .. } = &debug;
    in_turn(causes, CausesQuery::read(parameters), |query| async move {
        let page = introspection.causes(query).await;
        answered(page.as_ref().map(|page| Document::new("Stuck", page)).map_err(|ended| *ended))
    })
    .await
}

/// Answers a request in its turn, unless its parameters are wrong.
pub(super) async fn in_turn<Q: Send, A: Future<Output = Response> + Send>(
    turns: &Semaphore,
    request: Result<Q, String>,
    answer: impl FnOnce(Q) -> A + Send,
) -> Response {
    asked(request, |request| async {
        // The semaphore is never closed, so this cannot fail.
        let _permit = turns.acquire().await;
        answer(request).await
    })
    .await
}

/// An answer about one object, as the command with the same answer writes it.
pub(super) fn about_an_object(kind: &'static str, answer: Result<Option<impl Serialize>, Ended>) -> Response {
    match answer {
        Ok(Some(answer)) => json(StatusCode::OK, &Document::new(kind, &answer)),
        Ok(None) => text(StatusCode::NOT_FOUND, "no object in the graph has this uid"),
        Err(error) => ended(error),
    }
}
