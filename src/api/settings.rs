//! How the API server is spoken to.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::decode::Encoding;
use kube_gc_core::object::GroupResource;

/// The field manager of every patch, and the start of the user agent.
pub const FIELD_MANAGER: &str = "kube-gc";
/// The `User-Agent` of every request.
pub const USER_AGENT: &str = concat!("kube-gc/", env!("CARGO_PKG_VERSION"));
/// The component that events come from; the name that users of the control
/// plane's own collector filter by.
pub const EVENT_COMPONENT: &str = "garbage-collector-controller";

/// Limits and habits of an [`Api`](super::Api).
#[derive(Clone, Debug)]
pub struct ApiSettings {
    /// Every unary call ends within this time; the client underneath has no read
    /// timeout of its own.
    pub request_timeout: Duration,
    /// Objects per page of a paged list, and per delivered batch of any list.
    pub page_size: u32,
    /// In what lists and watches are asked for, if the server knows it; which one it
    /// takes, each answer says.
    pub encoding: Encoding,
    /// Whether lists may come compressed.
    pub compressed_lists: bool,
    /// What watches are carried by.
    pub watch_protocol: WatchProtocol,
    /// Requests about single objects per second; 0: unlimited.
    pub qps: u32,
    /// So many of these at once, when [`qps`](Self::qps) limits; 0: as many as
    /// in a second.
    pub burst: u32,
    /// Lists and watches.
    pub watch: WatchSettings,
    /// Hears of every request.
    pub observer: Arc<dyn RequestObserver>,
    /// Where jitter begins. Chosen at random by default; a simulation sets it.
    pub seed: u64,
    /// What is written into events as the time.
    pub clock: WallClock,
}

/// What watches are carried by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchProtocol {
    /// HTTP/2, if the server offers it: many watches share a connection.
    #[default]
    Http2,
    /// HTTP/1.1: each has its own.
    Http1,
}

/// Tells the time of day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WallClock {
    /// As the operating system does.
    #[default]
    System,
    /// As tokio's clock moves on from a moment, which a simulation can repeat.
    Since(SystemTime, Instant),
}

impl WallClock {
    /// The time of day.
    #[must_use]
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
    /// The least `timeoutSeconds` of a watch; each takes a random one, so that
    /// they do not all end together.
    pub shortest: Duration,
    /// The greatest `timeoutSeconds` of a watch.
    pub longest: Duration,
    /// A watch that is silent this much longer than its `timeoutSeconds` is dead.
    pub grace: Duration,
    /// The least time between two watch starts, jittered upwards by up to half:
    /// a server that closes every watch at once must not be hammered.
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

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Lists a collection or a page of it.
    List,
    /// Opens a watch.
    Watch,
    /// Deletes an object.
    Delete,
    /// Patches an object.
    Patch,
    /// Creates an object (an event).
    Create,
    /// Asks what the server is and serves.
    Discover,
}

impl Verb {
    /// The name that metrics use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Delete => "delete",
            Self::Patch => "patch",
            Self::Create => "create",
            Self::Discover => "discover",
        }
    }
}

/// Hears of every request, for metrics.
pub trait RequestObserver: fmt::Debug + Send + Sync {
    /// A request has been answered (`code`) or has failed without an answer.
    /// A watch counts when it opens; a list when it is read to the end.
    fn request(&self, verb: Verb, resource: &GroupResource, code: Option<u16>, duration: Duration);
}

/// The observer that looks away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl RequestObserver for Unobserved {
    fn request(&self, _: Verb, _: &GroupResource, _: Option<u16>, _: Duration) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wall_clock_can_follow_a_clock_that_tests_move() {
        let clock = WallClock::Since(SystemTime::UNIX_EPOCH, Instant::now());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(clock.now(), SystemTime::UNIX_EPOCH + Duration::from_secs(60));
    }
}
