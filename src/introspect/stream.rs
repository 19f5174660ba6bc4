//! `/debug/stream`: the collector at a glance, and what belongs to an object, as they change.
//!
//! The stream is made of server-sent events. Each event has a whole state, and it is made when the
//! connection has room for it. So a client that reads slowly gets fewer events and costs no memory,
//! and a stream that begins anew has missed nothing.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::unfold;
use serde::Serialize;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::introspection::CollectorIntrospection;
use super::queries::ObjectQuery;
use super::view::SummaryPage;
use kube_gc_controller::actors::graph_handle::PartitionEnded;
use kube_gc_core::object::{Identity, Key};
use kube_gc_insight::{NeighbourhoodPage, ObjectName};
use kube_gc_observe::http::page::{TIMEOUT, json_line, read, text};
use kube_gc_observe::http::{Closing, STREAM};

/// Questions about objects that are answered at a time, those of streams among them, so that people
/// do not keep the partitions from their work.
pub const CONCURRENT_QUESTIONS: usize = 4;

/// The time between two summaries, which all streams share.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(1);
/// The least time between two looks at an object.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// A look that takes long is followed by a pause of this many times its duration, so that a stream
/// takes less than two percent of the graph's time.
const PAUSE_FACTOR: u32 = 64;
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The time without any event after which a comment shows that the connection is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// A stream ends after this time. Its client connects again, and its rights are checked again.
const LONGEST_STREAM: Duration = Duration::from_secs(30 * 60);
/// How long a client that lost its stream waits before it connects again.
const RECONNECT: Duration = Duration::from_secs(1);

/// What streams show.
pub trait Streamed: Send + Sync + 'static {
    /// The collector at a glance.
    fn summary(&self) -> BoxFuture<'_, Result<SummaryPage, PartitionEnded>>;

    /// The owners and dependents of an object now; `None` if it is not in the graph.
    fn look<'a>(
        &'a self,
        query: &'a ObjectQuery,
    ) -> BoxFuture<'a, Result<Option<NeighbourhoodPage>, PartitionEnded>>;

    /// The uids of those of these objects that no monitor shows any more.
    fn gone(&self, objects: Vec<Identity>) -> BoxFuture<'_, Result<Vec<String>, PartitionEnded>>;
}

impl Streamed for CollectorIntrospection {
    fn summary(&self) -> BoxFuture<'_, Result<SummaryPage, PartitionEnded>> {
        self.at_a_glance().boxed()
    }

    fn look<'a>(
        &'a self,
        query: &'a ObjectQuery,
    ) -> BoxFuture<'a, Result<Option<NeighbourhoodPage>, PartitionEnded>> {
        self.neighbourhood(query).boxed()
    }

    fn gone(&self, objects: Vec<Identity>) -> BoxFuture<'_, Result<Vec<String>, PartitionEnded>> {
        async move {
            let keys: Vec<Key> = objects.iter().map(Identity::key).collect();
            let shown = self.status.graph.show(&keys).await?;
            let is_watched =
                |object: &Identity| self.status.registry.is_synced(&object.resource.group_resource);
            let gone = objects.iter().zip(shown).filter(|(of, shown)| shown.is_none() && is_watched(of));
            Ok(gone.map(|(object, _)| ObjectName::from(object).uid).collect())
        }
        .boxed()
    }
}

/// The page. Its questions take turns with others.
pub fn routes(shown: Arc<dyn Streamed>, questions: Arc<Semaphore>) -> Router {
    let streams = Arc::new(Streams { shown, questions, summary: Mutex::default() });
    let answer = async move |closing: Option<Extension<Closing>>, uri: Uri| streams.answer(&uri, closing);
    Router::new().route(STREAM, get(answer))
}

/// What all streams share.
struct Streams {
    shown: Arc<dyn Streamed>,
    /// The questions that are answered at a time.
    questions: Arc<Semaphore>,
    /// The last summary, and when it was made.
    summary: Mutex<Option<(Instant, Arc<str>)>>,
}

impl Streams {
    /// The answer to a request.
    fn answer(self: Arc<Self>, uri: &Uri, closing: Option<Extension<Closing>>) -> Response {
        let query = match query(uri) {
            Ok(query) => query,
            Err(problem) => return text(StatusCode::BAD_REQUEST, problem),
        };
        let now = Instant::now();
        let following = Following {
            closing: closing.map(|Extension(Closing(token))| token).unwrap_or_default(),
            ends: now + LONGEST_STREAM,
            summary_due: now,
            object: query.map(|query| Followed { query, due: now, sent: None }),
            streams: self,
        };
        let events = unfold(following, async |following| {
            let (event, following) = following.next().await?;
            Some((Ok::<_, Infallible>(event), following))
        });
        let mut response = Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response();
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }

