//! What holds requests back: the configured rate, servers that are overloaded, and requests that hang.
//! The rules and figures are in [`machine`], as plain data. Here are the clock and the waiting.
//!
//! # 429
//!
//! A server that answers 429 has too much to do. If all workers went on as before, each would receive a
//! 429 for its own object. So a 429 lowers a limit that they share: [`machine::Window`]. Only the object
//! whose request was rejected waits for the `Retry-After`. The API server always says 1 s, newer ones up
//! to 32 s, and a proxy perhaps minutes: all of them mean "do not retry this request sooner", and none
//! knows how many other requests there are.
//!
//! A 429 that an admission webhook or a disruption budget has chosen is about one object. Events have
//! their own limit, because an admission plugin may limit them alone. So has every aggregated API: it is
//! another server, and its trouble must delay nothing else.
//!
//! # Requests that hang
//!
//! A request that is not answered within its patience hangs. It goes on, but it gives up its slot, and
//! another worker takes the place of its worker ([`HangHook`]). While requests of a *compartment* hang,
//! further ones fail with [`Deferred`](ErrorClass::Deferred), which does not count as an attempt:
//! [`machine::Compartments`].

pub(super) mod machine;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until};

use super::call::Call;
use super::error::{ApiError, ErrorClass};
use kube_gc_core::object::GroupResource;
use kube_gc_observe::telemetry::{ApiSide, record};
use machine::{Admitted, Compartment, Compartments, Outcome, Refusal, Window};

/// The limits of all requests to one address.
#[derive(Debug)]
pub(super) struct Limits {
    kubernetes: Arc<Server>,
    events: Arc<Server>,
    aggregated: RwLock<HashMap<Box<str>, Arc<Server>>>,
    compartments: Mutex<Compartments>,
}

/// The state behind a lock. No change can panic halfway.
fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Limits {
    pub fn new() -> Self {
        Self {
            kubernetes: Server::new(ApiSide::Kubernetes),
            events: Server::new(ApiSide::Events),
            aggregated: RwLock::default(),
            compartments: Mutex::default(),
        }
    }

    /// Sets the groups that other servers serve. The limits of groups that stay are kept.
    pub fn set_aggregated<'a>(&self, groups: impl Iterator<Item = &'a str>) {
        let mut aggregated = self.aggregated.write().unwrap_or_else(PoisonError::into_inner);
        let mut known = std::mem::take(&mut *aggregated);
        for group in groups {
            let server = || known.remove(group).unwrap_or_else(|| Server::new(ApiSide::Aggregated));
            aggregated.entry(group.into()).or_insert_with(server);
        }
    }

    /// Whether another server serves this type.
    pub fn is_aggregated(&self, resource: &GroupResource) -> bool {
        self.aggregated.read().unwrap_or_else(PoisonError::into_inner).contains_key(&resource.group)
    }

    fn server(&self, resource: &GroupResource) -> Arc<Server> {
        if *resource.group == *"" && *resource.resource == *"events" {
            return Arc::clone(&self.events);
        }
        let aggregated = self.aggregated.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(aggregated.get(&*resource.group).unwrap_or(&self.kubernetes))
    }

    /// Waits for a slot for requests about objects of this type, first come, first served.
    pub async fn slot(&self, resource: &GroupResource) -> Slot {
        let server = self.server(resource);
        server.slot().await
    }

    /// Fails if requests that hang hold this one back.
    pub fn check(&self, call: &Call<'_>) -> Result<(), ApiError> {
        let checked =
            locked(&self.compartments).check(&Compartment::of(call), call.object_name(), Instant::now());
        checked.map(drop).map_err(|refusal| deferred(call, refusal))
    }

    /// Admits a request about an object, right before it is sent.
    pub fn admit(&self, call: &Call<'_>) -> Result<Ticket<'_>, ApiError> {
        let admitted =
            locked(&self.compartments).admit(Compartment::of(call), call.object_name(), Instant::now());
        let admitted = admitted.map_err(|refusal| deferred(call, refusal))?;
        let server = self.server(call.resource);
        let epoch = locked(&server.state).window.epoch();
        Ok(Ticket { limits: self, server, epoch, request: Some(admitted) })
    }

    /// Forgets all failures: they had another cause.
    pub fn resume(&self) {
        self.change_compartments(Compartments::resume);
    }

    fn change_compartments(&self, change: impl FnOnce(&mut Compartments)) {
        let mut compartments = locked(&self.compartments);
        let before = compartments.troubled();
        change(&mut compartments);
        let troubled = compartments.troubled();
        if troubled != before {
            record::hanging_compartments(troubled);
        }
    }
}

fn deferred(call: &Call<'_>, Refusal { retry_after, why }: Refusal) -> ApiError {
    record::request_deferred("hanging");
    call.error(ErrorClass::Deferred { retry_after, unborn: false }, format!("not sent: {why}"), None)
}

/// A request that was admitted. Dropping it means that nobody waits for it any more.
#[derive(Debug)]
pub(super) struct Ticket<'a> {
    limits: &'a Limits,
    server: Arc<Server>,
    /// The epoch of the server's window in which the request is sent.
    epoch: u64,
    request: Option<Admitted>,
}

impl Ticket<'_> {
    /// How long the request may take before it hangs.
    pub fn patience(&self) -> Duration {
        self.request.as_ref().map_or(Duration::ZERO, |request| request.patience)
    }

    /// The request hangs: calls the hooks of its task.
    pub fn hangs(&mut self) {
        if let Some(request) = &mut self.request {
            self.limits.change_compartments(|compartments| compartments.hangs(request, Instant::now()));
        }
        HangHook::call();
    }

    /// Notes the end of the request.
    pub fn end(mut self, outcome: Outcome<'_>) {
        self.server.record(self.epoch, outcome);
        self.leave(outcome);
    }

    fn leave(&mut self, outcome: Outcome<'_>) {
        if let Some(request) = self.request.take() {
            self.limits
                .change_compartments(|compartments| compartments.end(&request, outcome, Instant::now()));
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.leave(Outcome::NotSent);
    }
}

