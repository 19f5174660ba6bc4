//! Which replica's workers work.
//!
//! A standby follows everything and queues what is to be done; its pools stay closed.
//! The write gate keeps it from writing all by itself: this is so that it does not try.

use actix::{AsyncContext, Context, Handler, Message, WrapFuture};

use super::{Discovery, Phase};
use crate::actors::messages::{Close, Open};

/// This replica came to lead, or ceased to; the gate says which.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct StandingChanged;

impl Discovery {
    /// Hears of it, if there can be other replicas at all.
    pub(super) fn hear_of_leadership(&self, ctx: &mut Context<Self>) {
        let gate = self.means.api.gate();
        if !gate.needs_lease() {
            return;
        }
        let (mut standing, discovery) = (gate.role(), ctx.address());
        let hear = async move {
            while standing.changed().await.is_ok() {
                discovery.do_send(StandingChanged);
            }
        };
        ctx.spawn(hear.into_actor(self));
    }

    /// Lets the workers work, if everything is synced and this replica leads; what was
    /// queued before is derived anew.
    pub(super) fn open_pools(&mut self) {
        let standing = self.means.api.gate().role().borrow().clone();
        if !standing.writes() || self.phase() != Phase::Collecting {
            return;
        }
        self.opened = Some(standing);
        let (graph, pools) = (self.means.graph.clone(), self.means.pools.clone());
        actix::spawn(async move {
            for pool in &pools {
                pool.open.do_send(Open);
            }
            // An error means that the graph, and with it the process, is ending.
            let _ = graph.rederive().await;
        });
    }
}

impl Handler<StandingChanged> for Discovery {
    type Result = ();

    fn handle(&mut self, StandingChanged: StandingChanged, _: &mut Self::Context) {
        let standing = self.means.api.gate().role().borrow().clone();
        if self.opened.as_ref() == Some(&standing) {
            return;
        }
        if self.opened.take().is_some() {
            for pool in &self.means.pools {
                // What is being worked on ends by itself: its requests are given up.
                pool.close.do_send(Close);
            }
        }
        self.open_pools();
    }
}