    /// The collector at a glance, and since when. `None` if the collector ends.
    async fn summary(&self) -> Option<(Instant, Arc<str>)> {
        let mut shared = self.summary.lock().await;
        if let Some((made, summary)) = &*shared
            && made.elapsed() < SUMMARY_INTERVAL
        {
            return Some((*made, Arc::clone(summary)));
        }
        let summary: Arc<str> = json_line(&in_time(self.shown.summary()).await?)?.into();
        // Not before it: one that takes longer than a second would be due again at once, always.
        let made = Instant::now();
        *shared = Some((made, Arc::clone(&summary)));
        Some((made, summary))
    }
}

/// `None` if the collector ends or does not answer.
async fn in_time<T>(answer: impl Future<Output = Result<T, PartitionEnded>>) -> Option<T> {
    timeout(TIMEOUT, answer).await.ok()?.ok()
}

/// The object to follow, if there is one.
fn query(uri: &Uri) -> Result<Option<ObjectQuery>, String> {
    if uri.query().unwrap_or_default().is_empty() {
        return Ok(None);
    }
    let query: ObjectQuery = read(uri)?;
    match query.problem() {
        Some(problem) => Err(problem),
        None if query.after > 0 => Err("a stream shows only the first page, without after=".to_owned()),
        None => Ok(Some(query)),
    }
}

/// One stream.
struct Following {
    streams: Arc<Streams>,
    closing: CancellationToken,
    ends: Instant,
    summary_due: Instant,
    object: Option<Followed>,
}

impl Following {
    /// Waits for the next event. `None` ends the stream.
    async fn next(mut self) -> Option<(Event, Self)> {
        loop {
            let now = Instant::now();
            if self.closing.is_cancelled() || now >= self.ends {
                return None;
            }
            if self.summary_due <= now {
                let (made, summary) = self.streams.summary().await?;
                // So all streams ask at the same time, and share each summary.
                self.summary_due = made + SUMMARY_INTERVAL;
                return Some((Event::default().event("summary").retry(RECONNECT).data(&*summary), self));
            }
            let mut due = self.summary_due;
            if let Some(object) = &mut self.object {
                if object.due <= now {
                    match object.look(&self.streams).await? {
                        Some(page) => {
                            return Some((Event::default().event("neighbourhood").data(page), self));
                        }
                        None => continue,
                    }
                }
                due = due.min(object.due);
            }
            tokio::select! {
                () = sleep_until(due) => {}
                () = self.closing.cancelled() => return None,
            }
        }
    }
}

/// The object that a stream follows.
struct Followed {
    query: ObjectQuery,
    /// When it is looked at again.
    due: Instant,
    /// What was sent last, and the objects in it.
    sent: Option<(String, Vec<Identity>)>,
}

/// A look, with what has left the graph since the last one. What merely has no place on the page any
/// more is not gone.
#[derive(Serialize)]
struct Look {
    #[serde(flatten)]
    page: NeighbourhoodPage,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gone: Vec<String>,
}

impl Followed {
    /// The new state, if it is another than the last one. The outer `None` ends the stream.
    async fn look(&mut self, streams: &Streams) -> Option<Option<String>> {
        let page = {
            // The semaphore is never closed, so this cannot fail.
            let _permit = streams.questions.acquire().await;
            let began = Instant::now();
            let page = in_time(streams.shown.look(&self.query)).await?;
            let now = Instant::now();
            self.due = now + (PAUSE_FACTOR * (now - began)).clamp(LOOK_INTERVAL, LONGEST_PAUSE);
            page
        };
        // An object that is not in the graph has no nodes. It may come, for example after a start.
        let page = page.unwrap_or_default();
        let text = json_line(&page)?;
        if self.sent.as_ref().is_some_and(|(sent, _)| *sent == text) {
            return Some(None);
        }
        let nodes: Vec<Identity> = page.shown.nodes.iter().filter_map(|node| node.identity.clone()).collect();
        let mut missing = self.sent.replace((text, nodes)).map(|(_, before)| before).unwrap_or_default();
        let now: HashSet<&Identity> = self.sent.iter().flat_map(|(_, nodes)| nodes).collect();
        missing.retain(|before| !now.contains(before));
        let gone = if missing.is_empty() { Vec::new() } else { in_time(streams.shown.gone(missing)).await? };
        json_line(&Look { page, gone }).map(Some)
    }
}

#[cfg(test)]
mod tests;
