//! The delete pool's work on one key.

use std::sync::Arc;

use actix::Recipient;

use super::confirmations::Confirmations;
use super::context::DeleteContext;
use super::look_ups::LookUps;
use super::pace::{BURST, LOOK_UPS_PER_SECOND};

use crate::actors::pool::{Enqueue, Outcome, Work, WorkerSlot};
use crate::api::RateLimiter;
use crate::telemetry::{Queue, Structured};
use crate::worker::interrupted::{Interrupted, deferred};
use kube_gc_core::graph::{ObjectSnapshot, Snapshot};
use kube_gc_core::mailbox::Completion;
use kube_gc_core::mutation;
use kube_gc_core::object::Key;
use kube_gc_core::verdict::{Precheck, precheck};

/// Decides on objects whose owners may be gone, and on owners that are deleting dependents.
#[derive(Clone, Debug)]
pub struct DeleteWork {
    pub(super) context: DeleteContext,
    pub(super) look_ups: LookUps,
    pub(super) confirmations: Confirmations,
    /// The pool for large objects.
    pub(super) large: Recipient<Enqueue>,
    /// Limits how fast the owners of large objects are looked up.
    pub(super) pace: Arc<RateLimiter>,
}

impl Work for DeleteWork {
    const QUEUE: Queue = Queue::AttemptToDelete;

    async fn work(&self, key: Key, slot: WorkerSlot) -> Outcome {
        if let Some(deferred) = deferred(&self.context.api) {
            return deferred;
        }
        match self.now().attempt(&key, &slot).await {
            Ok(outcome) => outcome,
            Err(interrupted) => interrupted.outcome(),
        }
    }
}

impl DeleteWork {
    /// The work of the delete pool.
    #[must_use]
    pub fn new(context: DeleteContext, large: Recipient<Enqueue>) -> Self {
        let look_ups =
            LookUps::new(context.api.clone(), Arc::clone(&context.absent_owners), context.births.clone());
        let confirmations = Confirmations::new(context.api.restore_fence().clone());
        let pace = Arc::new(RateLimiter::new(LOOK_UPS_PER_SECOND, BURST));
        Self { context, look_ups, confirmations, large, pace }
    }

    /// The work on one decision, which begins now.
    fn now(&self) -> Self {
        Self { context: self.context.now(), ..self.clone() }
    }

    pub(super) async fn attempt(&self, key: &Key, slot: &WorkerSlot) -> Result<Outcome, Interrupted> {
        let snapshot = if slot.is_worker() {
            let Some(snapshot) = self.context.graph.look_at_small(key).await? else {
                self.large.do_send(Enqueue::from(vec![key.clone()]));
                return Ok(Completion::Done);
            };
            snapshot
        } else {
            self.context.graph.look(key).await?
        };
        match snapshot {
            // The graph queues the key again when there is something to decide.
            Snapshot::Gone | Snapshot::AwaitsEvent => Ok(Completion::Done),
            Snapshot::Virtual(owner) => self.verify(&owner).await,
            Snapshot::Object(item) => self.object(&item).await,
        }
    }

    async fn object(&self, item: &ObjectSnapshot) -> Result<Outcome, Interrupted> {
        mutation::panic_over(&item.identity.name);
        match precheck(item) {
            Precheck::Nothing(reason) => {
                tracing::trace!(object = Structured::object(&item.identity).logged(), %reason, "nothing to do");
                Ok(Completion::Done)
            }
            Precheck::WaitForDependents(blocking) => {
                tracing::debug!(
                    object = Structured::object(&item.identity).logged(),
                    blocking,
                    "the object waits for its blocking dependents"
                );
                Ok(Completion::Done)
            }
            Precheck::RemoveForegroundFinalizer | Precheck::AskForUnreadReferences => {
                self.finish_foreground(item).await
            }
            Precheck::BreakDeadlock => self.break_deadlock(item).await,
            Precheck::Classify => self.decide(item).await,
        }
    }
}
