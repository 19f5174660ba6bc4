//! Authentication and authorization of requests, through the API server.

mod cache;
mod rate;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use futures::future::BoxFuture;

use self::cache::{Answer, Cache, Full};
use self::rate::RateLimiter;
use super::connections::Source;
use crate::api::{Access, Bearer, ReviewError, Reviews, User};

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

/// Authenticates tokens and authorizes users.
pub trait Reviewer: Send + Sync + 'static {
    /// Finds the user of a token.
    fn identify(&self, token: Token) -> BoxFuture<'static, Result<Bearer, ReviewError>>;

    /// Checks whether a user may `get` a path.
    fn may_get(&self, user: Arc<User>, path: String) -> BoxFuture<'static, Result<Access, ReviewError>>;
}

impl Reviewer for Reviews {
    fn identify(&self, token: Token) -> BoxFuture<'static, Result<Bearer, ReviewError>> {
        let reviews = self.clone();
        Box::pin(async move { reviews.identify(token.reveal()).await })
    }

    fn may_get(&self, user: Arc<User>, path: String) -> BoxFuture<'static, Result<Access, ReviewError>> {
        let reviews = self.clone();
        Box::pin(async move { reviews.may_get(&user, &path).await })
    }
}

/// A bearer token. Its [`Debug`](fmt::Debug) output does not contain it.
pub struct Token(String);

impl Token {
    /// Accepts printable ASCII without spaces.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let fine = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        fine.then(|| Self(text.to_owned()))
    }

    /// The token itself.
    #[must_use]
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

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer").finish_non_exhaustive()
    }
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
        match self.report_outage(self.may_get(user, path).await)? {
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
        let ask = |token: Token| {
            let bearer = self.reviewer.identify(token);
            async move {
                let value = bearer.await?;
                let known = matches!(value, Bearer::Known(_));
                Ok(Answer { keep: if known { ALLOWED_FOR } else { DENIED_FOR }, value })
            }
        };
        self.tokens.get(token.fingerprint(), || ask(token)).await
    }

    async fn may_get(&self, user: Arc<User>, path: &str) -> Result<Result<Access, ReviewError>, Full> {
        let ask = || {
            let access = self.reviewer.may_get(Arc::clone(&user), path.to_owned());
            async move {
                let value = access.await?;
                let keep = if value == Access::Allowed { ALLOWED_FOR } else { DENIED_FOR };
                Ok(Answer { value, keep })
            }
        };
        self.rights.get((Arc::clone(&user), path.to_owned()), ask).await
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

#[cfg(test)]
mod tests;
