//! `/debug/stream`: the collector at a glance, and what belongs to an object, as they change.
//!
//! The stream is made of server-sent events. Each event has a whole state, and it is made when the
//! connection has room for it. So a client that reads slowly gets fewer events and costs no memory,
//! and a stream that begins anew has missed nothing.

use std::convert::Infallible;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::stream::unfold;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::page::{TIMEOUT, json_line, text};
use super::{Ended, Follow, Introspection, ObjectQuery};

/// The path of the page.
pub(super) const PATH: &str = "/debug/stream";
/// The most streams at a time. They do not count as requests.
pub(super) const MAX_STREAMS: usize = 8;

/// The time between two summaries, which all streams share.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(1);
/// The least time between two looks at an object.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
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

/// The end of the listener. Each request has it among its extensions.
#[derive(Clone, Debug)]
pub(super) struct Closing(pub CancellationToken);

/// What all streams share.
pub(super) struct Streams {
    introspection: Arc<dyn Introspection>,
    /// The questions that are answered at a time.
    questions: Arc<Semaphore>,
    /// The last summary, and when it was made.
    summary: Mutex<Option<(Instant, Arc<str>)>>,
    hash_keys: RandomState,
}

impl Streams {
    pub(super) fn new(introspection: Arc<dyn Introspection>, questions: Arc<Semaphore>) -> Self {
        Self { introspection, questions, summary: Mutex::default(), hash_keys: RandomState::new() }
    }

    /// The answer to a request.
    pub(super) fn answer(
        self: Arc<Self>,
        parameters: Vec<(String, String)>,
        closing: Option<Closing>,
    ) -> Response {
        let query = match query(parameters) {
            Ok(query) => query,
            Err(problem) => return text(StatusCode::BAD_REQUEST, problem),
        };
        let now = Instant::now();
        let introspection = Arc::clone(&self.introspection);
        let following = Following {
            streams: self,
            closing: closing.map(|Closing(token)| token).unwrap_or_default(),
            ends: now + LONGEST_STREAM,
            summary_due: now,
            object: query.map(|query| Followed::new(introspection.follow(query), now)),
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
        let summary: Arc<str> = json_line(&in_time(self.introspection.summary()).await?)?.into();
        // Not before it: one that takes longer than a second would be due again at once, always.
        let made = Instant::now();
        *shared = Some((made, Arc::clone(&summary)));
        Some((made, summary))
    }
}

/// `None` if the collector ends or does not answer.
async fn in_time<T>(answer: impl Future<Output = Result<T, Ended>>) -> Option<T> {
    timeout(TIMEOUT, answer).await.ok()?.ok()
}

/// The object to follow, if there is one.
fn query(parameters: Vec<(String, String)>) -> Result<Option<ObjectQuery>, String> {
    if parameters.is_empty() {
        return Ok(None);
    }
    match ObjectQuery::read_neighbourhood(parameters)? {
        ObjectQuery { after: 1.., .. } => {
            Err("a stream shows only the first page, without after=".to_owned())
        }
        query => Ok(Some(query)),
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
            if let Some(object) = self.object.as_mut().filter(|object| object.is_outdated) {
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
                () = outdated(self.object.as_mut()) => {}
                () = self.closing.cancelled() => return None,
            }
        }
    }
}

/// Notes that an object may have changed. Never resolves if that is known already.
async fn outdated(object: Option<&mut Followed>) {
    match object.filter(|object| !object.is_outdated) {
        Some(object) => {
            object.object.outdated().await;
            object.is_outdated = true;
        }
        None => std::future::pending().await,
    }
}

/// The object that a stream follows.
struct Followed {
    object: Box<dyn Follow>,
    /// Whether it may have changed since the last look began.
    is_outdated: bool,
    /// The time before which it is not looked at again.
    due: Instant,
    /// The hash of what was sent last.
    sent: Option<u64>,
}

impl Followed {
    const fn new(object: Box<dyn Follow>, now: Instant) -> Self {
        Self { object, is_outdated: true, due: now, sent: None }
    }

    /// The new state, if it is another than the last one. The outer `None` ends the stream.
    async fn look(&mut self, streams: &Streams) -> Option<Option<String>> {
        let page = {
            // The semaphore is never closed, so this cannot fail.
            let _permit = streams.questions.acquire().await;
            let began = Instant::now();
            self.is_outdated = false;
            let page = in_time(self.object.look()).await?;
            let now = Instant::now();
            self.due = now + (PAUSE_FACTOR * (now - began)).clamp(LOOK_INTERVAL, LONGEST_PAUSE);
            page
        };
        // An object that is not in the graph has no nodes. It may come, for example after a start.
        let text = json_line(&page.unwrap_or_default())?;
        let hash = streams.hash_keys.hash_one(&text);
        Some((self.sent.replace(hash) != Some(hash)).then_some(text))
    }
}
