//! What a request waits for before it is sent.

use super::{Api, Slots};
use crate::api::bulkhead::End;
use crate::api::call::{Answer, Call};
use crate::api::concurrency::{SharedSlot, Signal, Slot, when_it_hangs};
use crate::api::error::ApiError;

impl Api {
    /// Sends a unary request and reads the whole answer. A request about a single object
    /// first waits for the rate limit and a slot. The time limit does not include the wait.
    pub(in crate::api) async fn call(&self, call: Call<'_>) -> Result<Answer, ApiError> {
        // Lists and discovery do not wait. Discovery of an old server is a hundred small
        // requests at once and then none for long. And a list that a watch needs must not
        // wait behind a thousand deletions.
        if !call.is_about_an_object() {
            self.pass(&call).await?;
            return Box::pin(self.exchange(call)).await.0;
        }
        if let Slots::Reserved(slot) = &self.1.slots {
            return self.exchange_in(slot, call).await;
        }
        self.ready(&call).await?;
        self.take_tokens(1).await;
        let slot = self.slot_for(&call).await?;
        self.exchange_at(Some(slot), call, Slot::end).await
    }

    /// Takes this many tokens of the rate limiter.
    pub(in crate::api) async fn take_tokens(&self, requests: u32) {
        for _ in 0..requests {
            self.0.rate_limiter.acquire().await;
        }
    }

    /// Fails if the request would not be sent now. Checked before the request takes a token
    /// of the rate limiter.
    pub(in crate::api) async fn ready(&self, call: &Call<'_>) -> Result<(), ApiError> {
        self.pass(call).await?;
        self.0.bulkhead.check(call)
    }

    /// Waits for a slot for a request, unless the request must not be sent.
    pub(in crate::api) async fn slot_for(&self, call: &Call<'_>) -> Result<Slot, ApiError> {
        // A request that must not be sent needs no slot, and the restore fence may take long.
        self.write_permit(call).await?;
        Ok(self.0.concurrency.slot(call.resource).await)
    }

    /// Sends a request in a reserved slot. It never waits for the slot: while another request
    /// uses it, or after it was lost because a request hung, the request goes without.
    async fn exchange_in(&self, shared: &SharedSlot, call: Call<'_>) -> Result<Answer, ApiError> {
        // Without waiting for a probe, either.
        self.pass_at_once(&call)?;
        let slot = shared.take(|slot| self.0.concurrency.is_for(slot, call.resource));
        self.exchange_at(slot, call, |slot, signal| shared.put_back(slot, signal)).await
    }

    /// Sends a request about a single object, in a slot if there is one.
    async fn exchange_at(
        &self,
        mut slot: Option<Slot>,
        call: Call<'_>,
        end: impl FnOnce(Slot, Signal),
    ) -> Result<Answer, ApiError> {
        // Requests of its compartment may have begun to hang while it waited.
        let mut guard = self.0.bulkhead.admit(&call)?;
        let patience = guard.patience();
        let exchange = Box::pin(self.exchange(call));
        let hangs = || guard.hangs();
        let (answer, signal) = match &mut slot {
            Some(slot) => slot.keep(exchange, patience, hangs).await,
            None => when_it_hangs(exchange, patience, hangs).await,
        };
        if let Some(slot) = slot {
            end(slot, signal);
        }
        guard.end(End::of(&answer));
        answer
    }
}
