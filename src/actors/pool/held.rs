//! What the brake holds, and what an outage did.

use actix::Handler;

use super::{Pool, RetryReason, Work};
use crate::actors::messages::{WakeHeld, WakeRecovered};

impl<W: Work> Handler<WakeHeld> for Pool<W> {
    type Result = ();

    fn handle(&mut self, WakeHeld: WakeHeld, ctx: &mut Self::Context) {
        let now = self.now();
        self.mailbox.wake(|_, reason| reason == RetryReason::Braked, now);
        self.pump(ctx);
    }
}

impl<W: Work> Handler<WakeRecovered> for Pool<W> {
    type Result = ();

    /// What failed lately may have failed for the outage. Once for each outage, all that does
    /// not wait for something else is tried again.
    fn handle(&mut self, WakeRecovered: WakeRecovered, ctx: &mut Self::Context) {
        let now = self.now();
        let may_be_over = |reason| match reason {
            RetryReason::Deferred
            | RetryReason::Failed
            | RetryReason::Unresolved
            | RetryReason::NotObserved => true,
            RetryReason::Conflict
            | RetryReason::Denied
            | RetryReason::Throttled
            | RetryReason::Panicked
            | RetryReason::Braked => false,
        };
        self.mailbox.wake(|_, reason| may_be_over(reason), now);
        self.pump(ctx);
    }
}
