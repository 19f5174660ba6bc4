//! What the settings mean for the two listeners.

use std::sync::Arc;
use std::time::Duration;

use super::Exit;
use super::failure::Failure;
use crate::api::Reviews;
use crate::config::{Listeners, Settings};
use crate::http::{Authorizer, Certificates, Listener, Protection, TlsFiles};

/// Longest time for asking who may read a page: a scrape usually ends after ten seconds.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(8);

/// The certificate that listeners are to show, if any of them is.
///
/// # Errors
/// Files that cannot be used.
pub fn certificates(settings: &Settings) -> Result<Option<Arc<Certificates>>, Failure> {
    if settings.tls.listeners == Listeners::None {
        return Ok(None);
    }
    let files = TlsFiles { certificate: settings.tls.certificate.clone(), key: settings.tls.key.clone() };
    match Certificates::load(files) {
        Ok(certificates) => Ok(Some(Arc::new(certificates))),
        Err(error) => Err(Failure::new(Exit::Usage, error)),
    }
}

/// What keeps people out of both listeners.
#[derive(Debug, Default)]
pub struct Protections {
    /// Of health and metrics.
    pub health: Protection,
    /// Of the debug pages.
    pub debug: Protection,
    /// To be kept up to date.
    pub certificates: Option<Arc<Certificates>>,
}

impl Protections {
    /// As the settings want it. Sends nothing yet.
    ///
    /// # Errors
    /// When there can be no client to ask the API server with.
    pub fn new(
        settings: &Settings,
        certificates: Option<Arc<Certificates>>,
        config: kube::Config,
    ) -> Result<Self, Failure> {
        let guard = if settings.access.listeners == Listeners::None {
            None
        } else {
            let limit = REVIEW_TIMEOUT.min(settings.client.request_timeout);
            let reviews = Reviews::connect(config, limit);
            let reviews = reviews.map_err(|error| Failure::new(Exit::Credentials, error))?;
            Some(Arc::new(Authorizer::new(reviews)))
        };
        let of = |listener: Listener| Protection {
            certificates: certificates.clone().filter(|_| settings.tls.listeners.include(listener)),
            guard: guard.clone().filter(|_| settings.access.listeners.include(listener)),
        };
        Ok(Self { health: of(Listener::Health), debug: of(Listener::Debug), certificates })
    }
}
