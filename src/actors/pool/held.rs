//! What the brake holds, and what an outage did.

use actix::Handler;

use super::{Pool, Work};
use crate::actors::messages::{WakeHeld, WakeRecovered};
use crate::telemetry::StuckReason;

impl<W: Work> Handler<WakeHeld> for Pool<W> {
    type Result = ();

    fn handle(&mut self, WakeHeld: WakeHeld, ctx: &mut Self::Context) {
        let now = self.now();
        self.mailbox.wake(|_, reason| reason == StuckReason::Braked, now);
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
            StuckReason::Deferred
            | StuckReason::Failed
            | StuckReason::Unresolved
            | StuckReason::NotObserved => true,
            StuckReason::Conflict
            | StuckReason::Denied
            | StuckReason::Throttled
            | StuckReason::Panicked
            | StuckReason::Braked
            // The graph's own reasons: no worker puts a key back for one of these.
            | StuckReason::Blocked
            | StuckReason::Orphaning
            | StuckReason::InvalidScope
            | StuckReason::UnseenWrite => false,
        };
        self.mailbox.wake(|_, reason| may_be_over(reason), now);
        self.pump(ctx);
    }
}
