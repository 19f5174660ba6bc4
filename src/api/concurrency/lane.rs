//! The places of one server's window, in the order in which they were asked for.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::window::{CEILING, Change, Signal, Ticket, Window};
use crate::telemetry::{ApiSide, record};

/// A window and who waits for a place in it.
#[derive(Debug)]
pub struct Lane {
    side: ApiSide,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    window: Window,
    /// Some may have gone away. Whoever makes room hands it out to them.
    queue: VecDeque<oneshot::Sender<Place>>,
    /// Nothing is sent before this.
    not_before: Option<Instant>,
}

/// A request's place; it is free again when this is dropped.
#[derive(Debug)]
pub struct Place {
    lane: Arc<Lane>,
    ticket: Ticket,
    is_taken: bool,
}

impl Lane {
    pub fn new(side: ApiSide) -> Arc<Self> {
        let window = Window::new(CEILING);
        if side == ApiSide::Kubernetes {
            record::api_concurrency(window.limit());
        }
        let state = State { window, queue: VecDeque::new(), not_before: None };
        Arc::new(Self { side, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here can stop halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place. Whoever asked first gets it first; who gives up waiting loses
    /// nothing for others.
    pub async fn place(self: &Arc<Self>) -> Place {
        loop {
            let mut place = match self.take_or_queue() {
                Ok(place) => place,
                // The queue lives as long as the lane, and hands a place to everyone in it
                // who has not gone away.
                Err(handed) => match handed.await {
                    Ok(place) => place,
                    Err(_) => continue,
                },
            };
            place.pause_ends().await;
            return place;
        }
    }

    fn take_or_queue(self: &Arc<Self>) -> Result<Place, oneshot::Receiver<Place>> {
        let mut state = self.state();
        // Room with a queue is about to be handed out.
        if state.window.has_room() && state.queue.is_empty() {
            let ticket = state.window.begin();
            return Ok(Place { lane: Arc::clone(self), ticket, is_taken: true });
        }
        let (hand, handed) = oneshot::channel();
        state.queue.push_back(hand);
        Err(handed)
    }

    /// Hands places to those who wait, as far as there is room.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let (next, ticket) = {
                let mut state = self.state();
                if !state.window.has_room() {
                    return;
                }
                let Some(next) = state.queue.pop_front() else { return };
                (next, state.window.begin())
            };
            // Not while the lock is held: it wakes, and what was handed to somebody who
            // goes away in this moment comes back through it.
            let place = Place { lane: Arc::clone(self), ticket, is_taken: true };
            if let Err(mut unwanted) = next.send(place) {
                unwanted.is_taken = false;
                self.state().window.leave();
            }
        }
    }

    fn judge(self: &Arc<Self>, ticket: Ticket, signal: Signal) {
        let (change, limit) = {
            let mut state = self.state();
            let awaited = !state.queue.is_empty();
            let change = state.window.judge(ticket, signal, awaited);
            if let Change::Paused(pause) = change {
                state.not_before = Some(Instant::now() + pause);
            }
            (change, state.window.limit())
        };
        match change {
            Change::None => return,
            Change::Grown => self.hand_out(),
            Change::Cut | Change::Paused(_) => {
                record::api_concurrency_cut(self.side);
                tracing::debug!(
                    server = self.side.name(),
                    limit,
                    ?change,
                    "The API server has too much to do."
                );
            }
        }
        if self.side == ApiSide::Kubernetes {
            record::api_concurrency(limit);
        }
    }

    #[cfg(test)]
    pub fn limit(&self) -> usize {
        self.state().window.limit()
    }

    #[cfg(test)]
    pub fn queued(&self) -> usize {
        self.state().queue.len()
    }
}

impl Place {
    /// Waits, with this place taken, until something may be sent again: who comes
    /// meanwhile queues behind it. It counts as begun only then.
    async fn pause_ends(&mut self) {
        loop {
            let not_before = {
                let mut state = self.lane.state();
                match state.not_before.filter(|not_before| *not_before > Instant::now()) {
                    Some(not_before) => not_before,
                    None => {
                        state.not_before = None;
                        self.ticket = state.window.renew();
                        return;
                    }
                }
            };
            sleep_until(not_before).await;
        }
    }

    /// Keeps the place while this goes on, but not for longer than `patience`. Then it goes
    /// on, but no longer in the way of others: with few places, some requests that hang would
    /// hold up everything for as long as their timeout.
    pub async fn keep<T>(
        &mut self,
        request: impl Future<Output = T>,
        patience: Duration,
        hangs: impl FnOnce(),
    ) -> T {
        let gone = || {
            self.leave();
            hangs();
        };
        when_it_hangs(request, patience, gone).await
    }

    /// Says how it ended, and gives the place back.
    pub fn end(self, signal: Signal) {
        self.lane.judge(self.ticket, signal);
    }

    /// Says how one request ended, and keeps the place for the next one.
    pub fn judge(&mut self, signal: Signal) {
        self.lane.judge(self.ticket, signal);
        self.ticket = self.lane.state().window.renew();
    }

    /// Whether it is one of this lane's.
    pub fn is_in(&self, lane: &Arc<Lane>) -> bool {
        Arc::ptr_eq(&self.lane, lane)
    }

    fn leave(&mut self) {
        if std::mem::take(&mut self.is_taken) {
            self.lane.state().window.leave();
            self.lane.hand_out();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Goes on with a request, and says so when it takes longer than `patience`.
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
