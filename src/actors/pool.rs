//! A pool of workers around one backoff mailbox.

mod conflict;
mod status;
mod stuck;
mod wake;
mod worker;

use std::collections::HashSet;
use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, Recipient, SpawnHandle, Supervisor};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::actors::messages::{Close, Enqueue, Open};
use crate::actors::supervision::Vital;
use crate::telemetry::{DeletionLag, Queue, QueueMetrics, StuckReason};
use kube_gc_core::mailbox::{Backoff, Completion, Mailbox, Time};
use kube_gc_core::object::{HashSeed, Key};

#[cfg(test)]
pub(super) use conflict::AFTER_CONFLICT_AT_MOST;
pub use status::{AskPool, PoolStatus};
pub use stuck::{AskStuck, StuckKey, StuckKeys};
use worker::{Assign, Worker};

/// How the work on one key ended.
pub type Outcome = Completion<StuckReason>;

/// What the workers of a pool do with a key.
pub trait Work: Send + Sync + 'static {
    /// The queue's name.
    const QUEUE: Queue;

    /// The reason why every key of this pool counts as stuck until it is done, if it does; see
    /// [`AskStuck`].
    const UNTIL_DONE: Option<StuckReason> = None;

    /// Whether keys may wait for the types of their owners, which only the graph knows.
    const WAITS_FOR_OWNERS: bool = true;

    /// Whether a key that waits for this reason is retried at once when other types are served, or
    /// can be listed again.
    #[must_use]
    fn is_woken(reason: StuckReason) -> bool {
        reason.is_parked() && reason != StuckReason::Braked
    }

    /// Works on one key: reads its current state, decides, acts.
    fn work(&self, key: Key, slot: WorkerSlot) -> impl Future<Output = Outcome> + Send;
}

/// How many workers may work without a slot. Further workers keep their slot while they wait.
pub(super) const MAX_WITHOUT_SLOT: usize = 128;

/// The number of keys that a closed pool keeps. On a standby, keys arrive and none is processed.
/// When the pool opens, the graph derives all work again, including the keys that were not kept.
pub(super) const CLOSED_CAPACITY: usize = 65_536;

/// The slot of a worker. A pool works on as many keys at a time as it has slots.
#[derive(Debug, Clone)]
pub struct WorkerSlot(Option<(usize, Recipient<ReleaseSlot>)>);

impl WorkerSlot {
    /// The slot of a worker in its pool.
    #[must_use]
    pub const fn new(worker: usize, pool: Recipient<ReleaseSlot>) -> Self {
        Self(Some((worker, pool)))
    }

    /// For callers that are not workers of a pool.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Whether a worker of a pool has it.
    #[must_use]
    pub const fn is_worker(&self) -> bool {
        self.0.is_some()
    }

    /// Gives the slot to another worker. Call it before waiting for a condition that keys behind
    /// this one must bring about.
    pub fn release(&self) {
        if let Some((worker, pool)) = &self.0 {
            pool.do_send(ReleaseSlot(*worker));
        }
    }
}

/// Owns the mailbox and hands one key at a time to each idle worker.
#[derive(Debug)]
pub struct Pool<W: Work> {
    work: Arc<W>,
    size: usize,
    mailbox: Mailbox<Key, StuckReason>,
    backoff: Backoff,
    /// Keys that have failed since they were last done.
    failing: HashSet<Key>,
    workers: Vec<Addr<Worker<W>>>,
    idle: Vec<usize>,
    /// Workers that released their slot and still work on a key.
    without_slot: HashSet<usize>,
    /// Workers that finished without a slot and have no slot to return to.
    spare: Vec<usize>,
    open: bool,
    closing: Vec<oneshot::Sender<()>>,
    alarm: Option<(Time, SpawnHandle)>,
    epoch: Instant,
    metrics: QueueMetrics,
    _vital: Vital,
}

impl<W: Work> Pool<W> {
    /// A closed pool of `size` workers.
    #[must_use]
    pub fn new(work: Arc<W>, size: usize, backoff: Backoff, seed: HashSeed) -> Self {
        Self {
            work,
            size,
            mailbox: Mailbox::new(backoff, seed),
            backoff,
            failing: HashSet::new(),
            workers: Vec::new(),
            idle: Vec::new(),
            without_slot: HashSet::new(),
            spare: Vec::new(),
            open: false,
            closing: Vec::new(),
            alarm: None,
            epoch: Instant::now(),
            metrics: QueueMetrics::new(W::QUEUE),
            _vital: Vital(W::QUEUE.name()),
        }
    }

    fn now(&self) -> Time {
        Time::from_origin(self.epoch.elapsed())
    }

    /// Gives ready keys to idle workers and sets the alarm for the next key that becomes ready.
    fn pump(&mut self, ctx: &mut Context<Self>) {
        let now = self.now();
        self.mailbox.advance(now);
        while self.open
            && let Some(worker) = self.idle.pop()
        {
            let Some(job) = self.mailbox.pop(now) else {
                self.idle.push(worker);
                break;
            };
            self.metrics.waited(job.waited);
            let lag = job.triggered_at.map(|at| DeletionLag::since(self.epoch + at.since_origin()));
            let assigned = self
                .workers
                .get(worker)
                .map(|address| address.do_send(Assign { key: job.key, at: now, lag }));
            debug_assert!(assigned.is_some(), "idle workers are indices of workers");
        }
        if self.mailbox.processing() == 0 {
            for closed in self.closing.drain(..) {
                // The caller may have given up.
                let _ = closed.send(());
            }
        }
        self.metrics.added_in_total(self.mailbox.adds_total());
        self.metrics.retried_in_total(self.mailbox.retries_total());
        self.set_alarm(ctx);
    }

