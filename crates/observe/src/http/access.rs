//! Authentication and authorization of requests, through the API server.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use serde::Deserialize;
use tokio::time::Instant;

use super::connections::Source;

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

/// The owner of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bearer {
    /// The token of this user.
    Known(Arc<User>),
    /// An invalid token, with the server's reason, which may be empty.
    Unknown(String),
}

/// Whether a user may do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Yes.
    Allowed,
    /// No, with the server's reason, which may be empty.
    Denied(String),
}

/// A review got no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server does not answer the review: {0}")]
pub struct ReviewError(String);

impl ReviewError {
    /// An error with this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Authenticates tokens and authorizes users.
pub trait Reviewer: Send + Sync + 'static {
    /// Finds the user of a token.
    fn identify<'a>(&'a self, token: &'a Token) -> BoxFuture<'a, Result<Bearer, ReviewError>>;

    /// Checks whether a user may `get` a path.
    fn may_get<'a>(&'a self, user: &'a User, path: &'a str) -> BoxFuture<'a, Result<Access, ReviewError>>;
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

/// Why a request was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    /// The token is missing or unknown to the API server: 401.
    Unauthenticated(String),
    /// The user lacks permission: 403.
    Forbidden(String),
    /// The API server could not review the request: 503.
    Unavailable(String),
    /// The source exceeded its rate limit: 503.
    Busy(String),
}

/// Authorizes requests through a [`Reviewer`] and caches its answers.
pub struct Authorizer {
    reviewer: Arc<dyn Reviewer>,
    tokens: Cache<Fingerprint, Bearer, ReviewError>,
    rights: Cache<(Arc<User>, String), Access, ReviewError>,
    rate: RateLimiter,
    /// Whether the last review succeeded.
    answered: AtomicBool,
}

impl Authorizer {
    /// An authorizer with empty caches.
    pub fn new(reviewer: impl Reviewer) -> Self {
        Self {
            reviewer: Arc::new(reviewer),
            tokens: Cache::new(CAPACITY),
            rights: Cache::new(CAPACITY),
            rate: RateLimiter::default(),
            answered: AtomicBool::new(true),
        }
    }

    /// Checks whether the user of a token may `get` a path.
    pub(super) async fn admit(&self, token: Token, path: &str, source: Source) -> Result<(), Rejection> {
        self.may_ask(self.tokens.contains(&token.fingerprint()), source)?;
        let user = match self.report_outage(self.identify(token).await)? {
            Bearer::Known(user) => user,
            Bearer::Unknown(reason) => {
                return Err(Rejection::Unauthenticated(because(
                    "the API server does not know this token",
                    &reason,
                )));
            }
        };
        if path.len() > MAX_PATH_LENGTH {
            return Err(Rejection::Forbidden("the path is longer than that of any page".to_owned()));
        }
        self.may_ask(self.rights.contains(&(Arc::clone(&user), path.to_owned())), source)?;
        let name = user.username.clone();
        match self.report_outage(self.may_get(user, path.to_owned()).await)? {
            Access::Allowed => Ok(()),
            Access::Denied(reason) => {
                Err(Rejection::Forbidden(because(&format!("{name} may not get {path}"), &reason)))
            }
        }
    }

    /// Applies the rate limit to requests that the cache cannot answer.
    fn may_ask(&self, known: bool, source: Source) -> Result<(), Rejection> {
        if known || self.rate.try_acquire(source) {
            return Ok(());
        }
        Err(Rejection::Busy("too many requests with new tokens or pages; retry later".to_owned()))
    }

    async fn identify(&self, token: Token) -> Result<Result<Bearer, ReviewError>, Full> {
        let (reviewer, fingerprint) = (Arc::clone(&self.reviewer), token.fingerprint());
        let ask = || async move {
            let value = reviewer.identify(&token).await?;
            let known = matches!(value, Bearer::Known(_));
            Ok(Answer { keep: if known { ALLOWED_FOR } else { DENIED_FOR }, value })
        };
        self.tokens.get(fingerprint, ask).await
    }

    async fn may_get(&self, user: Arc<User>, path: String) -> Result<Result<Access, ReviewError>, Full> {
        let (reviewer, key) = (Arc::clone(&self.reviewer), (Arc::clone(&user), path.clone()));
        let ask = || async move {
            let value = reviewer.may_get(&user, &path).await?;
            let keep = if value == Access::Allowed { ALLOWED_FOR } else { DENIED_FOR };
            Ok(Answer { value, keep })
        };
        self.rights.get(key, ask).await
    }

