//! A limit on concurrent requests about single objects, as that of a busy API server.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Proxy;
use super::reply::Reply;
use super::request::{Request, Verb};
use super::shared::Shared;
use super::state::Limit;

/// The duration of a request, counted from the arrival of the latest one, so that requests sent
/// together also overlap on a busy machine.
const SERVICE: Duration = Duration::from_millis(5);

/// A request in progress, until this is dropped.
pub(super) struct InProgress(Shared);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.with(|state| state.limit.in_progress -= 1);
    }
}

impl Proxy {
    /// Delays requests about single objects (by `SERVICE`) from now on, and rejects those that
    /// exceed the limit, as the API server does. A limit of 0 rejects all.
    pub fn limit_concurrency(&self, limit: usize) {
        self.shared.with(|state| state.limit.limit = Some(limit));
    }

    /// Removes the limit and the delay.
    pub fn remove_limit(&self) {
        self.shared.with(|state| state.limit.limit = None);
    }

    /// The maximum number of concurrent requests so far.
    pub fn peak_concurrency(&self) -> usize {
        self.shared.look(|state| state.limit.peak)
    }
}

impl Shared {
    /// Admits a request, unless there are too many.
    pub(super) fn enter(&self, request: &Request) -> Result<Option<InProgress>, Reply> {
        let is_about_an_object =
            matches!(request.verb, Verb::Get | Verb::Delete | Verb::Patch) && request.name.is_some();
        self.with(|state| match &mut state.limit {
            Limit { limit: Some(limit), in_progress, peak, last } if is_about_an_object => {
                *last = Some(Instant::now());
                if *in_progress >= *limit {
                    return Err(
                        Reply::text(429, "Too many requests, please try again later.\n").retry_after(1)
                    );
                }
                *in_progress += 1;
                *peak = (*peak).max(*in_progress);
                Ok(Some(InProgress(self.clone())))
            }
            _ => Ok(None),
        })
    }

    /// Resolves when the delay of a request is over.
    pub(super) async fn service_time(&self) {
        while let Some(end) = self.look(|state| state.limit.last).map(|last| last + SERVICE)
            && end > Instant::now()
        {
            sleep_until(end).await;
        }
    }
}
