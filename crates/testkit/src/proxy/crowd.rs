//! A server with a limit on concurrent requests about single objects.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::request::{Request, Verb};
use super::rules::Reply;
use super::{Proxy, Shared};

/// The duration of a request, counted from the arrival of the latest one, so that requests sent
/// together also overlap on a busy machine.
const SERVICE: Duration = Duration::from_millis(5);

/// The number of requests in progress, and the limit.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    bears: Option<usize>,
    inside: usize,
    most: usize,
    /// The arrival of the latest request, admitted or not.
    last: Option<Instant>,
}

/// A request in progress, until this is dropped.
pub(super) struct Inside(Shared);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.with(|state| state.crowd.inside -= 1);
    }
}

impl Proxy {
    /// Delays requests about single objects (by `SERVICE`) from now on, and rejects those that
    /// exceed the limit, as the API server does. A limit of 0 rejects all.
    pub fn bear(&self, at_a_time: usize) {
        self.shared.with(|state| state.crowd.bears = Some(at_a_time));
    }

    /// Removes the limit and the delay.
    pub fn bear_all(&self) {
        self.shared.with(|state| state.crowd.bears = None);
    }

    /// The maximum number of concurrent requests so far.
    pub fn most_inside(&self) -> usize {
        self.shared.look(|state| state.crowd.most)
    }
}

impl Shared {
    /// Admits a request, unless there are too many.
    pub(super) fn enter(&self, request: &Request) -> Result<Option<Inside>, Reply> {
        let is_about_an_object =
            matches!(request.verb, Verb::Get | Verb::Delete | Verb::Patch) && request.name.is_some();
        self.with(|state| match &mut state.crowd {
            Crowd { bears: Some(bears), inside, most, last } if is_about_an_object => {
                *last = Some(Instant::now());
                if *inside >= *bears {
                    return Err(
                        Reply::text(429, "Too many requests, please try again later.\n").retry_after(1)
                    );
                }
                *inside += 1;
                *most = (*most).max(*inside);
                Ok(Some(Inside(self.clone())))
            }
            _ => Ok(None),
        })
    }

    /// Resolves when the delay of a request is over.
    pub(super) async fn deal_with_it(&self) {
        while let Some(end) = self.look(|state| state.crowd.last).map(|last| last + SERVICE)
            && end > Instant::now()
        {
            sleep_until(end).await;
        }
    }
}
