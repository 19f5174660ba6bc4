//! The certificate of the listeners, and how it is reloaded.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use aws_lc_rs::digest::{Context, Digest, SHA256};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};
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
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {} (`{key}`): {error}", path.display())]
    Unreadable {
        /// The setting.
        key: &'static str,
        /// Its value.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// A file has other content.
    #[error("{} (`{key}`) contains no {expected} in PEM", path.display())]
    Content {
        /// The setting.
        key: &'static str,
        /// Its value.
        path: PathBuf,
        /// The expected content.
        expected: &'static str,
    },
    /// The files do not match, or use an unsupported algorithm.
    #[error(
        "the key in {} (`tls.key`) cannot be used with the certificate in {} (`tls.certificate`): {error}",
        files.key.display(), files.certificate.display()
    )]
    Unusable {
        /// The files.
        files: TlsFiles,
        /// The cause.
        #[source]
        error: rustls::Error,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Setup(#[from] rustls::Error),
}

/// The content of the files.
struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl TlsFiles {
    fn read(&self) -> Result<Pem, TlsError> {
        Ok(Pem { certificate: read("tls.certificate", &self.certificate)?, key: read("tls.key", &self.key)? })
    }

    fn parse(&self, pem: &Pem, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let content = |key, path: &Path, expected| TlsError::Content { key, path: path.to_owned(), expected };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem.certificate).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| content("tls.certificate", &self.certificate, "certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(&pem.key);
        let key = key.map_err(|_| content("tls.key", &self.key, "private key"))?;
        CertifiedKey::from_der(chain, key, provider)
            .map_err(|error| TlsError::Unusable { files: self.clone(), error })
    }
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |error| TlsError::Unreadable { key, path: path.to_owned(), error };
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
#[derive(Debug)]
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
    current: Fingerprint,
    /// Files that cannot be used.
    invalid: Option<Fingerprint>,
    /// Whether the error was reported.
    reported: bool,
}

impl fmt::Debug for LastCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastCheck").field("reported", &self.reported).finish_non_exhaustive()
    }
}

type Fingerprint = [u8; 32];

fn fingerprint(read: &Result<Pem, TlsError>) -> Fingerprint {
    let digest = match read {
        Ok(pem) => digest_of(&[&pem.certificate, &pem.key]),
        Err(error) => digest_of(&[error.to_string().as_bytes()]),
    };
    let mut fingerprint = Fingerprint::default();
    fingerprint.copy_from_slice(digest.as_ref());
    fingerprint
}

fn digest_of(parts: &[&[u8]]) -> Digest {
    let mut context = Context::new(&SHA256);
    for part in parts {
        // The length prevents two different splits from having the same fingerprint.
        context.update(&part.len().to_be_bytes());
        context.update(part);
    }
    context.finish()
}

impl Certificates {
    /// Loads the files.
    ///
    /// # Errors
    /// If they cannot be used.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(provider::default_provider());
        let pem = files.read();
        let fingerprint = fingerprint(&pem);
        let key = files.parse(&pem?, &provider)?;
        let current = Arc::new(CurrentCertificate(RwLock::new(Arc::new(key))));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A resumed session would outlive its certificate.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let last_check = Mutex::new(LastCheck { current: fingerprint, invalid: None, reported: false });
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
        let found = fingerprint(&read);
        if found == last_check.current {
            if last_check.invalid.take().is_some() {
                record::certificate_restored();
            }
            return;
        }
        let certificate = self.files.certificate.display();
        match read.and_then(|pem| self.files.parse(&pem, self.config.crypto_provider())) {
            Ok(key) => {
                *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
                *last_check = LastCheck { current: found, invalid: None, reported: false };
                record::certificate_loaded();
                tracing::info!(%certificate, "reloaded the certificate");
            }
            Err(error) if last_check.invalid == Some(found) => {
                if !std::mem::replace(&mut last_check.reported, true) {
                    record::certificate_failed();
                    tracing::error!(
                        %error,
                        %certificate,
                        "cannot use the new certificate; serving the last valid one until it is fixed"
                    );
                }
            }
            Err(_) => {
                last_check.invalid = Some(found);
                last_check.reported = false;
            }
        }
    }
}

#[cfg(test)]
mod tests;
