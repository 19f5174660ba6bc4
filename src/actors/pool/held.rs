//! What the brake holds.

use actix::Handler;

use super::{Pool, RetryReason, Work};
use crate::actors::messages::WakeHeld;

impl<W: Work> Handler<WakeHeld> for Pool<W> {
    type Result = ();

    fn handle(&mut self, WakeHeld: WakeHeld, ctx: &mut Self::Context) {
        let now = self.now();
        self.mailbox.wake(|_, reason| reason == RetryReason::Braked, now);
        self.pump(ctx);
    }
}
