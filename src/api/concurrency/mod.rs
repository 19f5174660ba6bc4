//! How many requests about single objects are in flight at a time.
//!
//! A server that answers 429 has too much to do. If all workers went on as before, each of
//! them would receive a 429 for its own object. So a 429 lowers a limit that all workers
//! share: see [`Aimd`]. While the server accepts everything, the limit
//! soon exceeds the number of workers, and a slot costs two short critical sections.
//!
//! # What `Retry-After` means
//!
//! Only the object whose request was rejected waits for that long. The API server always
//! says 1 s, newer ones up to 32 s, and a proxy perhaps minutes. All of them mean "do not
//! retry this request sooner", and none knows how many other requests there are. The
//! server's capacity is learned from what it rejects instead: the limit is halved, and when
//! a single request at a time is rejected, the next one waits from 50 ms to 1 s, doubled
//! while others queue. So a server with no capacity left gets one request per second from
//! all workers together, and no single `Retry-After` of 30 s stops everything.
//!
//! # What does not count
//!
//! A 429 that an admission webhook or a disruption budget has chosen is about one object.
//! Events have their own limit, because an admission plugin may limit them alone. So has
//! every aggregated API: it is another server, and its trouble must delay nothing else.
//! Slow answers and failures do not lower the limit: they have other causes, and holding
//! requests back would add to the delay.

mod aimd;

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use aimd::{Adjustment, Aimd, CEILING, Epoch};
use governor::Quota;
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use crate::telemetry::{ApiSide, record};
pub(super) use aimd::Signal;
use kube_gc_core::object::GroupResource;

/// The limits of all servers behind one address.
#[derive(Debug)]
pub(super) struct ConcurrencyLimits {
    kubernetes: Arc<Limiter>,
    events: Arc<Limiter>,
    /// By API group.
    aggregated: RwLock<HashMap<Box<str>, Arc<Limiter>>>,
}

impl Default for ConcurrencyLimits {
    fn default() -> Self {
        Self {
            kubernetes: Limiter::new(ApiSide::Kubernetes),
            events: Limiter::new(ApiSide::Events),
            aggregated: RwLock::default(),
        }
    }
}

impl ConcurrencyLimits {
    /// Waits for a slot for a request about an object of this type.
    pub async fn slot(&self, resource: &GroupResource) -> Slot {
        let limiter = self.limiter(resource);
        limiter.slot().await
    }

    /// Whether a request about an object of this type may use this slot.
    pub fn is_for(&self, slot: &Slot, resource: &GroupResource) -> bool {
        slot.is_of(&self.limiter(resource))
    }

    /// Sets the groups that other servers serve. The limits of groups that stay are kept.
    pub fn set_aggregated<'a>(&self, groups: impl Iterator<Item = &'a str>) {
        // The map is consistent after every statement, so a poisoned lock is harmless.
        let mut aggregated = self.aggregated.write().unwrap_or_else(PoisonError::into_inner);
        let mut known = std::mem::take(&mut *aggregated);
        for group in groups {
            if !aggregated.contains_key(group) {
                let limiter = known.remove(group).unwrap_or_else(|| Limiter::new(ApiSide::Aggregated));
                aggregated.insert(group.into(), limiter);
            }
        }
    }

    /// Whether another server serves this type.
    pub fn is_aggregated(&self, resource: &GroupResource) -> bool {
        let aggregated = self.aggregated.read().unwrap_or_else(PoisonError::into_inner);
        aggregated.contains_key(&resource.group)
    }

    fn limiter(&self, resource: &GroupResource) -> Arc<Limiter> {
        if *resource.group == *"" && *resource.resource == *"events" {
            return Arc::clone(&self.events);
        }
        let aggregated = self.aggregated.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(aggregated.get(&*resource.group).unwrap_or(&self.kubernetes))
    }
}

