//! A pool of workers around one backoff mailbox.

mod status;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, Recipient,
    ResponseFuture, SpawnHandle, Supervised, Supervisor, WrapFuture,
};
use tokio::sync::oneshot;
use tokio::task::JoinError;
use tokio::time::Instant;

use crate::actors::supervision::{Vital, task};
use crate::api::HangHook;
use crate::telemetry::{DeletionLag, Queue, QueueMetrics, Structured, StuckReason, record};
use kube_gc_core::mailbox::{Backoff, Completion, Mailbox, Time};
use kube_gc_core::object::{HashSeed, Key};

pub use status::{AskPool, AskStuck, PoolStatus, StuckKey, StuckKeys};

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
    pub const fn new(worker: usize, pool: Recipient<ReleaseSlot>) -> Self {
        Self(Some((worker, pool)))
    }

    /// For callers that are not workers of a pool.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Whether a worker of a pool has it.
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

/// Queues keys.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Enqueue {
    /// The keys.
    pub keys: Vec<Key>,
    /// Ranges of keys whose owner was deleted, with the moment at which the event came. Sorted.
    pub bereaved: Vec<(Range<usize>, Instant)>,
}

impl From<Vec<Key>> for Enqueue {
    fn from(keys: Vec<Key>) -> Self {
        Self { keys, bereaved: Vec::new() }
    }
}

impl Enqueue {
    /// Splits it into messages of at most `size` keys.
    pub fn parts(mut self, size: usize) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            if self.keys.is_empty() {
                return None;
            }
            let rest = self.keys.split_off(self.keys.len().min(size));
            let keys = std::mem::replace(&mut self.keys, rest);
            let count = keys.len();
            let inside = |range: &Range<usize>| range.start.min(count)..range.end.min(count);
            let beyond = |range: &Range<usize>| range.start.max(count) - count..range.end.max(count) - count;
            let part = |cut: &dyn Fn(&Range<usize>) -> Range<usize>| {
                let cut = self.bereaved.iter().map(|(range, at)| (cut(range), *at));
                cut.filter(|(range, _)| !range.is_empty()).collect()
            };
            let (here, later) = (part(&inside), part(&beyond));
            self.bereaved = later;
            Some(Self { keys, bereaved: here })
        })
    }

    /// Every key, with the moment at which its owner's deletion came.
    pub fn causes(self) -> impl Iterator<Item = (Key, Option<Instant>)> {
        let mut bereaved = self.bereaved.into_iter().peekable();
        self.keys.into_iter().enumerate().map(move |(index, key)| {
            while bereaved.next_if(|(range, _)| range.end <= index).is_some() {}
            let cause = bereaved.peek().filter(|(range, _)| range.contains(&index));
            (key, cause.map(|(_, at)| *at))
        })
    }
}

/// Tells a pool that something has changed.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub enum PoolCommand {
    /// Start handing out work. Backoff is reset.
    Open,
    /// The catalog changed: queue all keys that wait for a kind to resolve.
    WakeUnresolved,
    /// An outage of the API server has ended: queue the keys that it delayed.
    WakeRecovered,
    /// The brake was released: queue the keys that it stopped.
    WakeBraked,
    /// Queue those of these keys that still wait.
    Wake(Vec<Key>),
}

/// Stop handing out work. Keys are still queued. Answered when no item is in progress.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Close;

/// Asks which keys wait for a kind to resolve or for an owner's type to be read.
#[derive(Debug, Message)]
#[rtype(result = "Vec<Key>")]
pub struct AskParked;

/// What discovery and Lifecycle ask of a pool, whatever its work is.
#[derive(Clone, Debug)]
pub struct PoolRecipients {
    pub(super) command: Recipient<PoolCommand>,
    pub(super) close: Recipient<Close>,
    pub(super) parked: Recipient<AskParked>,
}

impl<W: Work> From<&Addr<Pool<W>>> for PoolRecipients {
    fn from(pool: &Addr<Pool<W>>) -> Self {
        let (command, close) = (pool.clone().recipient(), pool.clone().recipient());
        Self { command, close, parked: pool.clone().recipient() }
    }
}

/// A worker has finished its key.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Finished {
    worker: usize,
    key: Key,
    /// When it was assigned.
    since: Time,
    outcome: Outcome,
    /// Measures the time from the deletion of its owner to its own.
    lag: Option<DeletionLag>,
}

/// A worker gives its slot to another one until it has finished its key.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ReleaseSlot(usize);

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

    fn wake(&mut self, is_woken: impl Fn(StuckReason) -> bool, now: Time) {
        self.mailbox.wake(|_, reason| is_woken(reason), now);
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
        let outcome = after_conflicts(outcome, tries, self.backoff);
        self.mailbox.finish(&key, outcome, now);
        let free = if self.without_slot.remove(&worker) { &mut self.spare } else { &mut self.idle };
        free.push(worker);
        self.pump(ctx);
    }
}

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

impl<W: Work> Handler<PoolCommand> for Pool<W> {
    type Result = ();

    fn handle(&mut self, command: PoolCommand, ctx: &mut Self::Context) {
        let now = self.now();
        match command {
            PoolCommand::Open => {
                self.open = true;
                self.mailbox.clear_backoff(now);
                self.mailbox.wait_from_now(now);
                self.failing.clear();
            }
            PoolCommand::WakeUnresolved => self.wake(W::is_woken, now),
            PoolCommand::WakeRecovered => self.wake(may_be_over, now),
            PoolCommand::WakeBraked => self.wake(|reason| reason == StuckReason::Braked, now),
            PoolCommand::Wake(keys) => {
                for key in keys {
                    self.mailbox.wake_one(&key, W::is_woken, now);
                }
            }
        }
        self.pump(ctx);
    }
}

