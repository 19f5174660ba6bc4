//! The certificate of the listeners, and how it is reloaded.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

use crate::telemetry::record;

/// The interval between checks of the files. Polling two small files is cheap, and file
/// watches do not see changes of symbolic links.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Far larger than any certificate chain.
const MAX_FILE_SIZE: u64 = 1 << 20;

/// The paths of certificate and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// `tls.certificate`
    pub certificate: PathBuf,
    /// `tls.key`
    pub key: PathBuf,
}

/// Why the files cannot be used. The message never contains any part of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

/// The content of the files.
#[derive(PartialEq, Eq)]
struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl TlsFiles {
    fn read(&self) -> Result<Pem, TlsError> {
        Ok(Pem { certificate: read("tls.certificate", &self.certificate)?, key: read("tls.key", &self.key)? })
    }

    fn parse(&self, pem: &Pem, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let Self { certificate, key } = self;
        let lacks = |setting, path: &Path, expected| {
            TlsError(format!("{} (`{setting}`) contains no {expected} in PEM", path.display()))
        };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem.certificate).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| lacks("tls.certificate", certificate, "certificate"))?;
        let der = PrivateKeyDer::from_pem_slice(&pem.key);
        let der = der.map_err(|_| lacks("tls.key", key, "private key"))?;
        CertifiedKey::from_der(chain, der, provider).map_err(|error| {
            TlsError(format!(
                "the key in {} (`tls.key`) cannot be used with the certificate in {} (`tls.certificate`): {error}",
                key.display(),
                certificate.display()
            ))
        })
    }
}

fn read(setting: &str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |error| TlsError(format!("cannot read {} (`{setting}`): {error}", path.display()));
    let mut content = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_SIZE + 1).read_to_end(&mut content))
        .map_err(unreadable)?;
    if content.len() as u64 > MAX_FILE_SIZE {
        return Err(unreadable(io::ErrorKind::FileTooLarge.into()));
    }
    Ok(content)
}

/// The certificate of the listeners. [`keep`](Self::keep) reloads it.
pub struct Certificates {
    files: TlsFiles,
    current: Arc<CurrentCertificate>,
    last_check: Mutex<LastCheck>,
    config: Arc<ServerConfig>,
}

/// The certificate that handshakes use.
#[derive(Debug)]
struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // A panic cannot leave a half-written certificate.
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The result of the last check of the files.
struct LastCheck {
    /// The files in use.
    current: Pem,
    /// Files that cannot be used, or why they cannot be read.
    invalid: Option<Result<Pem, TlsError>>,
    /// Whether the error was reported.
    reported: bool,
}

impl Certificates {
    /// Loads the files.
    ///
    /// # Errors
    /// If they cannot be used.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(provider::default_provider());
        let pem = files.read()?;
        let key = files.parse(&pem, &provider)?;
        let current = Arc::new(CurrentCertificate(RwLock::new(Arc::new(key))));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError(format!("cannot set up TLS: {error}")))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A resumed session would outlive its certificate.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let last_check = Mutex::new(LastCheck { current: pem, invalid: None, reported: false });
        Ok(Self { files, current, last_check, config: Arc::new(config) })
    }

    /// The acceptor for the handshakes of a listener.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }

    /// Checks the files periodically until `shutdown`.
    pub async fn keep(self: Arc<Self>, shutdown: CancellationToken) {
        while shutdown.run_until_cancelled(tokio::time::sleep(CHECK_INTERVAL)).await.is_some() {
            let this = Arc::clone(&self);
            // If it panicked, the next check may succeed.
            let _ = tokio::task::spawn_blocking(move || this.reload()).await;
        }
    }

    /// Checks the files once. Unusable files are reported only at the second check that sees
    /// them: while the two files are written one after the other, they do not match.
    fn reload(&self) {
        let mut last_check = self.last_check.lock().unwrap_or_else(PoisonError::into_inner);
        let read = self.files.read();
        if read.as_ref().is_ok_and(|pem| *pem == last_check.current) {
            if last_check.invalid.take().is_some() {
                record::certificate_restored();
            }
            return;
        }
        let certificate = self.files.certificate.display();
        let parsed = match &read {
            Ok(pem) => self.files.parse(pem, self.config.crypto_provider()),
            Err(error) => Err(error.clone()),
        };
        match parsed {
            Ok(key) => {
                *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
                if let Ok(current) = read {
                    *last_check = LastCheck { current, invalid: None, reported: false };
                }
                record::certificate_reloaded(true);
                tracing::info!(%certificate, "reloaded the certificate");
            }
            Err(_) if last_check.invalid.as_ref() != Some(&read) => {
                last_check.invalid = Some(read);
                last_check.reported = false;
            }
            Err(error) => {
                if !std::mem::replace(&mut last_check.reported, true) {
                    record::certificate_reloaded(false);
                    tracing::error!(
                        %error,
                        %certificate,
                        "cannot use the new certificate; serving the last valid one until it is fixed"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
