//! Whether the API server refuses the credentials.
//!
//! A refusal that new credentials end is not seen here: the client repeats the request by itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::client::Api;
use super::error::{ApiError, ErrorClass};
use crate::telemetry::record;

/// The least time between two lines that say that the credentials are refused. One of several API servers
/// may refuse what the others accept.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// Whether the last answer was a refusal of the credentials.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    is_refused: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Since when, and the last reason.
    refused: Option<(SystemTime, String)>,
    logged: Option<Instant>,
}

impl Refusals {
    /// Notes the result of a request. Returns whether it ended a refusal.
    pub fn note(&self, result: Result<u16, &ApiError>) -> bool {
        match result {
            Ok(401) => self.refused("401 Unauthorized"),
            // There are none, because an exec plugin failed.
            Err(error) if error.class == ErrorClass::Denied && error.code.is_none() => {
                self.refused(&error.message);
            }
            Ok(_) if self.is_refused.load(Ordering::Acquire) => return self.accepted(),
            Ok(_) | Err(_) => {}
        }
        false
    }

    fn refused(&self, why: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, last)) = &mut state.refused {
            why.clone_into(last);
            return;
        }
        state.refused = Some((SystemTime::now(), why.to_owned()));
        self.is_refused.store(true, Ordering::Release);
        record::credentials_refused(true);
        if state.logged.is_none_or(|logged| logged.elapsed() >= LINE_INTERVAL) {
            state.logged = Some(Instant::now());
            tracing::error!(
                error = why,
                "the API server refuses the credentials, or an exec plugin has none; nothing is collected \
                 until this is repaired: renew the certificate, the token or the login"
            );
        }
    }

    fn accepted(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_refused.store(false, Ordering::Release);
        let Some((since, _)) = state.refused.take() else { return false };
        record::credentials_refused(false);
        let seconds = since.elapsed().unwrap_or_default().as_secs_f64();
        tracing::info!(seconds, "the API server accepts the credentials again");
        true
    }
}

impl Api {
    /// Since when the API server has refused the credentials, and why; `None` if it accepts them.
    #[must_use]
    pub fn refused_credentials(&self) -> Option<(SystemTime, String)> {
        self.0.refusals.state.lock().unwrap_or_else(PoisonError::into_inner).refused.clone()
    }
}

#[cfg(test)]
mod tests {
    use crate::api::scripted::{Reply, Server, widget};
    use crate::telemetry::Exporter;

    #[tokio::test]
    async fn refused_credentials_are_known_until_they_are_accepted() {
        let (recorder, exporter) = Exporter::local().unwrap();
        let _recording = metrics::set_default_local_recorder(&recorder);
        let refused = || Reply::status(401, "Unauthorized", "{}");
        let server = Server::replying([refused(), refused(), Reply::status(403, "Forbidden", "{}")]);
        let api = server.api();
        let recoveries = api.recoveries();
        for value in [1, 1, 0] {
            api.look_up(&widget()).await.unwrap_err();
            assert_eq!(api.refused_credentials().is_some(), value == 1);
            assert_eq!(recoveries.has_changed().unwrap(), value == 0, "what failed is tried again");
            let line = format!("kube_gc_credentials_refused {value}");
            let page = exporter.render();
            assert!(page.lines().any(|found| found == line), "no line {line:?} in:\n{page}");
        }
    }
}
