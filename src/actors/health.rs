//! Types whose requests hang: they must not take all workers with them.

use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

use crate::api::{ApiError, ErrorClass};
use crate::object::GroupResource;

/// A failure that took this long has held up a worker.
const SLOW: Duration = Duration::from_secs(2);
/// How long a type is left alone after its first slow failure; doubled with each try
/// that fails slowly, too.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest time that a type is left alone.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Remembers the types whose requests have failed slowly (a conversion webhook
/// that hangs, an aggregated API that does not answer). While a type is left
/// alone, its requests fail at once with what failed before; then one of them
/// tries, and the others wait for what becomes of it.
#[derive(Debug, Default)]
pub struct TypeHealth {
    slow: DashMap<GroupResource, Slow>,
}

#[derive(Debug)]
struct Slow {
    since: Instant,
    until: Instant,
    wait: Duration,
    error: ApiError,
}

impl TypeHealth {
    /// Makes a request about an object of this type, unless the type is left
    /// alone. Nothing is sent before it is polled.
    ///
    /// # Errors
    /// The request's own, or the one for which the type is left alone.
    pub async fn request<T>(
        &self,
        resource: &GroupResource,
        request: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        let began = Instant::now();
        self.admit(resource, began)?;
        let result = request.await;
        self.note(resource, began, result.as_ref().err());
        result
    }

    fn admit(&self, resource: &GroupResource, now: Instant) -> Result<(), ApiError> {
        let Some(mut slow) = self.slow.get_mut(resource) else { return Ok(()) };
        if now < slow.until {
            return Err(slow.error.clone());
        }
        // Should this one never come back, another may try after a while.
        slow.until = now + LONGEST_WAIT;
        Ok(())
    }

    fn note(&self, resource: &GroupResource, began: Instant, error: Option<&ApiError>) {
        let now = Instant::now();
        match error {
            Some(error) if error.class == ErrorClass::Transient && now - began >= SLOW => {
                let wait = match self.slow.get(resource) {
                    // It hung together with the one for which the type is left alone: all that
                    // were under way in an outage are one failure.
                    Some(slow) if began < slow.since => return,
                    Some(slow) => (slow.wait * 2).min(LONGEST_WAIT),
                    None => FIRST_WAIT,
                };
                let slow = Slow { since: now, until: now + wait, wait, error: error.clone() };
                self.slow.insert(resource.clone(), slow);
            }
            // It answers, be it with a refusal.
            _ => {
                self.slow.remove(resource);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn failure() -> ApiError {
        ApiError {
            class: ErrorClass::Transient,
            action: "GET",
            target: "widgets.example.com a/b".into(),
            message: "no answer within 5 s".into(),
            code: None,
        }
    }

    async fn slow_failure(health: &TypeHealth, resource: &str, sent: &Cell<u32>) -> Result<(), ApiError> {
        let request = async {
            sent.set(sent.get() + 1);
            tokio::time::sleep(Duration::from_secs(5)).await;
            Err(failure())
        };
        health.request(&GroupResource::parse(resource), request).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_type_that_failed_slowly_is_left_alone_and_others_are_not() {
        let (health, sent) = (TypeHealth::default(), Cell::new(0));
        assert!(slow_failure(&health, "widgets.example.com", &sent).await.is_err());
        let before = Instant::now();
        let again = slow_failure(&health, "widgets.example.com", &sent).await;
        assert_eq!(again, Err(failure()), "in the words of the first failure");
        assert_eq!((sent.get(), before.elapsed()), (1, Duration::ZERO), "nothing was sent, nobody waited");
        let other = health.request(&GroupResource::parse("configmaps"), async { Ok(()) }).await;
        assert_eq!(other, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_tries_when_the_time_is_over() {
        let (health, sent) = (TypeHealth::default(), Cell::new(0));
        assert!(slow_failure(&health, "widgets.example.com", &sent).await.is_err());
        tokio::time::advance(FIRST_WAIT).await;
        let (first, second) = tokio::join!(
            slow_failure(&health, "widgets.example.com", &sent),
            slow_failure(&health, "widgets.example.com", &sent)
        );
        assert!(first.is_err() && second.is_err());
        assert_eq!(sent.get(), 2, "the second did not wait for a worker's time");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_hang_together_are_one_failure() {
        let (health, sent) = (TypeHealth::default(), Cell::new(0));
        let all = (0..100).map(|_| slow_failure(&health, "widgets.example.com", &sent));
        assert!(futures::future::join_all(all).await.iter().all(Result::is_err));
        assert_eq!(sent.get(), 100, "all were under way before one had failed");
        tokio::time::advance(FIRST_WAIT).await;
        let widgets = GroupResource::parse("widgets.example.com");
        assert_eq!(health.request(&widgets, async { Ok(()) }).await, Ok(()), "after the first wait");
    }

    #[tokio::test(start_paused = true)]
    async fn each_try_that_hangs_doubles_the_wait() {
        let (health, sent) = (TypeHealth::default(), Cell::new(0));
        let mut wait = FIRST_WAIT;
        for tries in 1..=10 {
            assert!(slow_failure(&health, "widgets.example.com", &sent).await.is_err());
            assert_eq!(sent.get(), tries);
            tokio::time::advance(wait - Duration::from_millis(1)).await;
            assert!(slow_failure(&health, "widgets.example.com", &sent).await.is_err());
            assert_eq!(sent.get(), tries, "not yet");
            tokio::time::advance(Duration::from_millis(1)).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_it_and_quick_failures_do_not_begin_it() {
        let health = TypeHealth::default();
        let (widgets, sent) = (GroupResource::parse("widgets.example.com"), Cell::new(0));
        let quick: Result<(), _> = health.request(&widgets, async { Err(failure()) }).await;
        assert!(quick.is_err());
        assert_eq!(health.request(&widgets, async { Ok(()) }).await, Ok(()));
        assert!(slow_failure(&health, "widgets.example.com", &sent).await.is_err());
        tokio::time::advance(FIRST_WAIT).await;
        assert_eq!(health.request(&widgets, async { Ok(()) }).await, Ok(()));
        assert_eq!(health.request(&widgets, async { Ok(()) }).await, Ok(()));
    }
}
