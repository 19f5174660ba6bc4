//! Resumes work after an outage of the API server.

use actix::{AsyncContext, Context, WrapFuture};

use super::Lifecycle;
use crate::actors::messages::{Rediscover, WakeRecovered};

impl Lifecycle {
    /// Follows the ends of outages. Types may have come and gone, and what failed may have failed
    /// because of the outage.
    pub(super) fn follow_recoveries(&self, ctx: &mut Context<Self>) {
        let (mut recoveries, context) = (self.context.api.recoveries(), self.context.clone());
        let follow = async move {
            while recoveries.changed().await.is_ok() {
                context.discovery.rediscover.do_send(Rediscover);
                for pool in &context.pools {
                    pool.recovered.do_send(WakeRecovered);
                }
            }
        };
        ctx.spawn(follow.into_actor(self));
    }
}