/// Whether an outage, or the refusal of the credentials, may be why a key failed. After each, every
/// key is retried once, except those that wait for something else.
const fn may_be_over(reason: StuckReason) -> bool {
    match reason {
        StuckReason::Deferred
        | StuckReason::Failed
        | StuckReason::Unresolved
        | StuckReason::NotObserved
        // Credentials that were refused are accepted again.
        | StuckReason::Denied
        // A part of the API that holds it may be back.
        | StuckReason::Orphaning => true,
        StuckReason::Conflict
        | StuckReason::Throttled
        | StuckReason::Panicked
        | StuckReason::Braked
        // Only the graph has these reasons; no worker returns a key with one of them.
        | StuckReason::Blocked
        | StuckReason::InvalidScope
        | StuckReason::UnseenWrite => false,
    }
}

impl<W: Work> Handler<AskParked> for Pool<W> {
    type Result = Vec<Key>;

    fn handle(&mut self, AskParked: AskParked, ctx: &mut Self::Context) -> Self::Result {
        let now = self.now();
        if W::WAITS_FOR_OWNERS {
            return self.mailbox.parked(|_, reason| W::is_woken(reason), now);
        }
        // These keys may wait for any type.
        self.wake(W::is_woken, now);
        self.pump(ctx);
        Vec::new()
    }
}

impl<W: Work> Handler<Close> for Pool<W> {
    type Result = ResponseFuture<()>;

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

/// The longest pause after a conflict. A conflict is no failure: the object changed. An object that
/// changes a hundred times a second is deleted in a quiet moment, which doubling pauses would miss.
pub(super) const AFTER_CONFLICT_AT_MOST: Duration = Duration::from_millis(250);
/// After this many conflicts in a row, a conflict counts as a failure: some component answers every
/// write with one.
const CONFLICTS_AT_MOST: u32 = 250;

/// Shortens the pause of a key after a conflict; see [`AFTER_CONFLICT_AT_MOST`].
fn after_conflicts(outcome: Outcome, tries: u32, backoff: Backoff) -> Outcome {
    match outcome {
        Completion::Retry { reason: StuckReason::Conflict, error } if tries < CONFLICTS_AT_MOST => {
            let longest = AFTER_CONFLICT_AT_MOST.max(backoff.min);
            let after = backoff.delay(tries + 1).min(longest);
            Completion::RetryAfter { after, reason: StuckReason::Conflict, error }
        }
        outcome => outcome,
    }
}

/// Works on one key at a time, on the thread pool.
///
/// actix does not restart an actor that panicked. Therefore the work runs in a task that catches
/// the panic: the key goes back with backoff, and the supervisor restarts the worker with a fresh
/// state.
#[derive(Debug)]
struct Worker<W: Work> {
    index: usize,
    work: Arc<W>,
    pool: Addr<Pool<W>>,
}

impl<W: Work> Worker<W> {
    /// A worker with this index in its pool.
    const fn new(index: usize, work: Arc<W>, pool: Addr<Pool<W>>) -> Self {
        Self { index, work, pool }
    }
}

impl<W: Work> Actor for Worker<W> {
    type Context = Context<Self>;
}

impl<W: Work> Supervised for Worker<W> {
    fn restarting(&mut self, _: &mut Context<Self>) {
        record::worker_restarted(W::QUEUE);
        tracing::warn!(queue = W::QUEUE.name(), worker = self.index, "worker restarted");
    }
}

/// Asks a worker to work on a key.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Assign {
    key: Key,
    /// The moment of the assignment.
    at: Time,
    /// Measures the time from the deletion of its owner to its own.
    lag: Option<DeletionLag>,
}

impl<W: Work> Handler<Assign> for Worker<W> {
    type Result = ();

    fn handle(&mut self, Assign { key, at, lag }: Assign, ctx: &mut Self::Context) {
        let (work, assigned) = (Arc::clone(&self.work), key.clone());
        let slot = WorkerSlot::new(self.index, self.pool.clone().recipient());
        let measured = lag.clone();
        let task = task(async move {
            // Boxed, because a task is moved as a whole when it is spawned and when it ends.
            let work = Box::pin(work.work(assigned, slot.clone()));
            let work = HangHook::scope(move || slot.release(), work);
            DeletionLag::scope(measured, work).await
        });
        let end = task.into_actor(self).map(move |result, worker, ctx| {
            let (outcome, broken) = match result {
                Ok(outcome) => (outcome, false),
                Err(error) => (broken(&key, error), true),
            };
            worker.pool.do_send(Finished { worker: worker.index, key, since: at, outcome, lag });
            if broken {
                ctx.stop();
            }
        });
        ctx.spawn(end);
    }
}

/// The outcome of a task that panicked or was cancelled.
fn broken(key: &Key, error: JoinError) -> Outcome {
    let what = match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            format!("the worker panicked: {}", text.as_deref().unwrap_or("(no message)"))
        }
        Err(error) => format!("the worker was stopped: {error}"),
    };
    tracing::error!(
        object = Structured::key(key).logged(),
        error = what,
        "work on an object failed unexpectedly; it is retried with backoff"
    );
    Outcome::Retry { reason: StuckReason::Panicked, error: what.into() }
}