/// How many requests about objects are in flight to one server.
#[derive(Debug)]
struct Server {
    side: ApiSide,
    slots: Arc<Semaphore>,
    state: Mutex<ServerState>,
}

#[derive(Debug)]
struct ServerState {
    window: Window,
    /// How many slots must not be used again when they come back: the limit was cut.
    owed: usize,
}

impl Server {
    fn new(side: ApiSide) -> Arc<Self> {
        let window = Window::new();
        if side == ApiSide::Kubernetes {
            record::api_concurrency(window.limit());
        }
        let slots = Arc::new(Semaphore::new(window.limit()));
        Arc::new(Self { side, slots, state: Mutex::new(ServerState { window, owed: 0 }) })
    }

    /// Waits for a slot. It stays taken during a pause, so later requests queue behind it.
    async fn slot(self: &Arc<Self>) -> Slot {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.slots).acquire_owned().await.ok();
        let slot = Slot { server: Arc::clone(self), permit: Mutex::new(permit) };
        while let Some(resumes) = self.paused_until() {
            sleep_until(resumes).await;
        }
        slot
    }

    fn paused_until(&self) -> Option<Instant> {
        locked(&self.state).window.paused_until(Instant::now())
    }

    /// Adjusts the limit to the end of a request.
    fn record(&self, epoch: u64, outcome: Outcome<'_>) {
        let (before, limit, is_rejection) = {
            let ServerState { window, owed } = &mut *locked(&self.state);
            let before = window.limit();
            let load = (before + *owed).saturating_sub(self.slots.available_permits());
            let is_rejection = window.record(epoch, outcome, load, Instant::now());
            let limit = window.limit();
            if limit > before {
                let more = limit - before;
                let kept = more.min(*owed);
                *owed -= kept;
                self.slots.add_permits(more - kept);
            } else {
                let fewer = before - limit;
                *owed += fewer - self.slots.forget_permits(fewer);
            }
            (before, limit, is_rejection)
        };
        if is_rejection {
            record::api_concurrency_cut(self.side);
            tracing::debug!(
                server = self.side.name(),
                limit,
                "the API server rejects requests with 429; fewer are sent concurrently"
            );
        }
        if limit != before && self.side == ApiSide::Kubernetes {
            record::api_concurrency(limit);
        }
    }
}

/// A slot for requests to one server. Dropping it releases it.
#[derive(Debug)]
pub(super) struct Slot {
    server: Arc<Server>,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Slot {
    /// Gives the slot back. Requests that have it go on, and later ones in it go without: with a low
    /// limit, a few requests that hang would otherwise block everything until they time out.
    pub fn release(&self) {
        let Some(permit) = locked(&self.permit).take() else { return };
        let mut state = locked(&self.server.state);
        if state.owed > 0 {
            state.owed -= 1;
            permit.forget();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.release();
    }
}

type Hook = Arc<dyn Fn() + Send + Sync>;

tokio::task_local! {
    static HOOK: Hook;
}

/// A function that is called when a request hangs. It is set for the duration of a future.
#[derive(Debug)]
pub struct HangHook;

impl HangHook {
    /// Runs a future, and calls `hook` whenever one of its requests hangs. The hooks of outer
    /// scopes are called, too.
    pub fn scope<F: Future>(
        hook: impl Fn() + Send + Sync + 'static,
        work: F,
    ) -> impl Future<Output = F::Output> {
        let outer = HOOK.try_with(Arc::clone).ok();
        let both = move || {
            hook();
            outer.iter().for_each(|outer| outer());
        };
        HOOK.scope(Arc::new(both), work)
    }

    /// Calls the hooks of the current task.
    fn call() {
        // Outside of a scope there is no hook.
        let _ = HOOK.try_with(|hook| hook());
    }
}

/// A token bucket. Without a limit, it costs nothing.
#[derive(Debug)]
pub struct RateLimiter(Option<Bucket>);

#[derive(Debug)]
struct Bucket {
    /// The time in which a token comes.
    interval: Duration,
    /// The time in which all tokens of an empty bucket come, except for one.
    tolerance: Duration,
    /// When the bucket is full, by tokio's clock, which tests and simulations can pause.
    full: tokio::sync::Mutex<Instant>,
}

impl RateLimiter {
    /// Limits requests per second to `qps`, where 0 means no limit, with bursts of `burst`
    /// requests, where 0 means `qps`.
    pub fn new(qps: u32, burst: u32) -> Self {
        if qps == 0 {
            return Self(None);
        }
        let interval = Duration::from_secs(1) / qps;
        let tolerance = interval * (if burst == 0 { qps } else { burst } - 1);
        Self(Some(Bucket { interval, tolerance, full: Instant::now().into() }))
    }

    /// Waits for a token. Tokens go to those that wait in the order in which they came.
    pub async fn acquire(&self) {
        let Some(Bucket { interval, tolerance, full }) = &self.0 else { return };
        let mut full = full.lock().await;
        let wait = full.saturating_duration_since(Instant::now()).saturating_sub(*tolerance);
        // No time is also a millisecond to the timer.
        if !wait.is_zero() {
            sleep(wait).await;
        }
        *full = (*full).max(Instant::now()) + *interval;
    }
}

#[cfg(test)]
mod tests;
