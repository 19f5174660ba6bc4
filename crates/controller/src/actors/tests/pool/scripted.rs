//! A pool whose work ends as the keys say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::{Actor as _, Addr};
use tokio::sync::{Notify, watch};

use crate::actors::pool::{AskPool, Enqueue, Outcome, Pool, PoolCommand, PoolStatus, Work, WorkerSlot};
use kube_gc_core::mailbox::{Backoff, Completion};
use kube_gc_core::object::{HashSeed, Key};
use kube_gc_observe::telemetry::{DeletionLag, Queue, StuckReason};

/// Does what the uid of its key says, and counts the tries.
#[derive(Debug, Default)]
pub struct Scripted {
    pub tries: watch::Sender<BTreeMap<String, usize>>,
    /// What "blocks" and "waits" keys wait for.
    pub release: Notify,
    pub served: Mutex<bool>,
}

impl Work for Scripted {
    const QUEUE: Queue = Queue::AttemptToDelete;

    async fn work(&self, key: Key, slot: WorkerSlot) -> Outcome {
        let name = key.uid.to_string();
        self.tries.send_modify(|tries| *tries.entry(name.clone()).or_default() += 1);
        let retry = |reason, error: &str| Completion::retry(reason, error);
        match name.split('/').nth(1) {
            Some("panics") => panic!("boom over {name}"),
            Some("denied") => retry(StuckReason::Failed, "403 Forbidden: no, says the webhook"),
            Some("unresolved") if *self.served.lock().unwrap() => Completion::Done,
            Some("unresolved") => retry(StuckReason::Unresolved, "no such kind"),
            Some("waits") => {
                slot.release();
                self.release.notified().await;
                Completion::Done
            }
            Some("late") => {
                // The DELETE goes out at the second try.
                let lag = DeletionLag::current().expect("the moment of the owner's deletion is known");
                if tries(&self.tries.borrow(), &name) == 1 {
                    return retry(StuckReason::Unresolved, "another owner cannot be looked up");
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
                lag.deletion_sent_at(tokio::time::Instant::now());
                Completion::Done
            }
            Some("changing") => retry(StuckReason::Conflict, "it has changed"),
            Some("blocks") => {
                self.release.notified().await;
                Completion::Done
            }
            _ => Completion::Done,
        }
    }
}

impl From<Vec<Key>> for Enqueue {
    fn from(keys: Vec<Key>) -> Self {
        Self(keys.into_iter().map(|key| (key, None)).collect())
    }
}

/// A pool that works as scripted.
pub fn start(workers: usize) -> (Arc<Scripted>, Addr<Pool<Scripted>>) {
    let work = Arc::new(Scripted::default());
    (Arc::clone(&work), Pool::new(work, workers, Backoff::default(), HashSeed::new(1)).start())
}

/// One that works on these keys.
pub fn working(workers: usize, keys: &[Key]) -> (Arc<Scripted>, Addr<Pool<Scripted>>) {
    let (work, pool) = start(workers);
    pool.do_send(PoolCommand::Open);
    pool.do_send(Enqueue::from(keys.to_vec()));
    (work, pool)
}

/// Waits until the tries meet the condition.
pub async fn tried(work: &Scripted, what: impl Fn(&BTreeMap<String, usize>) -> bool) {
    work.tries.subscribe().wait_for(|tries| what(tries)).await.unwrap();
}

pub fn tries(of: &BTreeMap<String, usize>, name: &str) -> usize {
    of.get(name).copied().unwrap_or_default()
}

/// Waits until the status of the pool meets the condition. Each try lets the paused clock advance.
pub async fn until(pool: &Addr<Pool<Scripted>>, what: impl Fn(&PoolStatus) -> bool) -> PoolStatus {
    loop {
        let status = status(pool).await;
        if what(&status) {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub async fn status(pool: &Addr<Pool<Scripted>>) -> PoolStatus {
    pool.send(AskPool { failing: 10, ..AskPool::default() }).await.unwrap().remove(0).1
}
