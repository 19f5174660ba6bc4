//! A worker: takes one key at a time and survives it.

use std::sync::Arc;

use actix::{
    Actor, ActorContext, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, Supervised,
    WrapFuture,
};

use super::{Finished, Outcome, Place, Pool, Work};
use crate::actors::supervision::task;
use crate::api::HangHook;
use crate::telemetry::{DeletionLag, StuckReason, record};
use kube_gc_core::mailbox::Time;
use kube_gc_core::object::Key;

/// Works on one key at a time, on the thread pool.
///
/// actix does not restart an actor that panicked, so the panic of an item is
/// caught at the item's task: its key goes back with backoff, and the worker
/// restarts under its supervisor with nothing of the broken run left.
#[derive(Debug)]
pub struct Worker<W: Work> {
    index: usize,
    work: Arc<W>,
    pool: Addr<Pool<W>>,
}

impl<W: Work> Worker<W> {
    /// The worker with this number of a pool.
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

/// Work on this key.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Assign {
    /// The key.
    pub key: Key,
    /// Now.
    pub at: Time,
    /// How long it takes from its owner's deletion to its own.
    pub lag: Option<DeletionLag>,
}

impl<W: Work> Handler<Assign> for Worker<W> {
    type Result = ();

    fn handle(&mut self, Assign { key, at, lag }: Assign, ctx: &mut Self::Context) {
        let (work, assigned) = (Arc::clone(&self.work), key.clone());
        let place = Place::new(self.index, self.pool.clone().recipient());
        let measured = lag.clone();
        let task = task(async move {
            // Boxed: a task is moved whole when it is spawned, and again when it ends.
            let work = Box::pin(work.work(assigned, place.clone()));
            let work = HangHook::scope(move || place.step_aside(), work);
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

/// The outcome of a task that did not come to its end.
fn broken(key: &Key, error: tokio::task::JoinError) -> Outcome {
    let what = match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            format!("the worker panicked: {}", text.as_deref().unwrap_or("(no message)"))
        }
        Err(error) => format!("the worker was stopped: {error}"),
    };
    tracing::error!(object = %key, error = what, "item failed; it goes back with backoff");
    Outcome::Retry { reason: StuckReason::Panicked, error: what.into() }
}
