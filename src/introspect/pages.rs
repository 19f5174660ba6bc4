//! The pages of the debug listener.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use serde::Serialize;
use tokio::sync::Semaphore;

use super::graph_export::{component, whole};
use super::introspection::CollectorIntrospection;
use super::queries::{
    CausesQuery, DecisionQuery, ExplainQuery, GraphQuery, IdleQuery, ObjectQuery, PlanRequest, StuckQuery,
};
use super::stream::{self, CONCURRENT_QUESTIONS};
use crate::insight::Cells;
use kube_gc_controller::actors::graph_handle::PartitionEnded;
use kube_gc_core::graph::dump::DumpFormat;
use kube_gc_insight::Document;
use kube_gc_observe::http::page::{Asked, JSON, json, not_found, page, text};
use kube_gc_observe::http::page_routes;

const INDEX: &str = "\
/debug/monitors  each watched resource type: whether it is synced, since when, its last error
/debug/discovery each part of the API that cannot be discovered: since when, its last error
/debug/graph     owners and dependents in Graphviz format
                   ?uid=UID       only the objects connected to this one; repeatable
                   ?format=json   as JSON
/debug/search    objects by type, namespace and name, such as deploy/web, shop/web or a part of a name
                   ?q=TEXT, ?namespace=NAME, ?resource=RESOURCE[.GROUP], ?limit=COUNT
/debug/neighbourhood the owners and dependents of an object, to some distance
                   ?uid=UID, ?resource=RESOURCE[.GROUP], ?up=LEVELS, ?down=LEVELS, ?max=COUNT, ?limit=COUNT
                   ?after=NEXT      the next page, as the field next says
/debug/explain   why an object is still there, what holds it, and the last decisions about it
                   ?uid=UID, ?resource=RESOURCE[.GROUP]
/debug/row       whether an object is ready, and its age, as `kubectl get` shows them
                   ?uid=UID, ?resource=RESOURCE[.GROUP]
/debug/plan      what happens to every object if one is deleted
                   ?uid=UID, ?resource=RESOURCE[.GROUP], ?policy=background|foreground|orphan, ?limit=COUNT
/debug/summary   server, version, sync, role, brake, queues, stuck objects and latencies at a glance
/debug/stream    the summary each second, and an object's neighbourhood when it changes, as server-sent events
                   ?uid=UID, and the other parameters of /debug/neighbourhood; without them, only summaries
/debug/stuck     each object that was deleted long ago, or that kube-gc cannot finish: since when, why, its next retry
                   ?reason=REASON   only objects that are stuck for this reason
                   ?namespace=NAME, ?resource=RESOURCE[.GROUP], ?older=SECONDS, ?limit=COUNT
/debug/stuck/causes what was deleted some time ago and is still there, by what holds it
                   ?namespace=NAME, ?older=SECONDS
/debug/decisions the last decisions and their evidence, newest first; in a dry run also the disagreements with another collector
                   ?namespace=NAME, ?resource=RESOURCE[.GROUP], ?name=NAME, ?uid=UID, ?owner=NAME, ?action=ACTION
                   ?outcome=OUTCOME, ?limit=COUNT, ?each=COUNT of each namespace
/debug/queues    the work queues and the objects that keep failing
/debug/idle      200 if no work is left, 503 otherwise, 404 if that can never be
                   ?seen=RESOURCE[.GROUP]=VERSION   also wait until the watches have reached this version; repeatable
                   ?parked=ok                       ignore parked objects
";

/// Connected components that are built at a time: each can be as large as the graph.
const CONCURRENT_COMPONENTS: usize = 2;
/// Plans that are made at a time: each can be about as many objects as there are.
const CONCURRENT_PLANS: usize = 1;
/// Searches for causes at a time: each reads many objects.
const CONCURRENT_CAUSES: usize = 1;

const GRAPHVIZ: &str = "text/vnd.graphviz; charset=utf-8";

/// What the pages are made from. What may concern many objects takes turns.
struct Debug {
    collector: CollectorIntrospection,
    components: Semaphore,
    plans: Semaphore,
    causes: Semaphore,
    questions: Arc<Semaphore>,
}

type Pages = State<Arc<Debug>>;

