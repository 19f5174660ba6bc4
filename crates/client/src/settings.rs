//! Settings of the API client.

use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use http::Method;
use tokio::time::Instant;

use super::WatchProtocol;
use kube_gc_config::Settings;
use kube_gc_decode::Encoding;

/// The field manager of every patch, and the start of the user agent.
pub const FIELD_MANAGER: &str = "kube-gc";
/// The `User-Agent` of every request.
pub const USER_AGENT: &str = concat!("kube-gc/", env!("CARGO_PKG_VERSION"));
/// The source component of events: the same as that of the control plane's own collector, so
/// that existing filters match.
pub const EVENT_COMPONENT: &str = "garbage-collector-controller";

/// Settings of an [`Api`](super::Api). `config/default.toml` has their defaults.
#[derive(Clone, Debug)]
pub struct ApiSettings {
    pub request_timeout: Duration,
    /// Objects per page of a paged list, and per delivered batch of any list.
    pub page_size: u32,
    /// The preferred encoding of lists and watches. The server may answer in another one.
    pub encoding: Encoding,
    /// Whether to accept compressed lists. They need the feature `gzip`.
    pub compressed_lists: bool,
    /// Whether monitors ask for their lists as streams, until the server refuses it.
    pub streaming_lists: bool,
    pub watch_protocol: WatchProtocol,
    /// Requests about single objects per second; 0 means unlimited.
    pub qps: u32,
    /// The burst of these requests; 0 means as many as [`qps`](Self::qps).
    pub burst: u32,
    pub watch: WatchSettings,
    /// The seed of all jitter; random by default.
    pub seed: u64,
    pub clock: WallClock,
}

/// A clock for the time of day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WallClock {
    #[default]
    System,
    /// A given time plus what has passed on tokio's clock, for simulations.
    Since(SystemTime, Instant),
}

impl WallClock {
    pub fn now(&self) -> SystemTime {
        match self {
            Self::System => SystemTime::now(),
            Self::Since(time, moment) => *time + moment.elapsed(),
        }
    }
}

impl Default for ApiSettings {
    fn default() -> Self {
        Self::from(&Settings::default())
    }
}

impl From<&Settings> for ApiSettings {
    fn from(Settings { client, watch, .. }: &Settings) -> Self {
        Self {
            request_timeout: client.request_timeout,
            page_size: watch.page_size,
            encoding: match client.encoding {
                kube_gc_config::Encoding::Json => Encoding::Json,
                _ => Encoding::Protobuf,
            },
            compressed_lists: client.compression,
            streaming_lists: watch.streaming_lists,
            watch_protocol: client.watch_protocol,
            qps: client.qps,
            burst: client.burst,
            watch: WatchSettings {
                shortest: Duration::from_secs(300),
                longest: Duration::from_secs(600),
                least_backoff: watch.min_backoff,
                greatest_backoff: watch.max_backoff,
            },
            seed: RandomState::new().hash_one(0),
            clock: WallClock::System,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchSettings {
    /// The least `timeoutSeconds` of a watch. Each watch uses a random value, so that they do not
    /// all end together.
    pub shortest: Duration,
    /// The greatest `timeoutSeconds` of a watch.
    pub longest: Duration,
    pub least_backoff: Duration,
    /// The longest wait after repeated failures.
    pub greatest_backoff: Duration,
}

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    Get,
    List,
    Watch,
    Delete,
    Patch,
    Create,
    /// Replaces a part of an object, by PUT.
    Update,
    DeleteCollection,
    /// Reads the server's version and discovery documents.
    Discover,
}

impl Verb {
    /// The label value in metrics, the HTTP method, and the word in error messages.
    pub(super) const fn forms(self) -> (&'static str, Method, &'static str) {
        match self {
            Self::Get => ("get", Method::GET, "GET"),
            Self::List => ("list", Method::GET, "LIST"),
            Self::Watch => ("watch", Method::GET, "WATCH"),
            Self::Delete => ("delete", Method::DELETE, "DELETE"),
            Self::Patch => ("patch", Method::PATCH, "PATCH"),
            Self::Create => ("create", Method::POST, "CREATE"),
            Self::Update => ("update", Method::PUT, "PUT"),
            Self::DeleteCollection => ("deletecollection", Method::DELETE, "DELETE"),
            Self::Discover => ("discover", Method::GET, "GET"),
        }
    }
}

/// Random numbers that a simulation can repeat. Not for secrets.
#[derive(Debug)]
pub struct Jitter(Mutex<fastrand::Rng>);

impl Jitter {
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    pub fn random() -> Self {
        Self(Mutex::new(fastrand::Rng::new()))
    }

    fn rng(&self) -> MutexGuard<'_, fastrand::Rng> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn seed(&self) -> u64 {
        self.rng().u64(..)
    }

    /// A duration in the range; its start if it is empty.
    pub fn within(&self, range: &Range<Duration>) -> Duration {
        range.start + range.end.saturating_sub(range.start).mul_f64(self.rng().f64())
    }
}
