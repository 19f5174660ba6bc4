//! The pages of the debug listener.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use futures::FutureExt as _;
use tokio::sync::Semaphore;

use super::page::{
    JSON, answered, asked, ended, json, not_found, page, stream as streamed, text, within_timeout,
};
use super::parameters::unknown;
use super::stream::{Closing, Streams};
use super::turns::{self, Turns, about_an_object, in_turn};
use super::{DecisionQuery, FindQuery, GraphFormat, IdleQuery, Introspection, ObjectQuery, StuckQuery, ui};
use kube_gc_core::object::{GroupResource, ResourceVersion, Uid};

const INDEX: &str = "\
/debug/monitors  each watched resource type: whether it is synced, since when, its last error
/debug/discovery each part of the API that cannot be discovered: since when, its last error
/debug/graph     owners and dependents in Graphviz format
                   ?uid=UID       only the objects connected to this one; repeatable
                   ?format=json   as JSON
/debug/search    objects by a part of their kind and name, such as pod/web
                   ?q=TEXT, ?namespace=NAME, ?resource=RESOURCE[.GROUP], ?limit=COUNT
/debug/neighbourhood the owners and dependents of an object, to some distance
                   ?uid=UID, ?resource=RESOURCE[.GROUP], ?up=LEVELS, ?down=LEVELS, ?max=COUNT, ?limit=COUNT
                   ?after=NEXT      the next page, as the field next says
/debug/explain   why an object is still there, what holds it, and the last decisions about it
                   ?uid=UID, ?resource=RESOURCE[.GROUP]
/debug/plan      what happens to every object if one is deleted
                   ?uid=UID, ?resource=RESOURCE[.GROUP], ?policy=background|foreground|orphan, ?limit=COUNT
/debug/summary   sync, role, brake, queues, stuck objects and latencies at a glance
/debug/stream    the summary each second, and an object's neighbourhood when it changes, as server-sent events
                   ?uid=UID, and the other parameters of /debug/neighbourhood; without them, only summaries
/debug/stuck     each object that kube-gc cannot finish now: since when, why, its next retry
                   ?reason=REASON   only objects that are stuck for this reason
                   ?namespace=NAME, ?resource=RESOURCE[.GROUP], ?limit=COUNT
/debug/stuck/causes what was deleted some time ago and is still there, by what holds it
                   ?namespace=NAME, ?older=SECONDS
/debug/decisions the last decisions and their evidence, newest first; in a dry run also the disagreements with another collector
                   ?namespace=NAME, ?resource=RESOURCE[.GROUP], ?uid=UID, ?action=ACTION, ?outcome=OUTCOME, ?limit=COUNT
/debug/queues    the work queues and the objects that keep failing
/debug/idle      200 if no work is left, 503 otherwise
                   ?seen=RESOURCE[.GROUP]=VERSION   also wait until the watches have reached this version; repeatable
                   ?parked=ok                       ignore parked objects
";

/// Connected components that are built at a time: each can be as large as the graph.
const CONCURRENT_COMPONENTS: usize = 2;

/// Questions about objects that are answered at a time, so that people do not keep the partitions
/// from their work.
pub(super) const CONCURRENT_QUESTIONS: usize = 4;

const GRAPHVIZ: &str = "text/vnd.graphviz; charset=utf-8";

type Parameters = Query<Vec<(String, String)>>;

/// What the pages are made from.
#[derive(Clone)]
pub(super) struct Debug {
    pub(super) introspection: Arc<dyn Introspection>,
    pub(super) turns: Turns,
    components: Arc<Semaphore>,
    questions: Arc<Semaphore>,
    streams: Arc<Streams>,
}

/// The pages of the debug listener.
pub fn debug_router(introspection: Arc<dyn Introspection>) -> Router {
    let questions = Arc::new(Semaphore::new(CONCURRENT_QUESTIONS));
    let streams = Arc::new(Streams::new(Arc::clone(&introspection), Arc::clone(&questions)));
    Router::new()
        .route("/debug/{*page}", get(answer))
        .route("/debug", get(async || text(StatusCode::OK, INDEX)))
        .merge(ui::routes(INDEX))
        .fallback(not_found)
        .with_state(Debug {
            introspection,
            turns: Turns::default(),
            components: Arc::new(Semaphore::new(CONCURRENT_COMPONENTS)),
            questions,
            streams,
        })
}