/// An AIMD limit and the queue of requests that wait for a slot.
#[derive(Debug)]
pub struct Limiter {
    side: ApiSide,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    aimd: Aimd,
    /// Some may have stopped waiting. Whoever releases a slot hands it to the next one.
    queue: VecDeque<oneshot::Sender<Slot>>,
    /// Nothing is sent before this.
    not_before: Option<Instant>,
}

/// A request's slot. Dropping it releases the slot.
#[derive(Debug)]
pub struct Slot {
    limiter: Arc<Limiter>,
    epoch: Epoch,
    is_taken: bool,
}

impl Limiter {
    pub fn new(side: ApiSide) -> Arc<Self> {
        let aimd = Aimd::new(CEILING);
        if side == ApiSide::Kubernetes {
            record::api_concurrency(aimd.limit());
        }
        let state = State { aimd, queue: VecDeque::new(), not_before: None };
        Arc::new(Self { side, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic halfway through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot, first come, first served. A caller that stops waiting takes no slot
    /// away from others.
    pub async fn slot(self: &Arc<Self>) -> Slot {
        loop {
            let mut slot = match self.take_or_queue() {
                Ok(slot) => slot,
                // The queue lives as long as the limiter, and hands a slot to everyone in it
                // who still waits.
                Err(handed) => match handed.await {
                    Ok(slot) => slot,
                    Err(_) => continue,
                },
            };
            slot.wait_for_pause().await;
            return slot;
        }
    }

    fn take_or_queue(self: &Arc<Self>) -> Result<Slot, oneshot::Receiver<Slot>> {
        let mut state = self.state();
        // While others queue, free slots are theirs.
        if state.aimd.has_room() && state.queue.is_empty() {
            let epoch = state.aimd.acquire();
            return Ok(Slot { limiter: Arc::clone(self), epoch, is_taken: true });
        }
        let (hand, handed) = oneshot::channel();
        state.queue.push_back(hand);
        Err(handed)
    }

    /// Hands free slots to the requests that wait.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let (next, epoch) = {
                let mut state = self.state();
                if !state.aimd.has_room() {
                    return;
                }
                let Some(next) = state.queue.pop_front() else { return };
                (next, state.aimd.acquire())
            };
            // After the lock is released: sending wakes the receiver, and a slot whose
            // receiver has just gone away takes the lock again.
            let slot = Slot { limiter: Arc::clone(self), epoch, is_taken: true };
            if let Err(mut unwanted) = next.send(slot) {
                unwanted.is_taken = false;
                self.state().aimd.release();
            }
        }
    }

    fn record(self: &Arc<Self>, epoch: Epoch, signal: Signal) {
        let (adjustment, limit) = {
            let mut state = self.state();
            let has_waiters = !state.queue.is_empty();
            let adjustment = state.aimd.record(epoch, signal, has_waiters);
            if let Adjustment::Paused(pause) = adjustment {
                state.not_before = Some(Instant::now() + pause);
            }
            (adjustment, state.aimd.limit())
        };
        match adjustment {
            Adjustment::Unchanged => return,
            Adjustment::Increased => self.hand_out(),
            Adjustment::Decreased | Adjustment::Paused(_) => {
                record::api_concurrency_cut(self.side);
                tracing::debug!(
                    server = self.side.name(),
                    limit,
                    ?adjustment,
                    "the API server rejects requests with 429; fewer are sent concurrently"
                );
            }
        }
        if self.side == ApiSide::Kubernetes {
            record::api_concurrency(limit);
        }
    }

    #[cfg(test)]
    pub fn limit(&self) -> usize {
        self.state().aimd.limit()
    }

    #[cfg(test)]
    pub fn queued(&self) -> usize {
        self.state().queue.len()
    }
}

