//! Authentication and authorization of requests, through the API server.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use futures::future::BoxFuture;
use serde::Deserialize;
use tokio::time::Instant;

use crate::telemetry::labels::HttpRefusal;

/// How long an approval is cached: the user of a token, and the permission of a user. A
/// token or permission that was revoked keeps working for this long.
const ALLOWED_FOR: Duration = Duration::from_secs(60);

/// How long a denial is cached. A permission that was granted takes effect after it.
const DENIED_FOR: Duration = Duration::from_secs(10);

/// The capacity of either cache. A scraper and a few people use far fewer tokens and pages;
/// anything beyond that is made up.
const CAPACITY: usize = 1024;

/// The longest path, in bytes, that is reviewed. The paths of all pages are shorter, and
/// the cache stores each path that was reviewed.
const MAX_PATH_LENGTH: usize = 128;

/// A user, as the API server describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct User {
    /// The name, such as `system:serviceaccount:monitoring:prometheus`.
    pub username: String,
    /// Distinguishes the user from an earlier one of the same name.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Further attributes from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Why a review has approved of nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// The token is unknown, or the user may not do this: the server's reason, which may be empty.
    #[error("the API server denies it: {0}")]
    Denied(String),
    /// There is no usable answer.
    #[error("the API server does not answer the review: {0}")]
    Unanswered(String),
}

/// Authenticates tokens and authorizes users.
pub trait Reviewer: Send + Sync + 'static {
    /// Finds the user of a token.
    fn identify<'a>(&'a self, token: &'a Token) -> BoxFuture<'a, Result<Arc<User>, ReviewError>>;

    /// Checks whether a user may `get` a path.
    fn may_get<'a>(&'a self, user: &'a User, path: &'a str) -> BoxFuture<'a, Result<(), ReviewError>>;
}

/// A bearer token. Its [`Debug`](fmt::Debug) output does not contain it.
pub struct Token(String);

impl Token {
    /// Accepts printable ASCII without spaces.
    pub fn new(text: &str) -> Option<Self> {
        let fine = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        fine.then(|| Self(text.to_owned()))
    }

    /// The token itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The key of the token in the cache, which does not store the token itself.
    fn fingerprint(&self) -> Fingerprint {
        let mut fingerprint = [0; SHA256_OUTPUT_LEN];
        fingerprint.copy_from_slice(digest(&SHA256, self.0.as_bytes()).as_ref());
        fingerprint
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

type Fingerprint = [u8; SHA256_OUTPUT_LEN];

/// The source of connections: an IPv4 address, or a /64 network of IPv6, all of whose
/// addresses one machine can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Source(IpAddr);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            address => address,
        })
    }
}

/// Why a request was rejected, as a metric and in words.
pub(crate) type Rejection = (HttpRefusal, String);

/// Authorizes requests through a [`Reviewer`] and caches its answers.
pub struct Authorizer {
    reviewer: Box<dyn Reviewer>,
    tokens: Cache<Fingerprint, Result<Arc<User>, Rejection>>,
    rights: Cache<(Arc<User>, String), Result<(), Rejection>>,
    rate: RateLimiter,
    /// Whether the last review succeeded.
    answered: AtomicBool,
}

impl Authorizer {
    /// An authorizer with empty caches.
    pub fn new(reviewer: impl Reviewer) -> Self {
        Self {
            reviewer: Box::new(reviewer),
            tokens: Cache::new(CAPACITY),
            rights: Cache::new(CAPACITY),
            rate: RateLimiter::default(),
            answered: AtomicBool::new(true),
        }
    }

    /// Checks whether the user of a token may `get` a path.
    pub(crate) async fn admit(&self, token: &Token, path: &str, source: Source) -> Result<(), Rejection> {
        let denied = (HttpRefusal::Unauthenticated, "the API server does not know this token".to_owned());
        let ask = || self.reviewer.identify(token);
        let user = self.reviewed(&self.tokens, token.fingerprint(), source, denied, ask).await?;
        if path.len() > MAX_PATH_LENGTH {
            let why = "the path is longer than that of any page".to_owned();
            return Err((HttpRefusal::Forbidden, why));
        }
        let denied = (HttpRefusal::Forbidden, format!("{} may not get {path}", user.username));
        let right = (Arc::clone(&user), path.to_owned());
        let ask = || self.reviewer.may_get(&user, path);
        self.reviewed(&self.rights, right, source, denied, ask).await
    }