/// The pages of the debug listener.
pub fn debug_router(collector: CollectorIntrospection) -> Router {
    let questions = Arc::new(Semaphore::new(CONCURRENT_QUESTIONS));
    let streams = stream::routes(Arc::new(collector.clone()), Arc::clone(&questions));
    let debug = Debug {
        collector,
        components: Semaphore::new(CONCURRENT_COMPONENTS),
        plans: Semaphore::new(CONCURRENT_PLANS),
        causes: Semaphore::new(CONCURRENT_CAUSES),
        questions,
    };
    Router::new()
        .route("/debug/decisions", get(decisions))
        .route(
            "/debug/discovery",
            get(async |State(debug): Pages| json(StatusCode::OK, &debug.collector.undiscovered())),
        )
        .route("/debug/explain", get(explain))
        .route("/debug/graph", get(graph))
        .route("/debug/idle", get(idle))
        .route(
            "/debug/monitors",
            get(async |State(debug): Pages| json(StatusCode::OK, &debug.collector.monitors())),
        )
        .route("/debug/neighbourhood", get(neighbourhood))
        .route("/debug/plan", get(plan))
        .route(
            "/debug/queues",
            get(async |State(debug): Pages| json(StatusCode::OK, &debug.collector.queues().await)),
        )
        .route("/debug/row", get(row))
        .route(
            "/debug/search",
            get(async |State(debug): Pages, Asked(query)| {
                answered(in_turn(&debug.questions, debug.collector.search(query)).await)
            }),
        )
        .route(
            "/debug/stuck",
            get(async |State(debug): Pages, Asked(query): Asked<StuckQuery>| {
                answered(debug.collector.status.stuck(&query).await)
            }),
        )
        .route("/debug/stuck/causes", get(causes))
        .route(
            "/debug/summary",
            get(async |State(debug): Pages| answered(debug.collector.at_a_glance().await)),
        )
        .with_state(Arc::new(debug))
        .route("/debug", get(async || text(StatusCode::OK, INDEX)))
        .merge(streams)
        .merge(page_routes(INDEX))
        .fallback(not_found)
}

async fn decisions(State(debug): Pages, Asked(query): Asked<DecisionQuery>) -> Response {
    let collector = &debug.collector;
    let mut page = collector.decision_log.page(&query);
    if let Some(comparison) = &collector.status.comparison {
        page.disagreements = Some(comparison.disagreements(&collector.status.graph).await);
    }
    json(StatusCode::OK, &page)
}

async fn explain(State(debug): Pages, Asked(query): Asked<ExplainQuery>) -> Response {
    let answer = in_turn(&debug.questions, debug.collector.explain(query)).await;
    about_an_object("Explanation", answer)
}

async fn graph(State(debug): Pages, Asked(query): Asked<GraphQuery>) -> Response {
    let (graph, GraphQuery { uids, format }) = (&debug.collector.status.graph, query);
    let content_type = match format {
        DumpFormat::Dot => GRAPHVIZ,
        DumpFormat::Json => JSON,
    };
    if uids.is_empty() {
        // It is sent while it is generated, as fast as it is read, and has no total timeout.
        return page(StatusCode::OK, content_type, Body::from_stream(whole(graph.clone(), format)));
    }
    match in_turn(&debug.components, component(graph, &uids)).await {
        Ok(component) if component.nodes.is_empty() => {
            text(StatusCode::NOT_FOUND, "none of these uids is in the graph")
        }
        Ok(component) => page(StatusCode::OK, content_type, component.written(format)),
        Err(error) => ended(error),
    }
}

async fn idle(State(debug): Pages, Asked(query): Asked<IdleQuery>) -> Response {
    let report = debug.collector.idle(query).await;
    if let Some(why) = report.unknown {
        return text(StatusCode::NOT_FOUND, why);
    }
    json(if report.idle { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &report)
}

async fn neighbourhood(State(debug): Pages, Asked(query): Asked<ObjectQuery>) -> Response {
    if let Some(problem) = query.problem() {
        return text(StatusCode::BAD_REQUEST, problem);
    }
    about_an_object("Tree", in_turn(&debug.questions, debug.collector.neighbourhood(&query)).await)
}

async fn plan(State(debug): Pages, Asked(query): Asked<PlanRequest>) -> Response {
    about_an_object("Plan", in_turn(&debug.plans, debug.collector.plan(query)).await)
}

async fn row(State(debug): Pages, Asked(query): Asked<ExplainQuery>) -> Response {
    match in_turn(&debug.questions, debug.collector.questions.row(&query)).await {
        Ok(Some(Err(error))) => text(StatusCode::SERVICE_UNAVAILABLE, kube_gc_core::text::bounded(&error)),
        answer => about_an_object("Row", answer.map(|found| found.and_then(Result::ok).map(Cells::from))),
    }
}

async fn causes(State(debug): Pages, Asked(query): Asked<CausesQuery>) -> Response {
    let page = in_turn(&debug.causes, debug.collector.causes(query)).await;
    answered(page.as_ref().map(|page| Document::new("Stuck", page)).map_err(|ended| *ended))
}

/// The response to a question to the collector.
fn answered(answer: Result<impl Serialize, PartitionEnded>) -> Response {
    match answer {
        Ok(answer) => json(StatusCode::OK, &answer),
        Err(error) => ended(error),
    }
}

/// An answer about one object, as the command with the same answer writes it.
fn about_an_object(kind: &'static str, answer: Result<Option<impl Serialize>, PartitionEnded>) -> Response {
    match answer {
        Ok(Some(answer)) => json(StatusCode::OK, &Document::new(kind, &answer)),
        Ok(None) => text(StatusCode::NOT_FOUND, "no object in the graph has this uid"),
        Err(error) => ended(error),
    }
}

fn ended(_: PartitionEnded) -> Response {
    text(StatusCode::SERVICE_UNAVAILABLE, "a part of the collector has stopped; see its log")
}

/// The answer to a question in its turn.
async fn in_turn<A>(turns: &Semaphore, answer: impl Future<Output = A>) -> A {
    // The semaphore is never closed, so this cannot fail.
    let _permit = turns.acquire().await;
    answer.await
}
