use std::os::unix::fs::symlink;

use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;

use super::*;
use crate::telemetry::Exporter;

/// A volume with certificate and key, like a Secret that the kubelet mounts.
struct Volume(TempDir);

/// Certificate and key, in PEM.
pub fn pair() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

impl Volume {
    fn new(certificate: &str, key: &str) -> Self {
        let volume = Self(tempfile::tempdir().unwrap());
        for name in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(name), volume.0.path().join(name)).unwrap();
        }
        volume.set(certificate, key);
        volume
    }

    /// Replaces both files at once through one symbolic link.
    fn set(&self, certificate: &str, key: &str) {
        let directory = tempfile::tempdir_in(self.0.path()).unwrap().keep();
        std::fs::write(directory.join("tls.crt"), certificate).unwrap();
        std::fs::write(directory.join("tls.key"), key).unwrap();
        let next = self.0.path().join("next");
        symlink(&directory, &next).unwrap();
        std::fs::rename(next, self.0.path().join("..data")).unwrap();
    }

    fn files(&self) -> TlsFiles {
        TlsFiles { certificate: self.0.path().join("tls.crt"), key: self.0.path().join("tls.key") }
    }
}

fn shown(certificates: &Certificates) -> CertificateDer<'static> {
    certificates.current.0.read().unwrap().cert[0].clone()
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

#[test]
fn an_unusable_certificate_is_reported_once_and_the_last_one_stays_in_use() {
    let (recorder, exporter) = Exporter::local();
    metrics::with_local_recorder(&recorder, || {
        let ((first, key), (second, next_key)) = (pair(), pair());
        let volume = Volume::new(&first, &key);
        let certificates = Certificates::load(volume.files()).unwrap();
        let stale = |value| format!("kube_gc_tls_certificate_stale {value}\n");
        let failed = "kube_gc_tls_reloads_total{result=\"failed\"} 1\n";

        // The new certificate is written before its key.
        volume.set(&second, &key);
        certificates.reload();
        assert!(!exporter.render().contains(&stale(1)), "perhaps it is on its way");
        certificates.reload();
        certificates.reload();
        assert_eq!(shown(&certificates), der(&first));
        assert!(exporter.render().contains(&stale(1)) && exporter.render().contains(failed));

        volume.set(&format!("{second}{first}"), &next_key);
        certificates.reload();
        assert_eq!(shown(&certificates), der(&second));
        assert_eq!(certificates.current.0.read().unwrap().cert.len(), 2, "a chain");
        assert!(exporter.render().contains(&stale(0)));

        // The files disappear and return.
        std::fs::remove_file(volume.0.path().join("..data")).unwrap();
        certificates.reload();
        certificates.reload();
        assert!(exporter.render().contains(&stale(1)));
        volume.set(&format!("{second}{first}"), &next_key);
        certificates.reload();
        assert!(exporter.render().contains(&stale(0)));
        assert!(exporter.render().contains("kube_gc_tls_reloads_total{result=\"loaded\"} 1\n"));
    });
}

#[test]
fn unusable_certificate_files_are_named_with_their_setting() {
    let ((certificate, key), (_, other_key)) = (pair(), pair());
    for (certificate, key, message) in [
        ("", key.as_str(), "(`tls.certificate`) contains no certificate in PEM"),
        (&key, &key, "(`tls.certificate`) contains no certificate in PEM"),
        (&certificate, "", "(`tls.key`) contains no private key in PEM"),
        (&certificate, "-----BEGIN PRIVATE KEY-----\nc2VjcmV0!\n-----END PRIVATE KEY-----\n", "(`tls.key`)"),
        (&certificate, &other_key, "cannot be used with the certificate in"),
    ] {
        let volume = Volume::new(certificate, key);
        let error = Certificates::load(volume.files()).err().unwrap().to_string();
        assert!(error.contains(message), "{error}");
        assert!(error.contains(volume.0.path().to_str().unwrap()), "{error}");
        assert!(!error.contains("c2VjcmV0"), "{error}");
    }
    let volume = Volume::new(&certificate, &key);
    let files = TlsFiles { key: "/nonexistent.key".into(), ..volume.files() };
    let error = Certificates::load(files).err().unwrap().to_string();
    assert!(error.starts_with("cannot read /nonexistent.key (`tls.key`): "), "{error}");
    std::fs::write(volume.0.path().join("long"), vec![b'x'; 2 << 20]).unwrap();
    let files = TlsFiles { certificate: volume.0.path().join("long"), ..volume.files() };
    assert!(Certificates::load(files).err().unwrap().to_string().contains("(`tls.certificate`): "));
}
