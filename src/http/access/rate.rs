//! How many questions to the API server one source may cause.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::http::connections::Source;

/// Questions at once.
pub(super) const BURST: u32 = 20;

/// One more question after each of these.
pub(super) const REFILL: Duration = Duration::from_millis(200);

/// Sources that are remembered; of more, nothing is asked.
const SOURCES: usize = 4096;

/// Counts the questions of each source. Whoever sends one made-up token after the other
/// makes the API server look at five of them in a second, and keeps nobody else out.
#[derive(Debug, Default)]
pub(super) struct Rate(Mutex<HashMap<Source, Instant>>);

impl Rate {
    /// Whether this source may cause one more question; if so, it has.
    pub(super) fn take(&self, source: Source) -> bool {
        let now = Instant::now();
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.len() >= SOURCES {
            // The others may ask as much as one that was never heard of.
            sources.retain(|_, paid| *paid > now);
        }
        if sources.len() >= SOURCES && !sources.contains_key(&source) {
            return false;
        }
        // When all that was asked for is paid for.
        let paid = sources.entry(source).or_insert(now);
        let next = (*paid).max(now) + REFILL;
        let may = next <= now + REFILL * BURST;
        if may {
            *paid = next;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn source(number: u32) -> Source {
        IpAddr::V4(Ipv4Addr::from_bits(number)).into()
    }

    #[tokio::test]
    async fn a_source_has_a_burst_and_then_one_question_after_the_other() {
        tokio::time::pause();
        let rate = Rate::default();
        let asks = |times: u32| (0..times).filter(|_| rate.take(source(1))).count();
        assert_eq!(asks(1000), BURST as usize);
        assert!(rate.take(source(2)), "another one may");
        tokio::time::advance(REFILL).await;
        assert_eq!(asks(1000), 1);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(asks(1000), BURST as usize);
    }

    #[tokio::test]
    async fn only_so_many_sources_are_remembered() {
        tokio::time::pause();
        let rate = Rate::default();
        let asks = |from: u32| (from..from + 10_000).filter(|number| rate.take(source(*number))).count();
        assert_eq!(asks(0), SOURCES);
        assert_eq!(rate.0.lock().unwrap().len(), SOURCES);
        tokio::time::advance(REFILL).await;
        assert_eq!(asks(20_000), SOURCES);
    }
}
