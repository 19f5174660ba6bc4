//! Answers as HTTP responses, complete or streamed, and the tasks to wake when a type changes.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, DATE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::{Frame, SizeHint};
use serde_json::Value;
use tokio::time::{Sleep, sleep_until};

use crate::reads::{Pull, Watch};
use crate::resources::ResourceName;
use crate::server::{Answer, Reply};
use crate::service::ApiServer;
use crate::store::Touched;

/// The body of a response.
#[derive(Debug)]
pub struct ResponseBody(Kind);

#[derive(Debug)]
enum Kind {
    Whole(Option<Bytes>),
    Watch(Box<Stream>),
}

/// The connection of a watch was cut.
#[derive(Debug)]
pub struct ConnectionBroke;

impl fmt::Display for ConnectionBroke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection reset by peer")
    }
}

impl std::error::Error for ConnectionBroke {}

/// Converts an answer to a response.
pub(super) fn respond(answer: Answer, server: &ApiServer) -> Response<ResponseBody> {
    let mut response = match answer {
        Answer::Whole(reply) => whole(reply),
        // The backend was removed after the request was routed to it. No other answer waits.
        Answer::Elsewhere(_) | Answer::Waits(_) => whole(Reply::unavailable()),
        Answer::Watch(watch) => {
            let stream = Box::new(Stream::new(watch, server.clone()));
            response(StatusCode::OK, "application/json", Kind::Watch(stream))
        }
    };
    // It consists of letters and digits, so it is a header.
    if let Ok(date) = HeaderValue::from_str(&httpdate::fmt_http_date(server.now())) {
        response.headers_mut().insert(DATE, date);
    }
    response
}

fn whole(Reply { code, content_type, body }: Reply) -> Response<ResponseBody> {
    let failure = (code >= 400).then(|| serde_json::from_slice::<Value>(&body).unwrap_or_default());
    let retry_after = failure.and_then(|status| status["details"]["retryAfterSeconds"].as_u64());
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = response(code, content_type, Kind::Whole(Some(body)));
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn response(code: StatusCode, content_type: &'static str, kind: Kind) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody(kind));
    *response.status_mut() = code;
    let headers: [(HeaderName, &'static str); 2] =
        [(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-cache, private")];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The body of a watch.
#[derive(Debug)]
struct Stream {
    watch: Watch,
    server: ApiServer,
    number: u64,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Stream {
    fn new(watch: Watch, server: ApiServer) -> Self {
        let number = server.shared.wakers.register(&watch.resource);
        Self { watch, server, number, sleep: None }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, ConnectionBroke>>> {
        loop {
            self.server.shared.wakers.wait(&self.watch.resource, self.number, context.waker());
            let now = self.server.now();
            let watch = &mut self.watch;
            let until = match self.server.with(|server| watch.pull(server, now)) {
                Pull::Lines(lines) => return Poll::Ready(Some(Ok(lines))),
                Pull::End => return Poll::Ready(None),
                Pull::Cut => return Poll::Ready(Some(Err(ConnectionBroke))),
                Pull::Pending(until) => self.server.instant(until),
            };
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(until)));
            if sleep.deadline() != until {
                sleep.as_mut().reset(until);
            }
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.server.shared.wakers.remove(&self.watch.resource, self.number);
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = ConnectionBroke;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionBroke>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Watch(stream) => stream.poll(context).map(|next| next.map(|lines| lines.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(Some(bytes)) => SizeHint::with_exact(bytes.len().try_into().unwrap_or(u64::MAX)),
            Kind::Whole(None) => SizeHint::with_exact(0),
            Kind::Watch(_) => SizeHint::new(),
        }
    }
}

/// The tasks that wait for the watches of each type. They are woken in the order in which the
/// watches began, so that runs are reproducible.
#[derive(Debug, Default)]
pub(super) struct Wakers(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    count: u64,
    types: BTreeMap<ResourceName, BTreeMap<u64, Option<Waker>>>,
}

impl Wakers {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a new watch.
    pub(super) fn register(&self, resource: &ResourceName) -> u64 {
        let mut waiting = self.lock();
        waiting.count += 1;
        let number = waiting.count;
        waiting.types.entry(resource.clone()).or_default().insert(number, None);
        number
    }

    /// Registers a waiting watch. Call it *before* checking for changes, so that none is missed.
    pub(super) fn wait(&self, resource: &ResourceName, number: u64, waker: &Waker) {
        let mut waiting = self.lock();
        let Some(slot) = waiting.types.get_mut(resource).and_then(|watches| watches.get_mut(&number)) else {
            return;
        };
        match slot {
            Some(known) if known.will_wake(waker) => {}
            slot => *slot = Some(waker.clone()),
        }
    }

    /// Removes a watch.
    pub(super) fn remove(&self, resource: &ResourceName, number: u64) {
        let mut waiting = self.lock();
        if let Some(watches) = waiting.types.get_mut(resource) {
            watches.remove(&number);
            if watches.is_empty() {
                waiting.types.remove(resource);
            }
        }
    }

    /// Wakes the tasks of the types that changed.
    pub(super) fn wake(&self, touched: &Touched) {
        if !touched.all && touched.resources.is_empty() {
            return;
        }
        let wakers: Vec<Waker> = {
            let waiting = self.lock();
            let types = waiting.types.iter();
            let types = types.filter(|(resource, _)| touched.all || touched.resources.contains(*resource));
            types.flat_map(|(_, watches)| watches.values().flatten().cloned()).collect()
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// The number of watches of each type.
    pub(super) fn all(&self) -> BTreeMap<ResourceName, usize> {
        self.lock().types.iter().map(|(resource, watches)| (resource.clone(), watches.len())).collect()
    }

    /// The number of watches of a type.
    pub(super) fn watches(&self, resource: &ResourceName) -> usize {
        self.lock().types.get(resource).map_or(0, BTreeMap::len)
    }
}
