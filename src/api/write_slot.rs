//! The turn of requests about one object that follow each other without a wait.
//!
//! A request about a single object waits for the rate limiter and for a slot in the
//! concurrency window. The world goes on meanwhile: an owner that waited for its
//! dependents may have been told to orphan them. Whoever has to look at something right
//! before a request takes the turn first, looks, and then sends what follows from it:
//! nothing waits in between. A turn that is not used is dropped, and its slot is free.

use http::Method;

use super::call::Call;
use super::client::Api;
use super::concurrency::SharedSlot;
use super::delete::Deleted;
use super::error::ApiError;
use super::settings::Verb;
use kube_gc_core::object::{Identity, PropagationPolicy, ResourceVersion};

/// What a turn is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteVerb {
    /// A DELETE, and what has to be read right before it.
    Delete,
    /// A PATCH, and what has to be read right before it.
    Patch,
}

/// A turn. Its requests take tokens of the rate limiter and a slot in the concurrency
/// window that it already has. They are made one after the other.
#[derive(Debug)]
pub struct WriteSlot(Api);

impl Api {
    /// Waits until this write, and as many requests as it takes in all, can be sent at once.
    ///
    /// # Errors
    ///
    /// Nothing may be written at present: the gate is closed, or it had to be made sure
    /// first that the store is still the same.
    pub async fn write_slot(
        &self,
        write: WriteVerb,
        object: &Identity,
        requests: u32,
    ) -> Result<WriteSlot, ApiError> {
        let call = match write {
            WriteVerb::Delete => Call::object(Verb::Delete, Method::DELETE, "DELETE", object)?,
            WriteVerb::Patch => Call::object(Verb::Patch, Method::PATCH, "PATCH", object)?,
        };
        self.ready(&call).await?;
        self.take_tokens(requests).await;
        // A dry run looks at everything, too, and says at the last moment that it is one.
        let slot = if self.gate().is_dry_run() { None } else { Some(self.slot_for(&call).await?) };
        Ok(WriteSlot(self.with_slot(SharedSlot::new(slot))))
    }
}

impl WriteSlot {
    /// What goes this way does not wait.
    #[must_use]
    pub const fn api(&self) -> &Api {
        &self.0
    }

    /// Waits for the tokens of so many more requests. Whatever was looked at is to be looked
    /// at again.
    pub async fn take_tokens(&self, requests: u32) {
        self.0.take_tokens(requests).await;
    }

    /// Deletes an object, as [`Api::delete`] does, and ends the turn.
    ///
    /// # Errors
    ///
    /// See there.
    pub async fn delete(
        self,
        identity: &Identity,
        policy: PropagationPolicy,
        resource_version: Option<&ResourceVersion>,
    ) -> Result<Deleted, ApiError> {
        self.0.delete(identity, policy, resource_version).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;
    use tokio::time::Instant;

    use super::*;
    use crate::api::scripted::{Reply, Server, widget, widget_json};
    use crate::api::{ApiSettings, ErrorClass, LookUp, WriteGate};

    fn settings(qps: u32) -> ApiSettings {
        ApiSettings { seed: 1, qps, burst: 1, ..ApiSettings::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_turn_is_for_goes_without_a_wait() {
        let server = Server::answering(|seen| match &*seen.method {
            "GET" => Reply::ok(widget_json("")),
            _ => Reply::not_found(),
        });
        let api = server.api_with(settings(1), WriteGate::open());
        let turn = api.write_slot(WriteVerb::Delete, &widget(), 2).await.unwrap();
        let since = Instant::now();
        // Somebody else has taken all tokens.
        let other = tokio::spawn({
            let api = api.clone();
            async move { api.look_up(&widget()).await }
        });
        assert!(matches!(turn.api().look_up(&widget()).await, Ok(LookUp::Found(_))));
        let deleted = turn.delete(&widget(), PropagationPolicy::Background, None).await;
        assert_eq!((deleted, since.elapsed()), (Ok(Deleted::AlreadyGone), Duration::ZERO));
        assert!(other.await.unwrap().is_ok());
        assert!(since.elapsed() >= Duration::from_millis(900), "it waits for its own: {:?}", since.elapsed());
    }

    /// With one slot, a turn that waited for another one would wait for ever.
    #[tokio::test(start_paused = true)]
    async fn all_requests_of_a_turn_go_in_its_one_place_and_others_wait_for_it() {
        let server = Server::answering(|_| Reply::status(429, "too busy", "{}"));
        let api = server.api_with(settings(0), WriteGate::open());
        let widget = widget();
        for _ in 0..6 {
            // Halved to one.
            let crowd = (0..20).map(|_| api.look_up(&widget));
            futures::future::join_all(crowd).await;
        }
        let turn = api.write_slot(WriteVerb::Delete, &widget, 2).await.unwrap();
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
    async fn there_is_no_turn_while_the_gate_is_closed() {
        let server = Server::replying([]);
        let api = server.api();
        api.gate().pause();
        let turn = api.write_slot(WriteVerb::Patch, &widget(), 1).await;
        assert_eq!(turn.unwrap_err().class, ErrorClass::GateClosed);
    }

    #[tokio::test]
    async fn a_dry_run_may_look_and_is_refused_at_the_end() {
        let server = Server::replying([Reply::ok(widget_json(""))]);
        let api = server.api_with(settings(0), WriteGate::dry_run());
        let turn = api.write_slot(WriteVerb::Delete, &widget(), 2).await.unwrap();
        turn.api().look_up(&widget()).await.unwrap();
        let deleted = turn.delete(&widget(), PropagationPolicy::Background, None).await;
        assert_eq!(deleted.unwrap_err().class, ErrorClass::DryRun);
        assert_eq!(server.seen().len(), 1);
    }
}
