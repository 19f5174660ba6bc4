//! The debug listener.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use tokio::sync::Semaphore;

use super::page::{JSON, json, not_found, page, text, within_timeout};
use super::{GraphFormat, IdleQuery, Introspection};
use crate::object::{GroupResource, ResourceVersion, Uid};

const INDEX: &str = "\
/debug/monitors  each watched resource type: synced or not, since when, its last error
/debug/discovery what cannot be discovered, since when, its last error
/debug/graph     owners and dependents in Graphviz' format
                   ?uid=UID       only what is connected to this object; repeatable
                   ?format=json   as JSON
/debug/decisions what another collector has not done of that which a dry run would do
/debug/queues    the work queues, and the objects that keep failing
/debug/idle      200 when there is nothing left to do, else 503
                   ?seen=RESOURCE[.GROUP]=VERSION   and the watches have come to here; repeatable
                   ?parked=ok                       objects that failed and wait are no work
";

/// Dumps of the graph at a time: each can be as large as the graph.
const CONCURRENT_DUMPS: usize = 2;

const GRAPHVIZ: &str = "text/vnd.graphviz; charset=utf-8";

type Parameters = Query<Vec<(String, String)>>;

#[derive(Clone)]
struct Debug {
    introspection: Arc<dyn Introspection>,
    dumps: Arc<Semaphore>,
}

/// The pages of the debug listener.
pub fn debug_router(introspection: Arc<dyn Introspection>) -> Router {
    Router::new()
        .route("/debug/monitors", get(monitors))
        .route("/debug/discovery", get(discovery))
        .route("/debug/graph", get(graph))
        .route("/debug/decisions", get(decisions))
        .route("/debug/queues", get(queues))
        .route("/debug/idle", get(idle))
        .route("/", get(async || text(StatusCode::OK, INDEX)))
        .route("/debug", get(async || text(StatusCode::OK, INDEX)))
        .fallback(not_found)
        .with_state(Debug { introspection, dumps: Arc::new(Semaphore::new(CONCURRENT_DUMPS)) })
}

async fn monitors(State(debug): State<Debug>) -> Response {
    within_timeout(async { json(StatusCode::OK, &debug.introspection.monitors().await) }).await
}

async fn discovery(State(debug): State<Debug>) -> Response {
    json(StatusCode::OK, &debug.introspection.undiscovered())
}

async fn decisions(State(debug): State<Debug>) -> Response {
    within_timeout(async {
        let disagreements = debug.introspection.disagreements().await;
        json(StatusCode::OK, &serde_json::json!({ "disagreements": disagreements }))
    })
    .await
}

async fn queues(State(debug): State<Debug>) -> Response {
    within_timeout(async { json(StatusCode::OK, &debug.introspection.queues().await) }).await
}

async fn graph(State(debug): State<Debug>, Query(parameters): Parameters) -> Response {
    let (uids, format) = match graph_query(parameters) {
        Ok(query) => query,
        Err(problem) => return text(StatusCode::BAD_REQUEST, problem),
    };
    within_timeout(async {
        // Never closed, so never an error.
        let _one_of_few = debug.dumps.acquire().await;
        let content_type = match format {
            GraphFormat::Dot => GRAPHVIZ,
            GraphFormat::Json => JSON,
        };
        match debug.introspection.graph(uids, format).await {
            Some(dump) => page(StatusCode::OK, content_type, dump),
            None => text(StatusCode::NOT_FOUND, "none of these uids is in the graph"),
        }
    })
    .await
}

fn graph_query(parameters: Vec<(String, String)>) -> Result<(Vec<Uid>, GraphFormat), String> {
    let mut uids = Vec::new();
    let mut format = GraphFormat::Dot;
    for (name, value) in parameters {
        match (name.as_str(), value.as_str()) {
            ("uid", uid) => uids.push(Uid::parse(uid).ok_or("uid= needs a uid")?),
            ("format", "dot") => format = GraphFormat::Dot,
            ("format", "json") => format = GraphFormat::Json,
            ("format", other) => return Err(format!("format={other:?} is neither dot nor json")),
            _ => return Err(unknown_parameter(&name)),
        }
    }
    Ok((uids, format))
}

async fn idle(State(debug): State<Debug>, Query(parameters): Parameters) -> Response {
    let query = match idle_query(parameters) {
        Ok(query) => query,
        Err(problem) => return text(StatusCode::BAD_REQUEST, problem),
    };
    within_timeout(async {
        let report = debug.introspection.idle(query).await;
        let status = if report.idle { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        json(status, &report)
    })
    .await
}

fn idle_query(parameters: Vec<(String, String)>) -> Result<IdleQuery, String> {
    let mut query = IdleQuery::default();
    for (name, value) in parameters {
        match (name.as_str(), value.as_str()) {
            ("seen", seen) => {
                let parsed = seen.rsplit_once('=').and_then(|(resource, version)| {
                    let version = ResourceVersion::parse(version)?;
                    (!resource.is_empty()).then(|| (GroupResource::parse(resource), version))
                });
                query.seen.push(parsed.ok_or_else(|| {
                    format!("seen={seen:?} is not of the form RESOURCE=VERSION or RESOURCE.GROUP=VERSION")
                })?);
            }
            ("parked", "ok") => query.parked_ok = true,
            ("parked", other) => return Err(format!("parked={other:?}: only ok is known")),
            _ => return Err(unknown_parameter(&name)),
        }
    }
    Ok(query)
}

/// A mistyped parameter would be ignored, and the answer be taken for another.
fn unknown_parameter(name: &str) -> String {
    format!("unknown parameter {name:?}; / lists those that there are")
}
