//! Forgets proofs of absence when watches break.

use actix::{AsyncContext, Context, WrapFuture};

use super::Lifecycle;
use crate::actors::messages::AbsencesForgotten;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::Disturbance;

impl Lifecycle {
    /// Follows the restore fence. Whenever watches broke, the store may have been restored, and
    /// an owner that was absent may exist again.
    pub(super) fn follow_disturbances(&self, ctx: &mut Context<Self>) {
        let context = self.context.clone();
        let follow = async move {
            let restore_fence = context.api.restore_fence();
            let mut known = Disturbance::default();
            loop {
                let now = restore_fence.changed_from(&known).await;
                // An error means that the graph, and with it the process, is ending.
                if context.graph.disturbed(&now).await.is_err() {
                    return;
                }
                if now.number > known.number {
                    // Not earlier: until the partitions answered, they added to the cache what
                    // they had proved before. Orphaned owners are kept, because they only
                    // prevent deletions.
                    if !mutation::is(Mutation::KeepAbsences) {
                        context.absent_owners.absent.clear();
                    }
                    restore_fence.acknowledge(now.number);
                    context.discovery.absences_forgotten.do_send(AbsencesForgotten);
                }
                known = now;
            }
        };
        ctx.spawn(follow.into_actor(self));
    }
}
