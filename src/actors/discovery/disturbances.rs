//! Forgetting what was known before watches broke.

use actix::{AsyncContext, Context, Handler, Message, WrapFuture};

use super::Discovery;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::Disturbance;

impl Discovery {
    /// Has everybody forgotten what was proved absent, whenever watches have broken: the
    /// store may have been restored, and what was gone may be back.
    pub(super) fn hear_of_disturbances(&self, ctx: &mut Context<Self>) {
        let (means, discovery) = (self.means.clone(), ctx.address());
        let hear = async move {
            let restore_fence = means.api.restore_fence();
            let mut known = Disturbance::default();
            loop {
                let now = restore_fence.changed_from(&known).await;
                // An error means that the graph, and with it the process, is ending.
                if means.graph.disturbed(&now).await.is_err() {
                    return;
                }
                if now.number > known.number {
                    // Afterwards: what partitions had proved until then was remembered. Not
                    // the owners whose dependents were orphaned: that keeps from deleting.
                    if !mutation::is(Mutation::KeepAbsences) {
                        means.memory.absent.clear();
                    }
                    restore_fence.acknowledge(now.number);
                    discovery.do_send(Disturbed);
                }
                known = now;
            }
        };
        ctx.spawn(hear.into_actor(self));
    }
}

/// Everybody was told of a disturbance.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct Disturbed;

impl Handler<Disturbed> for Discovery {
    type Result = ();

    fn handle(&mut self, Disturbed: Disturbed, ctx: &mut Self::Context) {
        // Whatever was gone then may be back, and what hangs on it waits for an answer.
        let is_draining = || self.monitors.values().any(|running| running.draining);
        if is_draining() || self.unserved.has_gone() {
            self.look(ctx);
        }
    }
}
