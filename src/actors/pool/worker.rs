//! A worker: works on one key at a time and survives a panic.

use std::sync::Arc;

use actix::{
    Actor, ActorContext, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, Supervised,
    WrapFuture,
};

use super::{Finished, Outcome, Pool, Work, WorkerSlot};
use crate::actors::supervision::task;
use crate::api::HangHook;
use crate::telemetry::{DeletionLag, Structured, StuckReason, record};
use kube_gc_core::mailbox::Time;
use kube_gc_core::object::Key;

/// Works on one key at a time, on the thread pool.
///
/// actix does not restart an actor that panicked. Therefore the work runs in a task that catches
/// the panic: the key goes back with backoff, and the supervisor restarts the worker with a fresh
/// state.
#[derive(Debug)]
pub struct Worker<W: Work> {
    index: usize,
    work: Arc<W>,
    pool: Addr<Pool<W>>,
}

impl<W: Work> Worker<W> {
    /// A worker with this index in its pool.
    #[must_use]
    pub const fn new(index: usize, work: Arc<W>, pool: Addr<Pool<W>>) -> Self {
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
pub struct Assign {
    pub key: Key,
    /// The moment of the assignment.
    pub at: Time,
    /// Measures the time from the deletion of its owner to its own.
    pub lag: Option<DeletionLag>,
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
fn broken(key: &Key, error: tokio::task::JoinError) -> Outcome {
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
