//! The handle: a tower service over the server, its clock, and controls for tests.

mod response;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, USER_AGENT};
use http_body_util::BodyExt as _;
use percent_encoding::percent_decode_str;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::call::Call;
use crate::controllers::look_soon;
use crate::guards::Admission;
use crate::resources::{Backend, ResourceName, ServiceName, api_services};
use crate::server::{Answer, Reply, Server, Settings};
use crate::status::Status;
use crate::store::{Ending, Snapshot};

use response::{OpenWatches, ResponseBody, respond};

/// A running server. Clones share it.
#[derive(Clone, Debug)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: Mutex<Server>,
    started: Instant,
    epoch: SystemTime,
    open: OpenWatches,
    /// Notified when the time of the next scheduled work changes.
    rescheduled: Notify,
}

impl ApiServer {
    /// Starts an empty server.
    pub fn new(settings: Settings) -> Self {
        let epoch = settings.epoch;
        let server = Mutex::new(Server::new(settings));
        let shared = Shared {
            server,
            started: Instant::now(),
            epoch,
            open: OpenWatches::default(),
            rescheduled: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The time of the server's clock.
    pub fn now(&self) -> SystemTime {
        self.shared.epoch + self.shared.started.elapsed()
    }

    fn instant(&self, time: SystemTime) -> Instant {
        self.shared.started + time.duration_since(self.shared.epoch).unwrap_or_default()
    }

    /// Reads or changes the state directly, without a request. Watches are notified.
    pub fn with<T>(&self, look: impl FnOnce(&mut Server) -> T) -> T {
        let (result, touched, rescheduled) = {
            let mut server = self.shared.server.lock().unwrap_or_else(PoisonError::into_inner);
            let due = server.next_due();
            let result = look(&mut server);
            (result, server.store.take_touched(), server.next_due() != due)
        };
        self.shared.open.wake(&touched);
        if rescheduled {
            // Notifies all runners, because any of them may end before it has done the work.
            self.shared.rescheduled.notify_waiters();
        }
        result
    }

    /// Does the scheduled work when it is due, as long as it is polled.
    pub async fn run(&self) {
        loop {
            // Subscribed before the schedule is read, so that no change is missed.
            let rescheduled = self.shared.rescheduled.notified();
            let due = self.with(|server| server.next_due());
            let Some(due) = due else {
                rescheduled.await;
                continue;
            };
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.instant(due)) => {
                    let now = self.now();
                    self.with(|server| server.tick(now));
                }
                () = rescheduled => {}
            }
        }
    }

    /// A client of the server. Its requests stay within the process, and their time is that of
    /// tokio's clock. Call it within a runtime.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    async fn answer<B>(self, request: http::Request<B>) -> http::Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes>,
    {
        match read(request).await {
            Ok(call) => self.answer_call(&call).await,
            Err(why) => respond(Answer::Whole(Status::new(400, "BadRequest", why).into()), &self),
        }
    }

    async fn answer_call(self, call: &Call) -> http::Response<ResponseBody> {
        // Only this layer knows the open watches.
        if call.path == "/metrics" {
            let watches = self.shared.open.count();
            let page = self.with(|server| server.counts.page(&watches));
            return respond(Answer::Whole(Reply::text(200, page)), &self);
        }
        let mut server = self;
        loop {
            match server.admitted(call).await {
                Answer::Elsewhere(backend) => server = backend,
                answer => return respond(answer, &server),
            }
        }
    }

    /// The answer to a request, after admission.
    async fn admitted(&self, call: &Call) -> Answer {
        let now = self.now();
        let mut answer = self.with(|server| server.handle(call, now));
        while let Answer::Waits(waiting) = answer {
            let begun = waiting.answered().await;
            let now = self.now();
            answer = self.with(|server| server.resume(call, begun, now));
        }
        answer
    }
}

impl<B> tower::Service<http::Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
{
    type Response = http::Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.answer(request).await) })
    }
}

impl ApiServer {
    /// Breaks the connections of the open watches of a type, or of all.
    pub fn cut_watches(&self, resource: Option<&ResourceName>) {
        self.with(|server| server.store.end_watches(resource, Ending::Cut));
    }

    /// Takes a backup of all objects.
    pub fn snapshot(&self) -> Snapshot {
        self.with(|server| server.store.snapshot())
    }

    /// Restores a backup: see [`Store::restore`](crate::store::Store::restore).
    pub fn restore(&self, snapshot: &Snapshot, raised_by: Option<u64>) {
        let now = self.now();
        self.with(|server| {
            server.store.restore(snapshot, raised_by);
            server.resync(now);
        });
    }

    /// Makes another server the backend of a service. It serves the groups and versions that
    /// APIServices send there, with its own objects and versions.
    ///
    /// Aggregated discovery shows the types that the backend has now. Terminating namespaces are
    /// not emptied there.
    pub fn connect(&self, service: &ServiceName, backend: &Self) {
        let catalog = backend.with(|server| server.catalog.clone());
        let now = self.now();
        self.with(|server| {
            server.backends.insert(service.clone(), Backend { server: backend.clone(), catalog });
            api_services::reconcile(server, now);
            look_soon(server, now);
        });
    }

    /// Removes the backend of a service. Its watches break.
    pub fn disconnect(&self, service: &ServiceName) {
        let now = self.now();
        let backend = self.with(|server| {
            let backend = server.backends.remove(service);
            api_services::reconcile(server, now);
            look_soon(server, now);
            backend
        });
        if let Some(backend) = backend {
            backend.server.cut_watches(None);
        }
    }
}

/// The guards: see [`guards`](crate::guards).
impl ApiServer {
    /// Sets or clears the admission function.
    pub fn admit_by(&self, admission: Option<Admission>) {
        self.with(|server| server.guards.admission = admission);
    }

    /// Limits this bearer token to the stored roles of a user. A service account is the user
    /// `system:serviceaccount:NAMESPACE:NAME`.
    pub fn restrict(&self, token: &str, user: &str) {
        self.with(|server| server.guards.users.insert(token.into(), user.into()));
    }
}

async fn read<B>(request: http::Request<B>) -> Result<Call, &'static str>
where
    B: http_body::Body<Data = Bytes>,
{
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| "the body of the request could not be read")?.to_bytes();
    let content_type = header(&parts.headers, &CONTENT_TYPE);
    let query = parts.uri.query().unwrap_or_default();
    let media = content_type.split(';').next().unwrap_or_default();
    Ok(Call {
        path: percent_decode_str(parts.uri.path()).decode_utf8_lossy().into_owned(),
        query: form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        accept: header(&parts.headers, &ACCEPT),
        content_type: media.trim().to_owned(),
        user_agent: header(&parts.headers, &USER_AGENT),
        token: token(&parts.headers),
        method: parts.method,
        body,
    })
}

fn token(headers: &HeaderMap) -> String {
    let credentials = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match credentials.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim().to_owned(),
        _ => String::new(),
    }
}

/// The values of a header that may be repeated, joined.
fn header(headers: &HeaderMap, name: &HeaderName) -> String {
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    values.join(", ")
}
