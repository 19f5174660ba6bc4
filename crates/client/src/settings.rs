//! Settings of the API client.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use kube_gc_core::object::GroupResource;
use kube_gc_decode::Encoding;

/// The field manager of every patch, and the start of the user agent.
pub const FIELD_MANAGER: &str = "kube-gc";
/// The `User-Agent` of every request.
pub const USER_AGENT: &str = concat!("kube-gc/", env!("CARGO_PKG_VERSION"));
/// The source component of events: the same as that of the control plane's own collector, so
/// that existing filters match.
pub const EVENT_COMPONENT: &str = "garbage-collector-controller";

/// Settings of an [`Api`](super::Api).
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// The time limit of a unary request.
    pub request_timeout: Duration,
    /// Objects per page of a paged list, and per delivered batch of any list.
    pub page_size: u32,
    /// The preferred encoding of lists and watches. The server may answer in another one.
    pub encoding: Encoding,
    /// Whether to accept compressed lists.
    pub compressed_lists: bool,
    /// Whether monitors ask for their lists as streams, until the server refuses it.
    pub streaming_lists: bool,
    /// The HTTP version of watches.
    pub watch_protocol: WatchProtocol,
    /// Requests about single objects per second; 0 means unlimited.
    pub qps: u32,
    /// The burst of these requests; 0 means as many as [`qps`](Self::qps).
    pub burst: u32,
    /// Timing of lists and watches.
    pub watch: WatchSettings,
    /// Receives every request.
    pub observer: Arc<dyn RequestObserver>,
    /// The seed of all jitter; random by default.
    pub seed: u64,
    /// The clock of event timestamps.
    pub clock: WallClock,
}

/// The HTTP version of watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchProtocol {
    /// HTTP/2, if the server offers it: watches share connections.
    #[default]
    Http2,
    /// HTTP/1.1: each watch has its own connection.
    Http1,
}

/// A clock for the time of day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WallClock {
    /// The operating system's clock.
    #[default]
    System,
    /// A given time plus what has passed on tokio's clock, for simulations.
    Since(SystemTime, Instant),
}

impl WallClock {
    /// The time of day.
    pub fn now(&self) -> SystemTime {
        match self {
            Self::System => SystemTime::now(),
            Self::Since(time, moment) => *time + moment.elapsed(),
        }
    }
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(30),
            page_size: 500,
            encoding: Encoding::Protobuf,
            compressed_lists: false,
            streaming_lists: false,
            watch_protocol: WatchProtocol::default(),
            qps: 0,
            burst: 0,
            watch: WatchSettings::default(),
            observer: Arc::new(Unobserved),
            seed: RandomState::new().hash_one(0),
            clock: WallClock::System,
        }
    }
}

/// Timing of lists and watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchSettings {
    /// The least `timeoutSeconds` of a watch. Each watch uses a random value, so that they do not
    /// all end together.
    pub shortest: Duration,
    /// The greatest `timeoutSeconds` of a watch.
    pub longest: Duration,
    /// A watch that does not end within its `timeoutSeconds` and this time is dead.
    pub grace: Duration,
    /// The least time between two starts of a watch, with up to half of it added at random: a
    /// server that closes every watch at once must not be flooded.
    pub least_interval: Duration,
    /// The first wait after a failure.
    pub least_backoff: Duration,
    /// The longest wait after repeated failures.
    pub greatest_backoff: Duration,
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            shortest: Duration::from_secs(300),
            longest: Duration::from_secs(600),
            grace: Duration::from_secs(15),
            least_interval: Duration::from_secs(1),
            least_backoff: Duration::from_millis(800),
            greatest_backoff: Duration::from_secs(30),
        }
    }
}

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Reads an object.
    Get,
    /// Lists a collection, or a page of it.
    List,
    /// Opens a watch.
    Watch,
    /// Deletes an object.
    Delete,
    /// Patches an object.
    Patch,
    /// Creates an event.
    Create,
    /// Replaces a part of an object, by PUT.
    Update,
    /// Deletes a collection.
    DeleteCollection,
    /// Reads the server's version and discovery documents.
    Discover,
}

impl Verb {
    /// The label value in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Delete => "delete",
            Self::Patch => "patch",
            Self::Create => "create",
            Self::Update => "update",
            Self::DeleteCollection => "deletecollection",
            Self::Discover => "discover",
        }
    }
}

/// Receives every request, for metrics.
pub trait RequestObserver: fmt::Debug + Send + Sync {
    /// A request was answered with `code`, or failed without an answer. A watch counts when it
    /// opens, a list when it was read to its end.
    fn request(&self, verb: Verb, resource: &GroupResource, code: Option<u16>, duration: Duration);
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl RequestObserver for Unobserved {
    fn request(&self, _: Verb, _: &GroupResource, _: Option<u16>, _: Duration) {}
}

/// Random numbers that a simulation can repeat. Not for secrets.
#[derive(Debug)]
pub struct Jitter(Mutex<fastrand::Rng>);

impl Jitter {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    /// A stream with a random seed.
    pub fn random() -> Self {
        Self(Mutex::new(fastrand::Rng::new()))
    }

    fn rng(&self) -> MutexGuard<'_, fastrand::Rng> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seed for another stream.
    pub fn seed(&self) -> u64 {
        self.rng().u64(..)
    }

    /// A duration in the range; its start if it is empty.
    pub fn within(&self, range: &Range<Duration>) -> Duration {
        range.start + range.end.saturating_sub(range.start).mul_f64(self.rng().f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_in_the_range_and_depends_only_on_the_seed() {
        let range = Duration::from_secs(2)..Duration::from_secs(4);
        let draw = |seed| {
            let jitter = Jitter::new(seed);
            (0..100).map(|_| jitter.within(&range)).collect::<Vec<_>>()
        };
        let drawn = draw(7);
        assert!(drawn.iter().all(|duration| (range.start..=range.end).contains(duration)));
        assert!(drawn.iter().max() > drawn.iter().min());
        assert_eq!(drawn, draw(7));
        assert_ne!(drawn, draw(8));
        assert_eq!(Jitter::new(1).within(&(range.end..range.start)), range.end);
    }
}
