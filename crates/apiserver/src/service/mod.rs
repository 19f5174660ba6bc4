//! The handle: a tower service over the server, its clock, and streams of watches.

mod body;
mod control;
mod request;
#[cfg(test)]
mod tests;
mod wakers;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

pub use self::body::{ConnectionBroke, ResponseBody};

use self::body::respond;
use self::wakers::Wakers;
use super::answer::Answer;
use super::call::Call;
use super::reply::Reply;
use super::resources::ServiceName;
use super::settings::Settings;
use super::state::Server;
use super::status::Status;

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
    wakers: Wakers,
    /// Notified when the time of the next scheduled work changes.
    rescheduled: Notify,
    /// The backends of services that APIServices name.
    backends: Mutex<BTreeMap<ServiceName, ApiServer>>,
}

impl ApiServer {
    /// Starts an empty server.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let epoch = settings.epoch;
        let server = Mutex::new(Server::new(settings));
        let shared = Shared {
            server,
            started: Instant::now(),
            epoch,
            wakers: Wakers::default(),
            rescheduled: Notify::new(),
            backends: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The time of the server's clock.
    #[must_use]
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
        self.shared.wakers.wake(&touched);
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
    #[must_use]
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    async fn answer<B>(self, request: http::Request<B>) -> http::Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes>,
    {
        match request::read(request).await {
            Ok(call) => self.answer_call(&call).await,
            Err(why) => respond(Answer::Whole(Status::new(400, "BadRequest", why).into()), &self),
        }
    }

    async fn answer_call(self, call: &Call) -> http::Response<ResponseBody> {
        // Only this layer knows the open watches.
        if call.path == "/metrics" {
            let watches = self.shared.wakers.all();
            let page = self.with(|server| server.counts.page(&watches));
            return respond(Answer::Whole(Reply::text(200, page)), &self);
        }
        let mut server = self;
        loop {
            let answer = server.admitted(call).await;
            let backend = match &answer {
                Answer::Elsewhere(service) => server.backends().get(service).cloned(),
                Answer::Whole(_) | Answer::Watch(_) | Answer::Waits(_) => None,
            };
            match backend {
                Some(backend) => server = backend,
                None => return respond(answer, &server),
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

    fn backends(&self) -> MutexGuard<'_, BTreeMap<ServiceName, Self>> {
        self.shared.backends.lock().unwrap_or_else(PoisonError::into_inner)
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
