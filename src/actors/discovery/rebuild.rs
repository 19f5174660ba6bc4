//! Starting over after the store went back in time.

use actix::{ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use futures::future::join_all;

use super::{Discovery, Phase};
use crate::actors::messages::{Close, Stop, StoreRestored};
use crate::telemetry::record;

impl Handler<StoreRestored> for Discovery {
    type Result = ();

    /// A store that was restored from a backup brings back objects, versions and
    /// uids that were proved gone. Nothing that is known holds any more, so no
    /// write may leave before everything has been forgotten and read anew.
    fn handle(&mut self, StoreRestored { detail }: StoreRestored, ctx: &mut Self::Context) {
        if self.phase() == Phase::Rebuilding {
            return;
        }
        record::store_restored();
        tracing::error!(detail, "the API server's store went back in time; the graph is built anew");
        self.status.send_modify(|status| status.phase = Phase::Rebuilding);
        if let Some(deadline) = self.sync_deadline.take() {
            ctx.cancel_future(deadline);
        }
        self.means.api.gate().pause();
        self.opened = None;
        let means = self.means.clone();
        let monitors: Vec<_> = std::mem::take(&mut self.monitors).into_values().collect();
        let forget = async move {
            // What is being worked on was decided on versions that may come again.
            join_all(means.pools.iter().map(|pool| pool.close.send(Close))).await;
            join_all(monitors.iter().map(|running| running.address.send(Stop))).await;
            for running in &monitors {
                means.registry.ended(&running.resource.group_resource);
            }
            // Links that are on their way must not arrive in a graph that has been
            // emptied, and what the last changes proved must not be remembered after
            // everything has been forgotten. (An error means that the graph, and with
            // it the process, is ending.)
            let _ = means.graph.fence().await;
            let _ = means.graph.reset().await;
            means.memory.clear();
            means.high_water.forget_all();
            means.api.restore_fence().reset();
        };
        ctx.spawn(forget.into_actor(self).map(|(), discovery, ctx| discovery.begin_anew(ctx)));
    }
}

impl Discovery {
    /// Hears of it when a writer, who had to make sure, found that it is so.
    pub(super) fn hear_of_restores(&self, ctx: &mut Context<Self>) {
        let (mut proofs, discovery) = (self.means.api.restore_fence().restores(), ctx.address());
        let hear = async move {
            while proofs.changed().await.is_ok() {
                let detail = proofs.borrow_and_update().clone();
                discovery.do_send(StoreRestored { detail });
            }
        };
        ctx.spawn(hear.into_actor(self));
    }

    fn begin_anew(&mut self, ctx: &mut Context<Self>) {
        self.status.send_modify(|status| status.phase = Phase::Syncing);
        self.reconcile(ctx);
        // Other types may be served than before.
        self.again = false;
        self.look(ctx);
    }
}
