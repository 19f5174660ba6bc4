//! Who may read the pages: the API server is asked.

mod cache;
mod rate;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

use self::cache::{Answer, Cache, Full};
use self::rate::Rate;
use super::connections::Source;
use crate::api::{Access, Bearer, ReviewError, Reviews, User};

/// How long somebody who may goes unasked for, a token's owner as well as a user's
/// right: so long a token that was revoked, or a right that was taken away, lasts.
const ALLOWED_FOR: Duration = Duration::from_secs(60);

/// How long somebody who may not: a right that was granted takes effect after it.
const DENIED_FOR: Duration = Duration::from_secs(10);

/// Answers of either kind that are remembered. A scraper and some people have as many
/// tokens as an hour has rotations; what is more, is made up.
const CAPACITY: usize = 1024;

/// Bytes of a path that anybody is asked about. Every page's is shorter, and each one
/// asked about is remembered.
const LONGEST_PATH: usize = 128;

/// Who knows whose a token is, and what its owner may do.
pub trait Authority: Send + Sync + 'static {
    /// Whose token it is.
    fn identify(&self, token: Token) -> BoxFuture<'static, Result<Bearer, ReviewError>>;

    /// Whether a user may `get` a path.
    fn may_get(&self, user: Arc<User>, path: String) -> BoxFuture<'static, Result<Access, ReviewError>>;
}

impl Authority for Reviews {
    fn identify(&self, token: Token) -> BoxFuture<'static, Result<Bearer, ReviewError>> {
        let reviews = self.clone();
        Box::pin(async move { reviews.identify(token.reveal()).await })
    }

    fn may_get(&self, user: Arc<User>, path: String) -> BoxFuture<'static, Result<Access, ReviewError>> {
        let reviews = self.clone();
        Box::pin(async move { reviews.may_get(&user, &path).await })
    }
}

/// A token, which shows itself to nobody by accident.
pub struct Token(String);

impl Token {
    /// Of what may be one: something without blanks.
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

    /// What it is known by here: the token itself is not kept.
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

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// There is no token, or the API server does not know it: 401.
    Unauthenticated(String),
    /// The user may not: 403.
    Forbidden(String),
    /// Nobody can say: 503.
    Unavailable(String),
    /// Too much was asked for: 503.
    Busy(String),
}

/// Asks an authority, and remembers what it says.
pub struct Guard {
    authority: Arc<dyn Authority>,
    tokens: Cache<Fingerprint, Bearer, ReviewError>,
    rights: Cache<(Arc<User>, String), Access, ReviewError>,
    rate: Rate,
    /// Whether the last question was answered.
    answered: AtomicBool,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl Guard {
    /// One that has asked nothing yet.
    pub fn new(authority: impl Authority) -> Self {
        Self {
            authority: Arc::new(authority),
            tokens: Cache::new(CAPACITY),
            rights: Cache::new(CAPACITY),
            rate: Rate::default(),
            answered: AtomicBool::new(true),
        }
    }

    /// Whether the owner of a token, who comes from there, may `get` a path.
    pub(super) async fn admit(&self, token: Token, path: &str, source: Source) -> Result<(), Refused> {
        self.may_ask(self.tokens.knows(&token.fingerprint()), source)?;
        let user = match self.note(self.identify(token).await)? {
            Bearer::Known(user) => user,
            Bearer::Unknown(reason) => {
                return Err(Refused::Unauthenticated(because(
                    "the API server does not know this token",
                    &reason,
                )));
            }
        };
        if path.len() > LONGEST_PATH {
            return Err(Refused::Forbidden("no page has a path of this length".to_owned()));
        }
        self.may_ask(self.rights.knows(&(Arc::clone(&user), path.to_owned())), source)?;
        let name = user.username.clone();
        match self.note(self.may_get(user, path).await)? {
            Access::Allowed => Ok(()),
            Access::Denied(reason) => {
                Err(Refused::Forbidden(because(&format!("{name} may not get {path}"), &reason)))
            }
        }
    }

    /// What is known costs nothing.
    fn may_ask(&self, known: bool, source: Source) -> Result<(), Refused> {
        if known || self.rate.take(source) {
            return Ok(());
        }
        Err(Refused::Busy("too many tokens or pages that were not asked for before; come again".to_owned()))
    }

    async fn identify(&self, token: Token) -> Result<Result<Bearer, ReviewError>, Full> {
        let ask = |token: Token| {
            let bearer = self.authority.identify(token);
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
            let access = self.authority.may_get(Arc::clone(&user), path.to_owned());
            async move {
                let value = access.await?;
                let keep = if value == Access::Allowed { ALLOWED_FOR } else { DENIED_FOR };
                Ok(Answer { value, keep })
            }
        };
        self.rights.get((Arc::clone(&user), path.to_owned()), ask).await
    }

    /// Says in the log when answers cease to come, and when they come again; not each
    /// time, for anybody can make us ask.
    fn note<V>(&self, answer: Result<Result<V, ReviewError>, Full>) -> Result<V, Refused> {
        match answer {
            Ok(Ok(value)) => {
                if !self.answered.swap(true, Ordering::Relaxed) {
                    tracing::info!("the API server says again who may read the pages");
                }
                Ok(value)
            }
            Ok(Err(error)) => {
                if self.answered.swap(false, Ordering::Relaxed) {
                    tracing::warn!(%error, "nobody who is not known yet is let in: pages that need a token are refused");
                }
                Err(Refused::Unavailable(error.to_string()))
            }
            Err(Full) => Err(Refused::Unavailable("too many tokens at a time".to_owned())),
        }
    }
}

fn because(what: &str, reason: &str) -> String {
    if reason.is_empty() { what.to_owned() } else { format!("{what}: {reason}") }
}

#[cfg(test)]
mod tests;
