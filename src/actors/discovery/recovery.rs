//! Going on after an outage of the API server.

use actix::{AsyncContext, Context, Handler, Message, WrapFuture};

use super::Discovery;
use crate::actors::messages::WakeRecovered;

/// The API server can be reached again.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct Recovered;

impl Discovery {
    /// Hears when an outage has ended.
    pub(super) fn hear_of_recoveries(&self, ctx: &mut Context<Self>) {
        let (mut recoveries, discovery) = (self.means.api.recoveries(), ctx.address());
        let hear = async move {
            while recoveries.changed().await.is_ok() {
                discovery.do_send(Recovered);
            }
        };
        ctx.spawn(hear.into_actor(self));
    }
}

impl Handler<Recovered> for Discovery {
    type Result = ();

    /// Types may have come and gone, and what failed before failed for the outage.
    fn handle(&mut self, Recovered: Recovered, ctx: &mut Self::Context) {
        self.look(ctx);
        for pool in &self.means.pools {
            pool.recovered.do_send(WakeRecovered);
        }
    }
}