/// Answers for all pages. With a handler for each of them, the program would contain axum's part of a
/// handler as often. The path counts as it was sent, because limits and access go by that, too.
async fn answer(
    State(debug): State<Debug>,
    uri: Uri,
    closing: Option<Extension<Closing>>,
    Query(parameters): Parameters,
) -> Response {
    let page = match uri.path().strip_prefix("/debug/").unwrap_or_default() {
        "decisions" => decisions(debug, parameters).boxed(),
        "discovery" => return json(StatusCode::OK, &debug.introspection.undiscovered()),
        "explain" => explain(debug, parameters).boxed(),
        "graph" => graph(debug, parameters).boxed(),
        "idle" => idle(debug, parameters).boxed(),
        "monitors" => monitors(debug).boxed(),
        "neighbourhood" => neighbourhood(debug, parameters).boxed(),
        "plan" => turns::plan(debug, parameters).boxed(),
        "queues" => queues(debug).boxed(),
        "search" => search(debug, parameters).boxed(),
        "stream" => {
            return debug.streams.answer(parameters, closing.map(|Extension(closing)| closing));
        }
        "stuck" => stuck(debug, parameters).boxed(),
        "stuck/causes" => turns::causes(debug, parameters).boxed(),
        "summary" => summary(debug).boxed(),
        _ => not_found().boxed(),
    };
    page.await
}

async fn monitors(debug: Debug) -> Response {
    within_timeout(async { json(StatusCode::OK, &debug.introspection.monitors().await) }).await
}

async fn queues(debug: Debug) -> Response {
    within_timeout(async { json(StatusCode::OK, &debug.introspection.queues().await) }).await
}

async fn graph(debug: Debug, parameters: Vec<(String, String)>) -> Response {
    let (uids, format) = match graph_query(parameters) {
        Ok(query) => query,
        Err(problem) => return text(StatusCode::BAD_REQUEST, problem),
    };
    let content_type = match format {
        GraphFormat::Dot => GRAPHVIZ,
        GraphFormat::Json => JSON,
    };
    if uids.is_empty() {
        return streamed(content_type, debug.introspection.graph(format));
    }
    within_timeout(async {
        // The semaphore is never closed, so this cannot fail.
        let _permit = debug.components.acquire().await;
        match debug.introspection.component(uids, format).await {
            Ok(Some(component)) => page(StatusCode::OK, content_type, component),
            Ok(None) => text(StatusCode::NOT_FOUND, "none of these uids is in the graph"),
            Err(error) => ended(error),
        }
    })
    .await
}

async fn search(debug: Debug, parameters: Vec<(String, String)>) -> Response {
    let Debug { introspection, questions, .. } = &debug;
    in_turn(questions, FindQuery::read(parameters), |query| async move {
        answered(introspection.search(query).await)
    })
    .await
}

async fn neighbourhood(debug: Debug, parameters: Vec<(String, String)>) -> Response {
    let Debug { introspection, questions, .. } = &debug;
    in_turn(questions, ObjectQuery::read_neighbourhood(parameters), |query| async move {
        about_an_object("Tree", introspection.neighbourhood(query).await)
    })
    .await
}

async fn explain(debug: Debug, parameters: Vec<(String, String)>) -> Response {
    let Debug { introspection, questions, .. } = &debug;
    in_turn(questions, ObjectQuery::read(parameters), |query| async move {
        about_an_object("Explanation", introspection.explain(query).await)
    })
    .await
}

async fn summary(debug: Debug) -> Response {
    within_timeout(async { answered(debug.introspection.summary().await) }).await
}

async fn stuck(debug: Debug, parameters: Vec<(String, String)>) -> Response {
    asked(StuckQuery::read(parameters), async |query| answered(debug.introspection.stuck(query).await)).await
}

async fn decisions(debug: Debug, parameters: Vec<(String, String)>) -> Response {
    asked(DecisionQuery::read(parameters), |query| async move {
        let mut page = debug.introspection.decisions(&query);
        page.disagreements = debug.introspection.disagreements().await;
        json(StatusCode::OK, &page)
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
            ("format", other) => return Err(format!("format={other:?} must be dot or json")),
            _ => return Err(unknown(&name)),
        }
    }
    Ok((uids, format))
}

async fn idle(debug: Debug, parameters: Vec<(String, String)>) -> Response {
    asked(idle_query(parameters), |query| async {
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
            ("seen", seen) => query.seen.push(seen_version(seen)?),
            ("parked", "ok") => query.parked_ok = true,
            ("parked", other) => return Err(format!("parked={other:?}: the only value is ok")),
            _ => return Err(unknown(&name)),
        }
    }
    Ok(query)
}

/// A version that is not a number cannot be compared, so nobody could ever wait for it.
fn seen_version(seen: &str) -> Result<(GroupResource, ResourceVersion), String> {
    let (resource, version) = seen
        .rsplit_once('=')
        .filter(|(resource, version)| !resource.is_empty() && !version.is_empty())
        .ok_or_else(|| {
            format!("seen={seen:?} is not of the form RESOURCE=VERSION or RESOURCE.GROUP=VERSION")
        })?;
    let number = ResourceVersion::parse_number(version).ok_or_else(|| {
        format!(
            "seen={seen:?}: the version {version:?} is not a whole number above 0; pass metadata.resourceVersion of an object"
        )
    })?;
    Ok((GroupResource::parse(resource), number))
}
