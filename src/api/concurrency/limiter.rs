//! The request slots of one server, handed out in the order in which they were asked for.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::aimd::{Adjustment, Aimd, CEILING, Epoch, Signal};
use crate::telemetry::{ApiSide, record};

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
