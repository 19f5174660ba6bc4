//! The certificates of an address that is served by HTTPS.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

/// An acceptor with a certificate for the address, and the authority that signed it.
pub fn acceptor(address: SocketAddr) -> Result<(TlsAcceptor, String), Box<dyn Error + Send + Sync>> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name.push(DnType::CommonName, "kube-gc embedded authority");
    let key = KeyPair::generate()?;
    let authority = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);

    let names = ["localhost".to_owned(), address.ip().to_string()];
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "kube-gc embedded server");
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;

    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), authority))
}