impl Slot {
    /// Waits until a pause is over. The slot stays taken during the wait, so later requests queue
    /// behind it. The request counts as begun only after the pause.
    async fn wait_for_pause(&mut self) {
        loop {
            let not_before = {
                let mut state = self.limiter.state();
                match state.not_before.filter(|not_before| *not_before > Instant::now()) {
                    Some(not_before) => not_before,
                    None => {
                        state.not_before = None;
                        self.epoch = state.aimd.current_epoch();
                        return;
                    }
                }
            };
            sleep_until(not_before).await;
        }
    }

    /// Runs a request, and releases the slot when the request takes longer than `patience`.
    /// The request goes on. With a low limit, a few requests that hang would otherwise block
    /// everything until they time out.
    pub async fn keep<T>(
        &mut self,
        request: impl Future<Output = T>,
        patience: Duration,
        hangs: impl FnOnce(),
    ) -> T {
        let release = || {
            self.release();
            hangs();
        };
        when_it_hangs(request, patience, release).await
    }

    /// Records how the request ended, and releases the slot.
    pub fn end(self, signal: Signal) {
        self.limiter.record(self.epoch, signal);
    }

    /// Records how one request ended, and keeps the slot for the next one.
    pub fn record(&mut self, signal: Signal) {
        self.limiter.record(self.epoch, signal);
        self.epoch = self.limiter.state().aimd.current_epoch();
    }

    /// Whether the slot belongs to this limiter.
    pub fn is_of(&self, limiter: &Arc<Limiter>) -> bool {
        Arc::ptr_eq(&self.limiter, limiter)
    }

    fn release(&mut self) {
        if std::mem::take(&mut self.is_taken) {
            self.limiter.state().aimd.release();
            self.limiter.hand_out();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.release();
    }
}

/// Runs a request, and calls `hangs` once when it takes longer than `patience`.
pub async fn when_it_hangs<T>(
    request: impl Future<Output = T>,
    patience: Duration,
    hangs: impl FnOnce(),
) -> T {
    let mut request = pin!(request);
    match timeout(patience, &mut request).await {
        Ok(end) => end,
        Err(_) => {
            hangs();
            request.await
        }
    }
}

/// A slot that a request takes out while it uses it. Clones share the slot.
#[derive(Clone, Debug, Default)]
pub struct SharedSlot(Arc<Mutex<Option<Slot>>>);

impl SharedSlot {
    pub fn new(slot: Option<Slot>) -> Self {
        Self(Arc::new(Mutex::new(slot)))
    }

    fn state(&self) -> MutexGuard<'_, Option<Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the slot out, unless another request uses it or it does not fit.
    pub fn take(&self, fits: impl FnOnce(&Slot) -> bool) -> Option<Slot> {
        let mut state = self.state();
        if state.as_ref().is_some_and(fits) { state.take() } else { None }
    }

    /// Records how the request that used the slot ended, and puts the slot back.
    pub fn put_back(&self, mut slot: Slot, signal: Signal) {
        slot.record(signal);
        *self.state() = Some(slot);
    }
}

/// A token bucket. Without a limit, it costs nothing.
#[derive(Debug)]
pub struct RateLimiter(
    Option<governor::RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<Duration>>>,
);

impl RateLimiter {
    /// Limits requests per second to `qps`, where 0 means no limit, with bursts of `burst`
    /// requests, where 0 means `qps`.
    pub fn new(qps: u32, burst: u32) -> Self {
        let Some(qps) = NonZeroU32::new(qps) else { return Self(None) };
        let quota = Quota::per_second(qps).allow_burst(NonZeroU32::new(burst).unwrap_or(qps));
        Self(Some(governor::RateLimiter::direct_with_clock(quota, TokioClock(Instant::now()))))
    }

    /// Waits for a token.
    pub async fn acquire(&self) {
        let Some(limiter) = &self.0 else { return };
        while let Err(not_until) = limiter.check() {
            tokio::time::sleep(not_until.wait_time_from(limiter.clock().now())).await;
        }
    }
}

/// tokio's clock, which tests and simulations can pause.
#[derive(Clone, Debug)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests;