    /// Notes when the cause of the work on a key arose.
    fn caused(&mut self, key: &Key, at: Instant) {
        let since = at.saturating_duration_since(self.epoch);
        self.mailbox.note_trigger(key, Time::from_origin(since));
    }

    /// Starts one more worker.
    fn hire(&mut self, ctx: &Context<Self>) -> usize {
        let (index, work, pool) = (self.workers.len(), Arc::clone(&self.work), ctx.address());
        self.workers.push(Supervisor::start(move |_| Worker::new(index, work, pool)));
        index
    }

    fn set_alarm(&mut self, ctx: &mut Context<Self>) {
        let due = self.mailbox.next_due();
        if self.alarm.map(|(at, _)| at) == due {
            return;
        }
        if let Some((_, handle)) = self.alarm.take() {
            ctx.cancel_future(handle);
        }
        if let Some(due) = due {
            let handle = ctx.run_later(due.since(self.now()), |pool, ctx| {
                pool.alarm = None;
                pool.pump(ctx);
            });
            self.alarm = Some((due, handle));
        }
    }
}

impl<W: Work> Actor for Pool<W> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        for _ in 0..self.size {
            let worker = self.hire(ctx);
            self.idle.push(worker);
        }
    }
}

impl<W: Work> Handler<Enqueue> for Pool<W> {
    type Result = ();

    fn handle(&mut self, keys: Enqueue, ctx: &mut Self::Context) {
        let now = self.now();
        for (key, cause) in keys.causes() {
            if !self.open && self.mailbox.len() >= CLOSED_CAPACITY {
                break;
            }
            self.mailbox.add(key.clone(), now);
            if let Some(at) = cause {
                self.caused(&key, at);
            }
        }
        self.pump(ctx);
    }
}

/// A worker has finished its key.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Finished {
    pub worker: usize,
    pub key: Key,
    /// When it was assigned.
    pub since: Time,
    pub outcome: Outcome,
    /// Measures the time from the deletion of its owner to its own.
    pub lag: Option<DeletionLag>,
}

impl<W: Work> Handler<Finished> for Pool<W> {
    type Result = ();

    fn handle(&mut self, finished: Finished, ctx: &mut Self::Context) {
        let Finished { worker, key, since, outcome, lag } = finished;
        let now = self.now();
        self.metrics.worked(now.since(since));
        match outcome {
            Completion::Done => {
                self.failing.remove(&key);
            }
            Completion::Again => {}
            Completion::Retry { .. }
            | Completion::RetryAfter { .. }
            | Completion::Park { .. }
            | Completion::Defer { .. } => {
                self.failing.insert(key.clone());
            }
        }
        // The key is not deleted yet, so the time since the deletion of its owner keeps running.
        if !matches!(outcome, Completion::Done)
            && let Some(at) = lag.and_then(|lag| lag.open_since())
        {
            self.caused(&key, at);
        }
        let tries = self.mailbox.failure_of(&key).map_or(0, |failure| failure.attempts);
        let outcome = conflict::after_conflicts(outcome, tries, self.backoff);
        self.mailbox.finish(&key, outcome, now);
        let free = if self.without_slot.remove(&worker) { &mut self.spare } else { &mut self.idle };
        free.push(worker);
        self.pump(ctx);
    }
}

/// A worker gives its slot to another one until it has finished its key.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ReleaseSlot(usize);

impl<W: Work> Handler<ReleaseSlot> for Pool<W> {
    type Result = ();

    fn handle(&mut self, ReleaseSlot(worker): ReleaseSlot, ctx: &mut Self::Context) {
        if self.without_slot.len() < MAX_WITHOUT_SLOT && self.without_slot.insert(worker) {
            let next = self.spare.pop().unwrap_or_else(|| self.hire(ctx));
            self.idle.push(next);
            self.pump(ctx);
        }
    }
}

impl<W: Work> Handler<Open> for Pool<W> {
    type Result = ();

    fn handle(&mut self, Open: Open, ctx: &mut Self::Context) {
        self.open = true;
        let now = self.now();
        self.mailbox.clear_backoff(now);
        self.mailbox.wait_from_now(now);
        self.failing.clear();
        self.pump(ctx);
    }
}

impl<W: Work> Handler<Close> for Pool<W> {
    type Result = actix::ResponseFuture<()>;

    fn handle(&mut self, Close: Close, ctx: &mut Self::Context) -> Self::Result {
        self.open = false;
        let (closed, ended) = oneshot::channel();
        self.closing.push(closed);
        self.pump(ctx);
        Box::pin(async {
            // An error means that the pool has ended, so no work is in progress either.
            let _ = ended.await;
        })
    }
}
