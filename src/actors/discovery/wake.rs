//! Wakes the keys in the pools that waited for a type.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix::{ActorFutureExt as _, AsyncContext, Context, Handler, WrapFuture};
use futures::future::join_all;

use super::{Discovery, PoolWakers};
use crate::actors::graph_handle::GraphHandle;
use crate::actors::messages::{AskParked, SyncChanged, Wake};
use kube_gc_core::object::GroupResource;

/// The types that were synced, and for which keys may wait.
///
/// Each question is about all parked keys. When hundreds of types are listed again, each of them
/// must not ask separately: types that are synced while a question is under way share the next one.
#[derive(Debug, Default)]
pub(super) struct SyncedTypes {
    next: BTreeSet<GroupResource>,
    is_asking: bool,
}

impl SyncedTypes {
    /// The types to ask about now, if any.
    fn take(&mut self) -> Option<Arc<BTreeSet<GroupResource>>> {
        let types = (!self.is_asking && !self.next.is_empty()).then(|| std::mem::take(&mut self.next))?;
        self.is_asking = true;
        Some(Arc::new(types))
    }
}

impl Handler<SyncChanged> for Discovery {
    type Result = ();

    fn handle(&mut self, SyncChanged(resource): SyncChanged, ctx: &mut Self::Context) {
        let synced = self.context.registry.is_synced(&resource);
        tracing::debug!(%resource, synced, "monitor");
        self.synced_changed();
        if synced {
            self.synced_types.next.insert(resource);
            self.wake_parked(ctx);
        }
    }
}

impl Discovery {
    /// Owners of these types that could not be looked up may be readable now. Objects that wait for
    /// other types are not woken: their retry would fail again.
    fn wake_parked(&mut self, ctx: &mut Context<Self>) {
        let Some(types) = self.synced_types.take() else { return };
        let graph = self.context.graph.clone();
        let pools = self
            .context
            .pools
            .clone()
            .into_iter()
            .map(move |pool| wake(pool, graph.clone(), Arc::clone(&types)));
        let ended = join_all(pools).into_actor(self).map(|_, discovery, ctx| {
            discovery.synced_types.is_asking = false;
            discovery.wake_parked(ctx);
        });
        ctx.spawn(ended);
    }
}

async fn wake(pool: PoolWakers, graph: GraphHandle, types: Arc<BTreeSet<GroupResource>>) {
    // An error means that the pool or the graph, and with it the process, is ending.
    let Ok(parked) = pool.parked.send(AskParked).await else { return };
    if let Ok(concerned) = graph.concerned(parked, &types).await {
        pool.wake.do_send(Wake(concerned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if each type asks about all parked keys by itself: 200 types and 100,000 keys are 20
    /// million answers after an outage.
    #[test]
    fn types_that_are_synced_during_a_question_share_the_next_one() {
        let mut types = SyncedTypes::default();
        assert_eq!(types.take(), None);
        let mut asked = Vec::new();
        for number in 0..200 {
            types.next.insert(GroupResource::parse(&format!("widgets-{number}.example.com")));
            asked.extend(types.take().map(|types| types.len()));
        }
        assert_eq!(asked, [1]);
        types.is_asking = false;
        assert_eq!(types.take().map(|types| types.len()), Some(199));
        types.is_asking = false;
        assert_eq!(types.take(), None);
    }
}
