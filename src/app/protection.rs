//! TLS, authorization and names of the two listeners.

use std::sync::Arc;
use std::time::Duration;

use super::error::{Error, ErrorKind};
use crate::api::{Connection, Reviews};
use crate::config::{Listeners, Settings};
use crate::http::{Authorizer, Certificates, Hosts, Listener, Protection, TlsFiles};

/// The timeout of a token or access review. A scrape usually times out after ten seconds.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(8);

/// Loads the certificate, if a listener needs one.
///
/// # Errors
/// The files cannot be used.
pub fn certificates(settings: &Settings) -> Result<Option<Arc<Certificates>>, Error> {
    if settings.tls.listeners == Listeners::None {
        return Ok(None);
    }
    let files = TlsFiles { certificate: settings.tls.certificate.clone(), key: settings.tls.key.clone() };
    match Certificates::load(files) {
        Ok(certificates) => Ok(Some(Arc::new(certificates))),
        Err(error) => Err(Error::new(ErrorKind::Settings, error)),
    }
}

/// The protection of both listeners.
#[derive(Debug, Default)]
pub struct Protections {
    /// For health and metrics.
    pub health: Protection,
    /// For the debug pages.
    pub debug: Protection,
    /// The certificate, which has to be reloaded when its files change.
    pub certificates: Option<Arc<Certificates>>,
}

impl Protections {
    /// Builds what the settings ask for. Sends nothing yet.
    ///
    /// # Errors
    /// No client for token and access reviews can be built.
    pub fn new(
        settings: &Settings,
        certificates: Option<Arc<Certificates>>,
        connection: &Connection,
    ) -> Result<Self, Error> {
        let authorizer = if settings.access.listeners == Listeners::None {
            None
        } else {
            let limit = REVIEW_TIMEOUT.min(settings.client.request_timeout);
            let reviews = Reviews::connect(connection, limit);
            let reviews = reviews.map_err(|error| Error::new(ErrorKind::Credentials, error))?;
            Some(Arc::new(Authorizer::new(reviews)))
        };
        let of = |listener: Listener| Protection {
            certificates: certificates.clone().filter(|_| settings.tls.listeners.include(listener)),
            authorizer: authorizer.clone().filter(|_| settings.access.listeners.include(listener)),
            hosts: Hosts::new(&settings.http.hosts),
        };
        Ok(Self { health: of(Listener::Health), debug: of(Listener::Debug), certificates })
    }

    /// Builds what the settings ask for where there is no API server to review anything.
    #[cfg(feature = "node")]
    pub fn unreviewed(settings: &Settings, certificates: Option<Arc<Certificates>>) -> Self {
        let of = |listener: Listener| Protection {
            certificates: certificates.clone().filter(|_| settings.tls.listeners.include(listener)),
            authorizer: None,
            hosts: Hosts::new(&settings.http.hosts),
        };
        Self { health: of(Listener::Health), debug: of(Listener::Debug), certificates }
    }
}
