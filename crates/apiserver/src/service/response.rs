//! Answers as HTTP responses, complete or streamed, and what wakes the streams when a type changes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, DATE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::sleep_until;

use crate::reads::{Pull, Watch};
use crate::resources::ResourceName;
use crate::server::{Answer, Reply};
use crate::service::ApiServer;
use crate::store::Touched;

/// The body of a response. The connection of a watch that was cut is reset.
pub type ResponseBody = UnsyncBoxBody<Bytes, io::Error>;

pub(super) fn respond(answer: Answer, server: &ApiServer) -> Response<ResponseBody> {
    let mut response = match answer {
        Answer::Whole(reply) => whole(reply),
        // The caller has asked the backend, and has waited.
        Answer::Elsewhere(_) | Answer::Waits(_) => whole(Reply::unavailable()),
        Answer::Watch(watch) => {
            let changes = server.shared.open.register(&watch.resource);
            let lines = Lines { watch, server: server.clone(), changes };
            let frames = stream::unfold(lines, async |mut lines| {
                let next = lines.next().await?;
                Some((next.map(Frame::data), lines))
            });
            response(StatusCode::OK, "application/json", StreamBody::new(frames).boxed_unsync())
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
    let body = Full::new(body).map_err(|never: Infallible| match never {});
    let mut response = response(code, content_type, body.boxed_unsync());
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn response(code: StatusCode, content_type: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    for (name, value) in [(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-cache, private")] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A watch that is being read.
struct Lines {
    watch: Watch,
    server: ApiServer,
    changes: Arc<Notify>,
}

impl Lines {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            // Subscribed before the state is read, so that no change is missed.
            let changed = self.changes.notified();
            let (watch, now) = (&mut self.watch, self.server.now());
            let until = match self.server.with(|server| watch.pull(server, now)) {
                Pull::Lines(lines) => return Some(Ok(lines)),
                Pull::End => return None,
                Pull::Cut => return Some(Err(io::ErrorKind::ConnectionReset.into())),
                Pull::Pending(until) => self.server.instant(until),
            };
            tokio::select! {
                biased;
                () = changed => {}
                () = sleep_until(until) => {}
            }
        }
    }
}

/// What wakes the open watches of each type, which own it. It wakes them in the order in which they
/// began to wait, so that runs are reproducible.
#[derive(Debug, Default)]
pub(super) struct OpenWatches(Mutex<BTreeMap<ResourceName, Weak<Notify>>>);

impl OpenWatches {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ResourceName, Weak<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a watch.
    fn register(&self, resource: &ResourceName) -> Arc<Notify> {
        let mut types = self.lock();
        let open = types.entry(resource.clone()).or_default();
        open.upgrade().unwrap_or_else(|| {
            let changes = Arc::new(Notify::new());
            *open = Arc::downgrade(&changes);
            changes
        })
    }

    /// Wakes the watches of the types that changed.
    pub(super) fn wake(&self, touched: &Touched) {
        if !touched.all && touched.resources.is_empty() {
            return;
        }
        let is_touched = |resource: &ResourceName| touched.all || touched.resources.contains(resource);
        for (_, changes) in self.lock().iter().filter(|(resource, _)| is_touched(resource)) {
            changes.upgrade().iter().for_each(|changes| changes.notify_waiters());
        }
    }

    /// The number of watches of each type.
    pub(super) fn count(&self) -> BTreeMap<ResourceName, usize> {
        let types = self.lock();
        let counts = types.iter().map(|(resource, open)| (resource.clone(), open.strong_count()));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}
