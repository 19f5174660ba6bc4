//! What a request about a single object waits for before it is sent.
//!
//! It waits for the rate limit and a concurrency slot. The cluster changes during that time: an owner
//! that waited for its dependents may now have to orphan them. So a caller that must check something
//! right before a write takes a [`WriteSlot`] first, then checks, then sends the write: nothing waits
//! in between. Dropping an unused slot frees it.

use std::sync::Arc;

use tokio::time::timeout;

use super::Api;
use crate::call::{Answer, Call};
use crate::error::ApiError;
use crate::limits::Slot;
use crate::limits::machine::Outcome;
use crate::settings::Verb;
use kube_gc_core::object::Identity;

impl Api {
    /// Sends a unary request and reads the whole answer. A request about a single object
    /// first waits for the rate limit and a slot. The time limit does not include the wait.
    pub async fn call(&self, call: Call<'_>) -> Result<Answer, ApiError> {
        // Lists and discovery do not wait. Discovery of an old server is a hundred small
        // requests at once and then none for long. And a list that a watch needs must not
        // wait behind a thousand deletions.
        if !call.is_about_an_object() {
            self.pass(&call).await?;
            return Box::pin(self.exchange(call)).await;
        }
        let slot = match &self.1.slot {
            // Without waiting for a probe, either.
            Some(slot) => {
                self.pass_at_once(&call)?;
                Arc::clone(slot)
            }
            None => Arc::new(self.slot(&call, 1).await?),
        };
        // Requests of its compartment may have begun to hang while it waited.
        let mut ticket = self.0.limits.admit(&call)?;
        let mut exchange = Box::pin(self.exchange(call));
        let answer = match timeout(ticket.patience(), &mut exchange).await {
            Ok(answer) => answer,
            Err(_) => {
                slot.release();
                ticket.hangs();
                exchange.await
            }
        };
        ticket.end(Outcome::of(&answer));
        answer
    }

    /// Takes this many tokens of the rate limiter.
    pub async fn take_tokens(&self, requests: u32) {
        for _ in 0..requests {
            self.0.rate_limiter.acquire().await;
        }
    }

    /// Waits for a slot and the tokens of these requests, unless the first of them must not be sent.
    async fn slot(&self, call: &Call<'_>, requests: u32) -> Result<Slot, ApiError> {
        self.pass(call).await?;
        self.0.limits.check(call)?;
        // A dry run makes the same checks as a real one; only the write itself is refused.
        if !self.gate().is_dry_run() {
            self.write_permit(call).await?;
        }
        self.take_tokens(requests).await;
        Ok(self.0.limits.slot(call.resource).await)
    }
}

/// Tokens of the rate limiter and a concurrency slot, for requests that are sent one after
/// the other.
#[derive(Debug)]
pub struct WriteSlot(Api);

impl Api {
    /// Waits until this write can be sent at once. Reads right before it may use the slot, too: `requests`
    /// is the number of requests in all.
    ///
    /// # Errors
    ///
    /// Nothing may be written at present: the gate is closed, or the restore fence is raised.
    pub async fn write_slot(
        &self,
        write: Verb,
        object: &Identity,
        requests: u32,
    ) -> Result<WriteSlot, ApiError> {
        let call = Call::object(write, object)?;
        let slot = self.slot(&call, requests).await?;
        Ok(WriteSlot(self.with_slot(slot)))
    }
}

impl WriteSlot {
    /// A client whose requests use this slot and do not wait, unless they exceed the number: then
    /// [take their tokens](Api::take_tokens) first, and repeat the checks.
    pub const fn api(&self) -> &Api {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;
    use tokio::time::Instant;

    use super::*;
    use crate::testing::{Reply, Server, order, widget, widget_json};
    use crate::{ApiSettings, Deleted, ErrorClass, LookupResult, WriteGate};

    fn settings(qps: u32) -> ApiSettings {
        ApiSettings { seed: 1, qps, burst: 1, ..ApiSettings::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_in_a_write_slot_do_not_wait_again() {
        let server = Server::answering(|seen| match &*seen.method {
            "GET" => Reply::ok(widget_json("")),
            _ => Reply::ok(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#),
        });
        let api = server.api_with(settings(1), WriteGate::open());
        let turn = api.write_slot(Verb::Delete, &widget(), 2).await.unwrap();
        let since = Instant::now();
        // Somebody else has taken all tokens.
        let other = tokio::spawn({
            let api = api.clone();
            async move { api.look_up(&widget()).await }
        });
        assert!(matches!(turn.api().look_up(&widget()).await, Ok(LookupResult::Found(_))));
        let deleted = turn.api().delete(&order(&widget()), None).await;
        assert_eq!((deleted, since.elapsed()), (Ok(Deleted::Removed), Duration::ZERO));
        assert!(other.await.unwrap().is_ok());
        assert!(since.elapsed() >= Duration::from_millis(900), "it waits for its own: {:?}", since.elapsed());
    }

    /// With one slot, a request that waited for a second one would wait forever.
    #[tokio::test(start_paused = true)]
    async fn all_requests_of_a_write_slot_use_its_one_place_and_others_wait() {
        let server = Server::answering(|_| Reply::status(429, "too busy", "{}"));
        let api = server.api_with(settings(0), WriteGate::open());
        let widget = widget();
        for _ in 0..6 {
            // Halved to one.
            let crowd = (0..20).map(|_| api.look_up(&widget));
            futures::future::join_all(crowd).await;
        }
        let turn = api.write_slot(Verb::Delete, &widget, 2).await.unwrap();
        let mut other = Box::pin(api.look_up(&widget));
        assert!(other.as_mut().now_or_never().is_none());
        let before = server.seen().len();
        turn.api().look_up(&widget).await.unwrap_err();
        turn.api().look_up(&widget).await.unwrap_err();
        assert_eq!(server.seen().len(), before + 2, "the other one has not been sent");
        drop(turn);
        assert!(matches!(other.await.unwrap_err().class, ErrorClass::Throttled { .. }));
    }

    #[tokio::test]
    async fn there_is_no_write_slot_while_the_gate_is_closed() {
        let server = Server::replying([]);
        let api = server.api();
        api.gate().pause();
        let turn = api.write_slot(Verb::Patch, &widget(), 1).await;
        assert_eq!(turn.unwrap_err().class, ErrorClass::GateClosed);
    }

    #[tokio::test]
    async fn a_dry_run_may_read_and_its_write_is_rejected() {
        let server = Server::replying([Reply::ok(widget_json(""))]);
        let api = server.api_with(settings(0), WriteGate::dry_run());
        let turn = api.write_slot(Verb::Delete, &widget(), 2).await.unwrap();
        turn.api().look_up(&widget()).await.unwrap();
        let deleted = turn.api().delete(&order(&widget()), None).await;
        assert_eq!(deleted.unwrap_err().class, ErrorClass::DryRun);
        assert_eq!(server.seen().len(), 1);
    }
}
