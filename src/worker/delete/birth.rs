//! Owners that may still be in admission (rules 1.28 and 1.29).
//!
//! The API server assigns the uid of an object before admission. A webhook that has learned it can
//! create or adopt a dependent before the owner is stored, and a GET of the owner truthfully finds
//! nothing. Whoever names an owner knows its uid. So if one dependent has named it for longer than the
//! longest admission, it is not in admission any more, and the absence counts for all dependents.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::api::{AbsenceProof, Api, ApiError, ErrorClass, LookupResult};
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{Digest, Identity};

/// How many references are remembered.
const KNOWN_AT_MOST: usize = 16_384;

/// Older ones are dropped first. A later read recovers their age.
const YOUNG_FOR: Duration = Duration::from_secs(120);

/// Tells whether an owner that a look-up did not find may still be in admission. Clones share what they
/// remember.
#[derive(Clone, Debug)]
pub struct Births {
    /// The longest admission.
    grace: Duration,
    /// Since when dependents are known to name owners. Our own clock ends the wait, whatever they say
    /// of their age.
    known: Arc<DashMap<Digest, Instant>>,
}

/// The object on whose behalf an owner is looked up.
#[derive(Debug)]
pub struct Asker {
    identity: Identity,
    /// Whether its age can be read: it is a dependent, and not the owner itself.
    is_dependent: bool,
    /// A moment at which it was as it is.
    since: OnceCell<Instant>,
}

impl Asker {
    /// A dependent of the owner.
    pub fn dependent(identity: &Identity) -> Arc<Self> {
        Arc::new(Self { identity: identity.clone(), is_dependent: true, since: OnceCell::new() })
    }

    /// No dependent in particular.
    pub fn owner(identity: &Identity) -> Arc<Self> {
        Arc::new(Self { identity: identity.clone(), is_dependent: false, since: OnceCell::new() })
    }

    async fn unchanged_since(&self, api: &Api) -> Instant {
        let age = if self.is_dependent { api.age(&self.identity).await } else { Duration::ZERO };
        let now = Instant::now();
        now.checked_sub(age).unwrap_or(now)
    }
}

impl Births {
    /// With the longest admission; zero believes every look-up.
    #[must_use]
    pub fn new(grace: Duration) -> Self {
        Self { grace, known: Arc::default() }
    }

    /// What a look-up of an owner proves that was sent at this moment and found nothing.
    ///
    /// # Errors
    ///
    /// [`Deferred`](ErrorClass::Deferred) until the asker is old enough.
    pub(super) async fn judge(
        &self,
        api: &Api,
        owner: &Identity,
        asker: &Asker,
        sent: Instant,
        proof: AbsenceProof,
    ) -> Result<LookupResult, ApiError> {
        match self.too_early(api, owner, asker, sent).await {
            Some(error) => Err(error),
            None => Ok(LookupResult::Absent(proof)),
        }
    }

    /// Why a look-up that is sent at this moment cannot prove an absence, if so.
    pub(super) async fn too_early(
        &self,
        api: &Api,
        owner: &Identity,
        asker: &Asker,
        sent: Instant,
    ) -> Option<ApiError> {
        if self.grace.is_zero() || mutation::is(Mutation::UnbornIsAbsent) {
            return None;
        }
        let since = self.since(api, owner, asker).await;
        let retry_after = (since + self.grace).saturating_duration_since(sent);
        (!retry_after.is_zero()).then(|| ApiError {
            class: ErrorClass::Deferred { retry_after, unborn: true },
            action: "GET",
            target: owner.to_string(),
            message:
                "a GET did not find the object, which may still be in admission: it has been named for less \
                      than graph.birth_grace"
                    .into(),
            code: None,
        })
    }

    /// A moment at which the asker named the owner.
    async fn since(&self, api: &Api, owner: &Identity, asker: &Asker) -> Instant {
        let key = Digest::of(&(owner, &asker.identity));
        if let Some(since) = self.known.get(&key).map(|since| *since) {
            return since;
        }
        let since = *asker.since.get_or_init(|| asker.unchanged_since(api)).await;
        if self.known.len() >= KNOWN_AT_MOST {
            self.known.retain(|_, since| since.elapsed() < YOUNG_FOR);
        }
        if self.known.len() >= KNOWN_AT_MOST {
            self.known.clear();
        }
        self.known.insert(key, since);
        since
    }
}
