//! A pool of workers. Its keys wait in a backoff mailbox, by classes that do not wait for each other.

mod status;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Recipient, ResponseFuture, SpawnHandle,
    WrapFuture,
};
use tokio::sync::oneshot;
use tokio::task::JoinError;
use tokio::time::Instant;

use crate::actors::supervision::{Vital, task};
use kube_gc_client::HangHook;
use kube_gc_core::mailbox::{Backoff, Completion, Job, Mailbox, Time, Wait};
use kube_gc_core::object::{HashSeed, Key};
use kube_gc_observe::telemetry::{DeletionLag, Queue, QueueMetrics, Structured, StuckReason, record};

pub use status::{AskPool, AskStuck, Only, PoolStatus, StuckKey, StuckKeys};

/// How the work on one key ended.
pub type Outcome = Completion<StuckReason>;

/// What the workers of a pool do with a key.
pub trait Work: Send + Sync + 'static {
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

/// How many workers of a class may work without a slot. Further workers keep their slot while they
/// wait.
pub(super) const MAX_WITHOUT_SLOT: usize = 128;

/// The number of keys that a closed pool keeps. On a standby, keys arrive and none is processed.
/// When the pool opens, the graph derives all work again, including the keys that were not kept.
pub(super) const CLOSED_CAPACITY: usize = 65_536;

/// The slot of a worker. A class works on as many keys at a time as it has slots.
#[derive(Debug, Clone)]
pub struct WorkerSlot(Option<(Place, Recipient<FromWorker>)>);

/// The class of a key, and the key.
type Place = (usize, Key);

impl WorkerSlot {
    /// For callers that are not workers of a pool.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Whether the caller works on all keys, or on those that others leave to it.
    pub fn takes_all(&self) -> bool {
        self.0.as_ref().is_none_or(|((class, _), _)| *class > 0)
    }

    /// Leaves the key to the second class.
    pub fn hand_over(&self) {
        if let Some(((_, key), pool)) = &self.0 {
            pool.do_send(FromWorker::HandOver(key.clone()));
        }
    }

    /// Gives the slot to another worker. Call it before waiting for a condition that keys behind
    /// this one must bring about.
    pub fn release(&self) {
        if let Some((place, pool)) = &self.0 {
            pool.do_send(FromWorker::Release(place.clone()));
        }
    }
}

messages!(FromWorker => (), Enqueue => (), PoolCommand => (), Close => (), AskParked => Vec<Key>);

/// What a worker tells its pool.
#[derive(Debug)]
pub enum FromWorker {
    /// Another worker may have the slot until this key is finished.
    Release(Place),
    /// The second class takes the key.
    HandOver(Key),
}

/// Queues keys. If the owner of a key was deleted: with the moment at which that event came.
#[derive(Debug)]
pub struct Enqueue(pub Vec<(Key, Option<Instant>)>);

/// Tells a pool that something has changed.
#[derive(Debug)]
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
    Wake(HashSet<Key>),
}

/// Stop handing out work. Keys are still queued. Answered when no item is in progress.
#[derive(Debug)]
pub struct Close;

/// Asks which keys wait for a kind to resolve or for an owner's type to be read.
#[derive(Debug)]
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

/// Hands the keys of its classes to workers. Each worker is a task that works on one key.
#[derive(Debug)]
pub struct Pool<W: Work> {
    work: Arc<W>,
    /// New keys go to the first.
    classes: Vec<Class>,
    open: bool,
    closing: Vec<oneshot::Sender<()>>,
    alarm: Option<(Time, SpawnHandle)>,
    epoch: Instant,
    seed: HashSeed,
    _vital: Vital,
}

/// Keys that share a mailbox and workers. Those of one class never wait for those of another.
#[derive(Debug)]
struct Class {
    queue: Queue,
    mailbox: Mailbox<StuckReason>,
    backoff: Backoff,
    slots: usize,
    /// Keys whose worker has a slot.
    with_slot: HashSet<Key>,
    /// Keys whose worker has released its slot.
    without_slot: HashSet<Key>,
    metrics: QueueMetrics,
}