    /// Logs only when reviews start to fail and when they succeed again: any client can cause
    /// a review, so a line for each failure could flood the log.
    fn report_outage<V>(&self, answer: Result<Result<V, ReviewError>, Full>) -> Result<V, Rejection> {
        match answer {
            Ok(Ok(value)) => {
                if !self.answered.swap(true, Ordering::Relaxed) {
                    tracing::info!("the API server answers reviews again; pages are available");
                }
                Ok(value)
            }
            Ok(Err(error)) => {
                if self.answered.swap(false, Ordering::Relaxed) {
                    tracing::warn!(
                        %error,
                        "the API server does not answer reviews of tokens and permissions, so only users whose \
                         approval is cached can read the pages. Check that the API server is reachable and that \
                         this process may create tokenreviews.authentication.k8s.io and \
                         subjectaccessreviews.authorization.k8s.io"
                    );
                }
                Err(Rejection::Unavailable(error.to_string()))
            }
            Err(Full) => Err(Rejection::Unavailable("too many reviews in flight".to_owned())),
        }
    }
}

fn because(what: &str, reason: &str) -> String {
    if reason.is_empty() { what.to_owned() } else { format!("{what}: {reason}") }
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

/// An answer and its time to live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<V> {
    /// What was found.
    pub value: V,
    /// How long it is good for.
    pub keep: Duration,
}

/// A lookup, in flight or complete: its outcome, and until when that counts.
type Lookup<V, E> = Shared<BoxFuture<'static, (Result<V, E>, Instant)>>;
type Lookups<K, V, E> = HashMap<K, Lookup<V, E>>;

/// Caches answers. An error goes to all who wait for it and is not cached. Clones share the answers.
#[derive(Clone)]
pub struct Cache<K, V, E> {
    lookups: Arc<Mutex<Lookups<K, V, E>>>,
    capacity: usize,
}

/// Every entry of the cache is a lookup in flight, so there is no room for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl<K, V, E> Cache<K, V, E>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    /// A cache with room for this many answers.
    pub fn new(capacity: usize) -> Self {
        Self { lookups: Arc::default(), capacity }
    }

    /// The number of answers and of lookups in flight.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        lock(&self.lookups).len()
    }

    /// Whether the answer is cached or its lookup is in flight.
    pub fn contains(&self, key: &K) -> bool {
        lock(&self.lookups).get(key).is_some_and(counts)
    }

    /// The cached answer, or that of the lookup `ask`, unless one is in flight already. The
    /// lookup continues if this future is dropped, because others may wait for it.
    pub async fn get<F>(&self, key: K, ask: impl FnOnce() -> F) -> Result<Result<V, E>, Full>
    where
        F: Future<Output = Result<Answer<V>, E>> + Send + 'static,
    {
        let lookup = {
            let mut lookups = lock(&self.lookups);
            match lookups.get(&key).filter(|lookup| counts(lookup)) {
                Some(lookup) => lookup.clone(),
                None => {
                    lookups.remove(&key);
                    make_room(&mut lookups, self.capacity)?;
                    let lookup = ask().map(with_end).boxed().shared();
                    lookups.insert(key.clone(), lookup.clone());
                    self.finish(key, lookup.clone());
                    lookup
                }
            }
        };
        Ok(lookup.await.0)
    }

    /// Completes a lookup, and forgets an outcome that does not count any more.
    fn finish(&self, key: K, lookup: Lookup<V, E>) {
        let lookups = Arc::clone(&self.lookups);
        tokio::spawn(async move {
            // Who asked has the outcome.
            let _ = lookup.await;
            let mut lookups = lock(&lookups);
            if lookups.get(&key).is_some_and(|lookup| !counts(lookup)) {
                lookups.remove(&key);
            }
        });
    }
}

fn with_end<V, E>(outcome: Result<Answer<V>, E>) -> (Result<V, E>, Instant) {
    match outcome {
        Ok(Answer { value, keep }) => (Ok(value), Instant::now() + keep),
        Err(error) => (Err(error), Instant::now()),
    }
}

fn counts<V, E>(lookup: &Lookup<V, E>) -> bool {
    lookup.peek().is_none_or(|(_, until)| *until > Instant::now())
}

/// Removes expired answers and, if that is not enough, those that expire next. Denials
/// expire sooner than approvals, so made-up tokens go before valid ones.
fn make_room<K: Clone + Eq + Hash, V, E>(
    lookups: &mut Lookups<K, V, E>,
    capacity: usize,
) -> Result<(), Full> {
    if lookups.len() >= capacity {
        lookups.retain(|_, lookup| counts(lookup));
    }
    while lookups.len() >= capacity {
        let known = lookups.iter().filter_map(|(key, lookup)| Some((lookup.peek()?.1, key)));
        let (_, key) = known.min_by_key(|(until, _)| *until).ok_or(Full)?;
        let key = key.clone();
        lookups.remove(&key);
    }
    Ok(())
}

// A panic cannot leave the map half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
