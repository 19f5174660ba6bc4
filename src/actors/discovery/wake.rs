//! Wakes the keys in the pools that waited for a type.

use actix::{AsyncContext, Handler, WrapFuture};

use super::Discovery;
use crate::actors::messages::{AskParked, SyncChanged, Wake};

impl Handler<SyncChanged> for Discovery {
    type Result = ();

    fn handle(&mut self, SyncChanged(resource): SyncChanged, ctx: &mut Self::Context) {
        let synced = self.context.registry.is_synced(&resource);
        tracing::debug!(%resource, synced, "monitor");
        self.synced_changed();
        if synced {
            // Owners of this type that could not be looked up may be answered for now.
            // What waits for other types stays where it is: it would only be tried in vain.
            for pool in self.context.pools.clone() {
                let (graph, resource) = (self.context.graph.clone(), resource.clone());
                let wake = async move {
                    // An error context that the pool or the graph, and with it the process, is ending.
                    let Ok(parked) = pool.parked.send(AskParked).await else { return };
                    if let Ok(concerned) = graph.concerned(parked, &resource).await {
                        pool.wake.do_send(Wake(concerned));
                    }
                };
                ctx.spawn(wake.into_actor(self));
            }
        }
    }
}
