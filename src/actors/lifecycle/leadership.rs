//! Opens and closes the pools when this replica gains or loses the lease.
//!
//! A standby watches everything and queues the work, but its pools stay closed. The write gate
//! prevents a standby from writing; the closed pools prevent it from trying.

use actix::{AsyncContext, Context, Handler, Message, WrapFuture};

use super::{Lifecycle, Phase};
use crate::actors::messages::{Close, Open};

/// The role of this replica changed; the write gate has the new one.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct RoleChanged;

impl Lifecycle {
    /// Follows the role of this replica, if there can be other replicas at all.
    pub(super) fn follow_role(&self, ctx: &mut Context<Self>) {
        let gate = self.context.api.gate();
        if !gate.needs_lease() {
            return;
        }
        let (mut role, lifecycle) = (gate.role(), ctx.address());
        let follow = async move {
            while role.changed().await.is_ok() {
                lifecycle.do_send(RoleChanged);
            }
        };
        ctx.spawn(follow.into_actor(self));
    }

    /// Opens the pools if this replica writes and the start-up phase is over. The graph derives
    /// all work again, because a closed pool does not keep everything.
    pub(super) fn open_pools(&mut self) {
        let role = self.context.api.gate().role().borrow().clone();
        if !role.writes() || self.phase() != Phase::Collecting {
            return;
        }
        self.opened = Some(role);
        let (graph, pools) = (self.context.graph.clone(), self.context.pools.clone());
        actix::spawn(async move {
            for pool in &pools {
                pool.open.do_send(Open);
            }
            // An error means that the graph, and with it the process, is ending.
            let _ = graph.rederive().await;
        });
    }
}

impl Handler<RoleChanged> for Lifecycle {
    type Result = ();

    fn handle(&mut self, RoleChanged: RoleChanged, _: &mut Self::Context) {
        let role = self.context.api.gate().role().borrow().clone();
        if self.opened.as_ref() == Some(&role) {
            return;
        }
        if self.opened.take().is_some() {
            for pool in &self.context.pools {
                // The write gate cancels the requests of the items that are in progress.
                pool.close.do_send(Close);
            }
        }
        self.open_pools();
    }
}