impl<W: Work> Pool<W> {
    /// A closed pool with one class of keys and this number of workers.
    pub fn new(work: Arc<W>, workers: usize, backoff: Backoff, seed: HashSeed) -> Self {
        let pool = Self {
            work,
            classes: Vec::new(),
            open: false,
            closing: Vec::new(),
            alarm: None,
            epoch: Instant::now(),
            seed,
            _vital: Vital(W::QUEUE.name()),
        };
        pool.and(W::QUEUE, workers, backoff)
    }

    /// With a class more, which takes the keys that workers [hand over](WorkerSlot::hand_over).
    pub fn and(mut self, queue: Queue, workers: usize, backoff: Backoff) -> Self {
        self.classes.push(Class {
            queue,
            mailbox: Mailbox::new(backoff, self.seed),
            backoff,
            slots: workers,
            with_slot: HashSet::new(),
            without_slot: HashSet::new(),
            metrics: QueueMetrics::new(queue),
        });
        self
    }

    fn now(&self) -> Time {
        self.epoch.elapsed()
    }

    /// Gives ready keys to workers and sets the alarm for the next key that becomes ready.
    fn pump(&mut self, ctx: &mut Context<Self>) {
        let now = self.now();
        for class in 0..self.classes.len() {
            self.classes[class].mailbox.advance(now);
            while self.open
                && let Some(job) = self.classes[class].next(now)
            {
                self.start_worker(class, job, ctx);
            }
            let Class { mailbox, metrics, .. } = &self.classes[class];
            metrics.added_in_total(mailbox.adds_total());
            metrics.retried_in_total(mailbox.retries_total());
        }
        if self.classes.iter().all(|class| class.with_slot.is_empty() && class.without_slot.is_empty()) {
            for closed in self.closing.drain(..) {
                // The caller may have given up.
                let _ = closed.send(());
            }
        }
        self.set_alarm(ctx);
    }

    /// Works on a key in a task, which catches a panic: the key goes back with backoff.
    fn start_worker(&self, class: usize, job: Job, ctx: &mut Context<Self>) {
        let Job { key, triggered_at, .. } = job;
        // Measures the time from the deletion of its owner to its own.
        let lag = triggered_at.map(|at| DeletionLag::since(self.epoch + at));
        let slot = WorkerSlot(Some(((class, key.clone()), ctx.address().recipient())));
        let (work, assigned, measured) = (Arc::clone(&self.work), key.clone(), lag.clone());
        let work = task(async move {
            let work = work.work(assigned, slot.clone());
            let work = HangHook::scope(move || slot.release(), work);
            DeletionLag::scope(measured, work).await
        });
        ctx.spawn(
            work.into_actor(self).map(move |ended, pool, ctx| pool.finished(class, &key, ended, lag, ctx)),
        );
    }

    fn finished(
        &mut self,
        class: usize,
        key: &Key,
        ended: Result<Outcome, JoinError>,
        lag: Option<DeletionLag>,
        ctx: &mut Context<Self>,
    ) {
        let (now, epoch) = (self.now(), self.epoch);
        let class = &mut self.classes[class];
        let outcome = ended.unwrap_or_else(|error| broken(class.queue, key, error));
        // The key is not deleted yet, so the time since the deletion of its owner keeps running.
        if !matches!(outcome, Completion::Done)
            && let Some(at) = lag.and_then(|lag| lag.open_since())
        {
            class.mailbox.note_trigger(key, at.saturating_duration_since(epoch));
        }
        let tries = class.mailbox.failure_of(key).map_or(0, |failure| failure.attempts);
        let outcome = after_conflicts(outcome, tries, class.backoff);
        if let Some(took) = class.mailbox.finish(key, outcome, now) {
            class.metrics.worked(took, 1);
        }
        class.with_slot.remove(key);
        class.without_slot.remove(key);
        self.pump(ctx);
    }

    fn wake(&mut self, is_woken: impl Fn(StuckReason) -> bool, now: Time) {
        for class in &mut self.classes {
            class.mailbox.wake(|_, reason| is_woken(reason), now);
        }
    }

    fn set_alarm(&mut self, ctx: &mut Context<Self>) {
        let due = self.classes.iter().filter_map(|class| class.mailbox.next_due()).min();
        if self.alarm.map(|(at, _)| at) == due {
            return;
        }
        if let Some((_, handle)) = self.alarm.take() {
            ctx.cancel_future(handle);
        }
        if let Some(due) = due {
            let handle = ctx.run_later(due.saturating_sub(self.now()), |pool, ctx| {
                pool.alarm = None;
                pool.pump(ctx);
            });
            self.alarm = Some((due, handle));
        }
    }
}

