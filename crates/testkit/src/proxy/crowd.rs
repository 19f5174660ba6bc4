//! A server that bears only so many requests about single objects at a time.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::request::{Request, Verb};
use super::rules::Reply;
use super::{Proxy, Shared};

/// How long it takes for one, counted from when the last one came: so that requests that
/// are sent together also meet, however busy the machine is.
const SERVICE: Duration = Duration::from_millis(5);

/// How many are inside, and how many may be.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    bears: Option<usize>,
    inside: usize,
    most: usize,
    /// When the last one came, be it let in or not.
    last: Option<Instant>,
}

/// A request that is inside, until this is dropped.
pub(super) struct Inside(Shared);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.with(|state| state.crowd.inside -= 1);
    }
}

impl Proxy {
    /// From now on requests about single objects take a while (`SERVICE`), and those that
    /// come while so many are inside are refused, as the API server does it. Nobody is
    /// let in at 0.
    pub fn bear(&self, at_a_time: usize) {
        self.shared.with(|state| state.crowd.bears = Some(at_a_time));
    }

    /// From now on everybody is let in, at once.
    pub fn bear_all(&self) {
        self.shared.with(|state| state.crowd.bears = None);
    }

    /// How many were inside at a time, at most.
    pub fn most_inside(&self) -> usize {
        self.shared.look(|state| state.crowd.most)
    }
}

impl Shared {
    /// Lets a request in, unless there are too many.
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

    /// Resolves when a request that is inside has been dealt with.
    pub(super) async fn deal_with_it(&self) {
        while let Some(end) = self.look(|state| state.crowd.last).map(|last| last + SERVICE)
            && end > Instant::now()
        {
            sleep_until(end).await;
        }
    }
}
