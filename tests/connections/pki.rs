//! Certificates of servers and users.

use std::path::Path;
use std::process::Command;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_ECDSA_P521_SHA512, SignatureAlgorithm, date_time_ymd,
};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

/// The name in the certificates of servers, beside 127.0.0.1. Only the proxies know it.
pub const NAME: &str = "api.kube-gc.test";

/// A certificate and its key.
pub struct Pair {
    pub der: CertificateDer<'static>,
    pub pem: String,
    pub key: KeyPair,
}

/// A certificate authority.
pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn server_params() -> CertificateParams {
    CertificateParams::new(["127.0.0.1".to_owned(), NAME.to_owned()]).unwrap()
}

impl Authority {
    pub fn new() -> Self {
        Self::with(|_| ())
    }

    /// One whose certificate does not allow it to sign others.
    pub fn forbidden() -> Self {
        Self::with(|params| params.is_ca = IsCa::ExplicitNoCa)
    }

    /// One whose certificate has ended.
    pub fn expired() -> Self {
        Self::with(|params| params.not_after = date_time_ymd(2020, 1, 1))
    }

    fn with(change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("authority {}", super::unique()));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    pub fn server(&self) -> Pair {
        self.sign(&server_params(), &PKCS_ECDSA_P256_SHA256)
    }

    pub fn user(&self, algorithm: &'static SignatureAlgorithm) -> Pair {
        self.sign(&CertificateParams::default(), algorithm)
    }

    pub fn p521_user(&self) -> Pair {
        self.user(&PKCS_ECDSA_P521_SHA512)
    }

    fn sign(&self, params: &CertificateParams, algorithm: &'static SignatureAlgorithm) -> Pair {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Pair { der: certificate.der().clone(), pem: certificate.pem(), key }
    }
}

/// The certificate of a server that is its own authority.
pub fn self_signed(is_ca: bool) -> Pair {
    let mut params = server_params();
    if is_ca {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Pair { der: certificate.der().clone(), pem: certificate.pem(), key }
}

/// The certificate of a user without extensions, which OpenSSL makes one of version 1.
pub fn version_1(directory: &Path) -> Pair {
    let script = "openssl req -newkey rsa:2048 -nodes -keyout key -subj /CN=old -out request 2>&1 &&
        openssl x509 -req -in request -signkey key -out certificate -days 2 2>&1 &&
        openssl x509 -in certificate -noout -text | grep 'Version: 1 '";
    let ran = Command::new("sh").args(["-c", script]).current_dir(directory).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    let pem = std::fs::read_to_string(directory.join("certificate")).unwrap();
    let key = std::fs::read_to_string(directory.join("key")).unwrap();
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    Pair { der, pem, key: KeyPair::from_pem(&key).unwrap() }
}