    /// The cached answer, or that of a review, to which the rate limit applies.
    async fn reviewed<'a, K: Clone + Eq + Hash, T: Clone>(
        &self,
        cache: &Cache<K, Result<T, Rejection>>,
        key: K,
        source: Source,
        (refusal, denied): Rejection,
        ask: impl FnOnce() -> BoxFuture<'a, Result<T, ReviewError>>,
    ) -> Result<T, Rejection> {
        if let Some(answer) = cache.get(&key) {
            return answer;
        }
        if !self.rate.try_acquire(source) {
            let reason = "too many requests with new tokens or pages; retry later";
            return Err((HttpRefusal::Busy, reason.to_owned()));
        }
        let answer = ask().await;
        let outage = answer.as_ref().err().filter(|error| matches!(error, ReviewError::Unanswered(_)));
        // Only at the beginning and the end of an outage: any client can cause a review, so a line for
        // each failure could flood the log.
        match (outage, self.answered.swap(outage.is_none(), Ordering::Relaxed)) {
            (Some(error), true) => tracing::warn!(
                %error,
                "the API server does not answer reviews of tokens and permissions, so only users whose \
                 approval is cached can read the pages. Check that the API server is reachable and that \
                 this process may create tokenreviews.authentication.k8s.io and \
                 subjectaccessreviews.authorization.k8s.io"
            ),
            (None, false) => tracing::info!("the API server answers reviews again; pages are available"),
            _ => {}
        }
        let answer = match answer {
            Ok(approved) => Ok(approved),
            Err(ReviewError::Denied(reason)) if reason.is_empty() => Err((refusal, denied)),
            Err(ReviewError::Denied(reason)) => Err((refusal, format!("{denied}: {reason}"))),
            Err(error) => return Err((HttpRefusal::Unavailable, error.to_string())),
        };
        cache.keep(key, answer.clone(), if answer.is_ok() { ALLOWED_FOR } else { DENIED_FOR });
        answer
    }
}

/// Reviews in a burst.
const BURST: u32 = 20;

/// The interval after which one more review is allowed.
const REFILL: Duration = Duration::from_millis(200);

/// The most sources to track. Requests of further sources are rejected.
const SOURCES: usize = 4096;

/// Limits each source separately. A client that sends made-up tokens causes at most five
/// reviews per second, and does not use up the limit of others.
#[derive(Debug, Default)]
struct RateLimiter(Mutex<HashMap<Source, Instant>>);

impl RateLimiter {
    /// Counts one review of this source; false if it exceeds the limit.
    fn try_acquire(&self, source: Source) -> bool {
        let now = Instant::now();
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.len() >= SOURCES {
            // A source whose burst is full again is the same as a new one.
            sources.retain(|_, refilled| *refilled > now);
        }
        if sources.len() >= SOURCES && !sources.contains_key(&source) {
            return false;
        }
        // The time at which the burst is full again.
        let refilled = sources.entry(source).or_insert(now);
        let next = (*refilled).max(now) + REFILL;
        let may = next <= now + REFILL * BURST;
        if may {
            *refilled = next;
        }
        may
    }
}

/// Keeps answers, each for a time. Clones share them.
#[derive(Clone, Debug)]
pub struct Cache<K, V> {
    answers: Arc<Mutex<HashMap<K, (V, Instant)>>>,
    capacity: usize,
}

impl<K: Clone + Eq + Hash, V: Clone> Cache<K, V> {
    /// A cache with room for this many answers.
    pub fn new(capacity: usize) -> Self {
        Self { answers: Arc::default(), capacity }
    }

    /// The answer, if it is kept.
    pub fn get(&self, key: &K) -> Option<V> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(key).filter(|(_, until)| *until > Instant::now()).map(|(value, _)| value.clone())
    }

    /// Keeps an answer for this long. If there is no room, those go that have expired, or else the one
    /// that expires next: denials before approvals, so made-up tokens before valid ones.
    pub fn keep(&self, key: K, value: V, time: Duration) {
        let now = Instant::now();
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= self.capacity {
            answers.retain(|_, (_, until)| *until > now);
        }
        if answers.len() >= self.capacity {
            let next = answers.iter().min_by_key(|(_, (_, until))| *until).map(|(key, _)| key.clone());
            next.and_then(|key| answers.remove(&key));
        }
        answers.insert(key, (value, now + time));
    }
}

#[cfg(test)]
mod tests;
