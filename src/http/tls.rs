//! The certificate that the listeners show, and how it is exchanged.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use ring::digest::{Context, Digest, SHA256};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring as provider};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_util::sync::CancellationToken;

use crate::telemetry::record;

/// Between two looks at the files. They are two small ones, and links that change
/// cannot be watched.
const INTERVAL: Duration = Duration::from_secs(2);

/// Far more than any chain of certificates.
const LONGEST_FILE: u64 = 1 << 20;

/// Where certificate and key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// `tls.certificate`
    pub certificate: PathBuf,
    /// `tls.key`
    pub key: PathBuf,
}

/// Files that cannot be used. No word of a key is in the message.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {} (`{key}`): {error}", path.display())]
    Unreadable {
        /// The setting.
        key: &'static str,
        /// Its value.
        path: PathBuf,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// A file has something else in it.
    #[error("{} (`{key}`) holds no {expected} in PEM", path.display())]
    Content {
        /// The setting.
        key: &'static str,
        /// Its value.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
    /// Both can be read and do not go together, or are of a kind that is not known.
    #[error(
        "the key in {} (`tls.key`) cannot be used with the certificate in {} (`tls.certificate`): {error}",
        files.key.display(), files.certificate.display()
    )]
    Unusable {
        /// The files.
        files: TlsFiles,
        /// Why not.
        #[source]
        error: rustls::Error,
    },
    /// TLS as such cannot be set up.
    #[error("cannot set up TLS: {0}")]
    Setup(#[from] rustls::Error),
}

/// What the files hold.
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
        .and_then(|file| file.take(LONGEST_FILE + 1).read_to_end(&mut content))
        .map_err(unreadable)?;
    if content.len() as u64 > LONGEST_FILE {
        return Err(unreadable(io::ErrorKind::FileTooLarge.into()));
    }
    Ok(content)
}

/// The certificate, and the task to keep it up to date.
#[derive(Debug)]
pub struct Certificates {
    files: TlsFiles,
    shown: Arc<Shown>,
    looked: Mutex<Looked>,
    config: Arc<ServerConfig>,
}

/// What handshakes take their certificate from.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // A panic elsewhere leaves one of the two there.
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// What was found at the last look.
struct Looked {
    /// What is shown.
    shown: Fingerprint,
    /// What cannot be used.
    suspect: Option<Fingerprint>,
    /// That was said.
    reported: bool,
}

impl fmt::Debug for Looked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Looked").field("reported", &self.reported).finish_non_exhaustive()
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
        // So that nothing can move from one part to the next unseen.
        context.update(&part.len().to_be_bytes());
        context.update(part);
    }
    context.finish()
}

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// When they cannot be used.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(provider::default_provider());
        let pem = files.read();
        let fingerprint = fingerprint(&pem);
        let key = files.parse(&pem?, &provider)?;
        let shown = Arc::new(Shown(RwLock::new(Arc::new(key))));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&shown) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Sessions that are resumed would outlive the certificate that they began with.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let looked = Mutex::new(Looked { shown: fingerprint, suspect: None, reported: false });
        Ok(Self { files, shown, looked, config: Arc::new(config) })
    }

    /// For the handshakes of a listener.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }

    /// Looks at the files from time to time, until it is told to stop.
    pub async fn keep(self: Arc<Self>, shutdown: CancellationToken) {
        while shutdown.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
            let this = Arc::clone(&self);
            // It does not panic; if it ever did, the next look may succeed.
            let _ = tokio::task::spawn_blocking(move || this.look()).await;
        }
    }

    /// Looks at the files once. What cannot be used is reported when it is seen for the
    /// second time: two files that are written one after the other do not go together
    /// in between.
    fn look(&self) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let read = self.files.read();
        let found = fingerprint(&read);
        if found == looked.shown {
            if looked.suspect.take().is_some() {
                record::certificate_restored();
            }
            return;
        }
        let certificate = self.files.certificate.display();
        match read.and_then(|pem| self.files.parse(&pem, self.config.crypto_provider())) {
            Ok(key) => {
                *self.shown.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
                *looked = Looked { shown: found, suspect: None, reported: false };
                record::certificate_loaded();
                tracing::info!(%certificate, "a new certificate is shown from now on");
            }
            Err(error) if looked.suspect == Some(found) => {
                if !std::mem::replace(&mut looked.reported, true) {
                    record::certificate_failed();
                    tracing::error!(
                        %error,
                        %certificate,
                        "the new certificate cannot be used; the last one is shown until it is put right"
                    );
                }
            }
            Err(_) => {
                looked.suspect = Some(found);
                looked.reported = false;
            }
        }
    }
}

#[cfg(test)]
mod tests;
