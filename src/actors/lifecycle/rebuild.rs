//! Rebuilds the graph after the store was restored.

use actix::{ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use futures::future::join_all;

use super::{Lifecycle, LifecycleContext, Phase};
use crate::actors::messages::{Close, Resume, StopMonitors, StoreRestored, Suspend};
use crate::telemetry::record;

impl Handler<StoreRestored> for Lifecycle {
    type Result = ();

    /// A store that was restored from a backup brings back objects, versions and uids that were
    /// proved absent. Nothing may be written until everything is forgotten and read again.
    fn handle(&mut self, StoreRestored { detail }: StoreRestored, ctx: &mut Self::Context) {
        if self.phase() == Phase::Rebuilding {
            return;
        }
        record::store_restored();
        tracing::error!(
            reason = detail,
            "the API server's data was restored from a backup; kube-gc rebuilds the graph"
        );
        self.phase.send_replace(Phase::Rebuilding);
        if let Some(deadline) = self.sync_deadline.take() {
            ctx.cancel_future(deadline);
        }
        self.context.api.gate().pause();
        self.opened = None;
        self.rebuilds += 1;
        // At once: a monitor that starts now would only be stopped again.
        self.context.discovery.suspend.do_send(Suspend);
        let forget = forget_everything(self.context.clone());
        ctx.spawn(forget.into_actor(self).map(|(), lifecycle, _| lifecycle.begin_again()));
    }
}

impl Lifecycle {
    /// Follows the restores that writers prove when they check the store before a write.
    pub(super) fn follow_restores(&self, ctx: &mut Context<Self>) {
        let (mut proofs, lifecycle) = (self.context.api.restore_fence().restores(), ctx.address());
        let follow = async move {
            while proofs.changed().await.is_ok() {
                let detail = proofs.borrow_and_update().clone();
                lifecycle.do_send(StoreRestored { detail });
            }
        };
        ctx.spawn(follow.into_actor(self));
    }

    fn begin_again(&mut self) {
        // In this order: discovery reports progress only after it resumed.
        self.phase.send_replace(Phase::Syncing);
        self.context.discovery.resume.do_send(Resume { rebuild: self.rebuilds });
    }
}

/// Each step relies on the one before. (Errors mean that an actor, and with it the process, is
/// ending.)
async fn forget_everything(context: LifecycleContext) {
    // Workers in progress decided on versions that may be assigned again.
    join_all(context.pools.iter().map(|pool| pool.close.send(Close))).await;
    // No monitor may feed the graph after it is emptied.
    let _ = context.discovery.stop_monitors.send(StopMonitors).await;
    context.registry.clear();
    // Links in flight must not arrive in an empty graph, and the caches must not learn what the
    // last changes proved.
    let _ = context.graph.fence().await;
    let _ = context.graph.reset().await;
    context.absent_owners.clear();
    context.high_water.forget_all();
    context.api.restore_fence().reset();
}
