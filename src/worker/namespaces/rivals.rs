//! Looks for another controller that finalizes namespaces (rule 11.8).

use std::time::{Duration, SystemTime};

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::api::{Api, ApiError};
use kube_gc_core::namespaces::{LeaderRecord, Rival};

/// How long a look counts. kube-controller-manager renews its Lease every 2 s.
const COUNTS_FOR: Duration = Duration::from_secs(3);
/// How long a Lease that somebody holds must stay the same, whatever time it says.
const SAME_FOR: Duration = Duration::from_secs(6);

/// Looks once, without an earlier look.
///
/// # Errors
/// Whether there is another controller is not known.
pub async fn find_rival(api: &Api) -> Result<Option<Rival>, ApiError> {
    look(api, None).await.map(|(rival, _)| rival)
}

async fn look(
    api: &Api,
    before: Option<&LeaderRecord>,
) -> Result<(Option<Rival>, Option<LeaderRecord>), ApiError> {
    let lease = api.controller_manager_lease().await?;
    let now = api.settings().clock.now();
    let leader = lease.as_ref().and_then(|lease| lease.rival(before, now));
    let rival = match leader {
        Some(leader) => Some(leader),
        None => api.controller_manager_pod().await?.map(|name| Rival::Pod { name }),
    };
    Ok((rival, lease))
}

/// Looks again and again.
#[derive(Debug)]
pub(super) struct Rivals {
    api: Api,
    began: Instant,
    /// When this collector has started, by the clock of the API server or nearly so.
    since: SystemTime,
    last: Mutex<Option<(Instant, Option<LeaderRecord>)>>,
}

/// What a look has shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Looked {
    Alone,
    /// Somebody holds the Lease, and may renew it.
    NotYetKnown,
    Rival(Rival),
}

impl Rivals {
    pub(super) fn new(api: Api) -> Self {
        let since = api.settings().clock.now();
        Self { api, began: Instant::now(), since, last: Mutex::default() }
    }

    /// Writes before this time do not count.
    pub(super) const fn since(&self) -> SystemTime {
        self.since
    }

    /// Looks, unless that was done a moment ago.
    ///
    /// # Errors
    /// Whether there is another controller is not known.
    pub(super) async fn look(&self) -> Result<Looked, ApiError> {
        let mut last = self.last.lock().await;
        if last.as_ref().is_none_or(|(at, _)| at.elapsed() >= COUNTS_FOR) {
            let before = last.as_ref().and_then(|(_, lease)| lease.as_ref());
            let (rival, lease) = look(&self.api, before).await?;
            if let Some(rival) = rival {
                return Ok(Looked::Rival(rival));
            }
            *last = Some((Instant::now(), lease));
        }
        let is_held = last
            .as_ref()
            .is_some_and(|(_, lease)| lease.as_ref().is_some_and(|lease| !lease.holder.is_empty()));
        Ok(if is_held && self.began.elapsed() < SAME_FOR { Looked::NotYetKnown } else { Looked::Alone })
    }
}
