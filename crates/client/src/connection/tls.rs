//! TLS as Go's clients have it: with credentials that may change while a process runs.
//!
//! rustls asks the objects here during each handshake, so that a new connection always uses the
//! latest certificates, whatever pool it belongs to.

use std::fs::File;
use std::sync::Arc;

use rustls_platform_verifier::Verifier as PlatformVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, InconsistentKeys, RootCertStore,
    SignatureScheme,
};
use webpki::{EndEntityCert, KeyUsage};

use super::CredentialsError;
use super::credentials::Latest;
use crate::connection_error::error_chain;

/// The algorithms of all connections.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// A configuration whose connections use the certificates of the moment in which they are made.
pub fn client_config(latest: &Arc<Latest>) -> Result<ClientConfig, Error> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(latest) as Arc<dyn ServerCertVerifier>)
        .with_client_cert_resolver(Arc::clone(latest) as Arc<dyn ResolvesClientCert>);
    // A session that is resumed would bring back the certificates of its first handshake.
    config.resumption = Resumption::disabled();
    Ok(config)
}

impl ResolvesClientCert for Latest {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.get().identity.clone()
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl ServerCertVerifier for Latest {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.get().trust.verify(leaf, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

#[derive(Debug)]
pub enum Trust {
    /// All: the kubeconfig asks for that.
    All,
    /// Those that the operating system trusts.
    Platform(PlatformVerifier),
    /// Those that a CA file names: its authorities have signed their certificates, or it contains the
    /// certificates themselves.
    Authority(Vec<CertificateDer<'static>>),
}

impl Trust {
    /// The trust in the certificates of a CA file. As in Go, those that cannot be read do not count.
    pub fn authority(certificates: Vec<CertificateDer<'static>>) -> Result<Self, CredentialsError> {
        let mut roots = RootCertStore::empty();
        match roots.add_parsable_certificates(certificates.iter().cloned()) {
            (0, _) => Err(CredentialsError::new("the CA contains no certificate that can be read")),
            _ => Ok(Self::Authority(certificates)),
        }
    }

    /// The trust of the operating system.
    pub fn platform() -> Result<Self, CredentialsError> {
        PlatformVerifier::new(provider()).map(Self::Platform).map_err(|error| {
            // It does not say that no file could be opened.
            let why = File::open("/").map_or_else(|cause| error_chain(&cause), |_| error.to_string());
            CredentialsError::new(format!("the certificates that this system trusts cannot be read: {why}"))
        })
    }

    fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self {
            Self::All => Ok(ServerCertVerified::assertion()),
            Self::Platform(usual) => usual.verify_server_cert(leaf, intermediates, name, ocsp, now),
            Self::Authority(certificates) if certificates.iter().any(|known| known == leaf) => {
                trusted_itself(leaf, name, now)
            }
            Self::Authority(certificates) => {
                let mut roots = RootCertStore::empty();
                let authorities = certificates.iter().filter(|certificate| is_authority(certificate, now));
                roots.add_parsable_certificates(authorities.cloned());
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
                    .build()
                    .map_err(|_| Error::InvalidCertificate(CertificateError::UnknownIssuer))?
                    .verify_server_cert(leaf, intermediates, name, ocsp, now)
            }
        }
    }
}

/// Whether a certificate of the CA file may sign others: rustls would believe each of them. As in Go, it
/// must be that of an authority, and must not have ended. X.509 of version 1 does not say what it is for.
fn is_authority(certificate: &CertificateDer<'_>, now: UnixTime) -> bool {
    match EndEntityCert::try_from(certificate) {
        Ok(certificate) => {
            matches!(usable_as_server(&certificate, now), Err(webpki::Error::CaUsedAsEndEntity))
        }
        Err(error) => matches!(error, webpki::Error::UnsupportedCertVersion),
    }
}

/// Whether a certificate is one of a server now, whoever has signed it.
fn usable_as_server(certificate: &EndEntityCert<'_>, now: UnixTime) -> Result<(), webpki::Error> {
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms.all;
    // Without authorities, the search for an issuer fails after all else was checked.
    match certificate.verify_for_usage(algorithms, &[], &[], now, KeyUsage::server_auth(), None, None) {
        Ok(_) | Err(webpki::Error::UnknownIssuer) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Verifies a certificate that the CA file itself contains. As in Go, it needs no issuer and may be that
/// of an authority. Its name and its dates must be right, and its purpose, if it is no authority.
fn trusted_itself(
    leaf: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<ServerCertVerified, Error> {
    let unusable = |error: webpki::Error| {
        Error::InvalidCertificate(match error {
            webpki::Error::CertExpired { .. } => CertificateError::Expired,
            webpki::Error::CertNotValidYet { .. } => CertificateError::NotValidYet,
            webpki::Error::CertNotValidForName(_) => CertificateError::NotValidForName,
            _ => CertificateError::BadEncoding,
        })
    };
    let certificate = EndEntityCert::try_from(leaf).map_err(unusable)?;
    match usable_as_server(&certificate, now) {
        Ok(()) | Err(webpki::Error::CaUsedAsEndEntity) => {}
        Err(error) => return Err(unusable(error)),
    }
    certificate.verify_is_valid_for_subject_name(name).map_err(unusable)?;
    Ok(ServerCertVerified::assertion())
}

/// The certificates in a PEM file.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.unwrap_or_default();
    if certificates.is_empty() {
        Err(CredentialsError::new("it contains no certificate in PEM format"))
    } else {
        Ok(certificates)
    }
}

/// The identity that a certificate and a key give. The certificate is not looked into: whether the server
/// accepts it is the server's affair, and X.509 of version 1 is enough for that.
pub fn identity(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, CredentialsError> {
    let wrong = |what: &str| CredentialsError::new(format!("the client key {what}"));
    let chain = certificates(certificate).map_err(|error| error.of("the client certificate"))?;
    // The messages of these libraries might quote the key.
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| wrong("is not a private key in PEM format"))?;
    let key = provider().key_provider.load_private_key(key);
    let identity = CertifiedKey::new(chain, key.map_err(|_| wrong("has a type that is not supported"))?);
    match identity.keys_match() {
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(wrong("does not belong to the client certificate"))
        }
        Ok(()) | Err(_) => Ok(identity),
    }
}
