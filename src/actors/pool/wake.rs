//! Queues keys again when what they waited for has changed.

use actix::Handler;

use super::{Pool, Work};
use crate::actors::messages::{AskParked, Wake, WakeBraked, WakeRecovered, WakeUnresolved};
use crate::telemetry::StuckReason;
use kube_gc_core::object::Key;

impl<W: Work> Handler<WakeUnresolved> for Pool<W> {
    type Result = ();

    fn handle(&mut self, WakeUnresolved: WakeUnresolved, ctx: &mut Self::Context) {
        let now = self.now();
        self.mailbox.wake(|_, reason| W::is_woken(reason), now);
        self.pump(ctx);
    }
}

impl<W: Work> Handler<AskParked> for Pool<W> {
    type Result = Vec<Key>;

    fn handle(&mut self, AskParked: AskParked, ctx: &mut Self::Context) -> Self::Result {
        let now = self.now();
        if W::WAITS_FOR_OWNERS {
            return self.mailbox.parked(|_, reason| W::is_woken(reason), now);
        }
        // These keys may wait for any type.
        self.mailbox.wake(|_, reason| W::is_woken(reason), now);
        self.pump(ctx);
        Vec::new()
    }
}

impl<W: Work> Handler<Wake> for Pool<W> {
    type Result = ();

    fn handle(&mut self, Wake(keys): Wake, ctx: &mut Self::Context) {
        let now = self.now();
        for key in keys {
            self.mailbox.wake_one(&key, W::is_woken, now);
        }
        self.pump(ctx);
    }
}

impl<W: Work> Handler<WakeBraked> for Pool<W> {
    type Result = ();

    fn handle(&mut self, WakeBraked: WakeBraked, ctx: &mut Self::Context) {
        let now = self.now();
        self.mailbox.wake(|_, reason| reason == StuckReason::Braked, now);
        self.pump(ctx);
    }
}

impl<W: Work> Handler<WakeRecovered> for Pool<W> {
    type Result = ();

    /// The outage, or the refusal of the credentials, may be why a key failed. After each, every key is
    /// retried once, except those that wait for something else.
    fn handle(&mut self, WakeRecovered: WakeRecovered, ctx: &mut Self::Context) {
        let now = self.now();
        let may_be_over = |reason| match reason {
            StuckReason::Deferred
            | StuckReason::Failed
            | StuckReason::Unresolved
            | StuckReason::NotObserved
            // Credentials that were refused are accepted again.
            | StuckReason::Denied
            // A part of the API that holds it may be back.
            | StuckReason::Orphaning => true,
            StuckReason::Conflict
            | StuckReason::Throttled
            | StuckReason::Panicked
            | StuckReason::Braked
            // Only the graph has these reasons; no worker returns a key with one of them.
            | StuckReason::Blocked
            | StuckReason::InvalidScope
            | StuckReason::UnseenWrite => false,
        };
        self.mailbox.wake(|_, reason| may_be_over(reason), now);
        self.pump(ctx);
    }
}