impl Class {
    /// The next key, if a slot is free for it.
    fn next(&mut self, now: Time) -> Option<Job> {
        let job = (self.with_slot.len() < self.slots).then(|| self.mailbox.pop(now))??;
        self.metrics.waited(job.waited, 1);
        self.with_slot.insert(job.key.clone());
        Some(job)
    }
}

impl<W: Work> Actor for Pool<W> {
    type Context = Context<Self>;
}

impl<W: Work> Handler<Enqueue> for Pool<W> {
    type Result = ();

    fn handle(&mut self, Enqueue(keys): Enqueue, ctx: &mut Self::Context) {
        let (now, epoch) = (self.now(), self.epoch);
        let Some(Class { mailbox, .. }) = self.classes.first_mut() else { return };
        for (key, owner_deleted) in keys {
            if !self.open && mailbox.len() >= CLOSED_CAPACITY {
                break;
            }
            mailbox.add(key.clone(), now);
            if let Some(at) = owner_deleted {
                mailbox.note_trigger(&key, at.saturating_duration_since(epoch));
            }
        }
        self.pump(ctx);
    }
}

impl<W: Work> Handler<FromWorker> for Pool<W> {
    type Result = ();

    fn handle(&mut self, message: FromWorker, ctx: &mut Self::Context) {
        let now = self.now();
        match message {
            FromWorker::Release((class, key)) => {
                let Class { with_slot, without_slot, .. } = &mut self.classes[class];
                if without_slot.len() < MAX_WITHOUT_SLOT && with_slot.remove(&key) {
                    without_slot.insert(key);
                }
            }
            FromWorker::HandOver(key) => {
                if let Some(Class { mailbox, .. }) = self.classes.get_mut(1) {
                    mailbox.add(key, now);
                }
            }
        }
        self.pump(ctx);
    }
}

impl<W: Work> Handler<PoolCommand> for Pool<W> {
    type Result = ();

    fn handle(&mut self, command: PoolCommand, ctx: &mut Self::Context) {
        let now = self.now();
        match command {
            PoolCommand::Open => {
                self.open = true;
                self.classes.iter_mut().for_each(|class| class.mailbox.clear_backoff(now));
            }
            PoolCommand::WakeUnresolved => self.wake(W::is_woken, now),
            PoolCommand::WakeRecovered => self.wake(may_be_over, now),
            PoolCommand::WakeBraked => self.wake(|reason| reason == StuckReason::Braked, now),
            PoolCommand::Wake(keys) => {
                for class in &mut self.classes {
                    class.mailbox.wake(|key, reason| keys.contains(key) && W::is_woken(reason), now);
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
        | StuckReason::UnseenWrite
        | StuckReason::Held => false,
    }
}

impl<W: Work> Handler<AskParked> for Pool<W> {
    type Result = Vec<Key>;

    fn handle(&mut self, AskParked: AskParked, ctx: &mut Self::Context) -> Self::Result {
        let now = self.now();
        if W::WAITS_FOR_OWNERS {
            let parked = |class: &mut Class| class.mailbox.parked(|_, reason| W::is_woken(reason), now);
            return self.classes.iter_mut().flat_map(parked).collect();
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
        Completion::Later { reason: StuckReason::Conflict, error, wait: Wait::Backoff }
            if tries < CONFLICTS_AT_MOST =>
        {
            let longest = AFTER_CONFLICT_AT_MOST.max(backoff.min);
            let wait = Wait::RetryAfter(backoff.delay(tries + 1).min(longest));
            Completion::Later { reason: StuckReason::Conflict, error, wait }
        }
        outcome => outcome,
    }
}

/// The outcome of a task that panicked or was cancelled.
fn broken(queue: Queue, key: &Key, error: JoinError) -> Outcome {
    record::worker_restarted(queue);
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
        queue = queue.name(),
        error = what,
        "work on an object failed unexpectedly; it is retried with backoff"
    );
    Outcome::retry(StuckReason::Panicked, what)
}
