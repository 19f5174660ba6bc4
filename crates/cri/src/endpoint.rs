//! Sockets of container runtimes.

use std::fmt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// The longest path that a unix socket can have on Linux.
const LONGEST_PATH: usize = 107;

/// The socket of a container runtime.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    path: PathBuf,
    /// The symlink that led to the path.
    link: Option<PathBuf>,
}

impl Endpoint {
    /// Reads an endpoint as the kubelet writes it: `unix:///run/containerd/containerd.sock`, or the
    /// path alone.
    ///
    /// # Errors
    ///
    /// It is no absolute path, or not one that a unix socket can have.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let path = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")).unwrap_or(text);
        let malformed = |why| Error::MalformedEndpoint { endpoint: text.to_owned(), why };
        if text.contains("://") && !text.starts_with("unix://") {
            return Err(malformed("only unix sockets are supported"));
        }
        if !path.starts_with('/') {
            return Err(malformed("the path is not absolute"));
        }
        if path.len() > LONGEST_PATH {
            return Err(malformed("the path is too long for a unix socket"));
        }
        if path.contains('\0') {
            return Err(malformed("the path contains a zero byte"));
        }
        Ok(Self { path: path.into(), link: None })
    }

    /// The same without symlinks, so that nobody makes it another runtime by changing one.
    pub fn resolved(self) -> Self {
        let path = std::fs::canonicalize(&self.path).ok();
        match path.filter(|path| *path != self.path && path.as_os_str().len() <= LONGEST_PATH) {
            Some(path) => Self { path, link: Some(self.path) },
            None => self,
        }
    }

    /// The symlink that led here, and the other path to which it leads now, if it does.
    pub fn moved(&self) -> Option<(&Path, PathBuf)> {
        let link = self.link.as_deref()?;
        let now = std::fs::canonicalize(link).ok()?;
        (now != self.path).then_some((link, now))
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.path.display())
    }
}

/// A runtime whose socket has a usual place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The runtime, or what brings it.
    pub name: &'static str,
    /// The usual place of its socket.
    pub path: &'static str,
}

/// The runtimes that are looked for, in this order.
pub const KNOWN: [Known; 6] = [
    Known { name: "containerd", path: "/run/containerd/containerd.sock" },
    Known { name: "k3s or RKE2", path: "/run/k3s/containerd/containerd.sock" },
    Known { name: "CRI-O", path: "/run/crio/crio.sock" },
    Known { name: "cri-dockerd", path: "/run/cri-dockerd.sock" },
    Known { name: "k0s", path: "/run/k0s/containerd.sock" },
    Known { name: "MicroK8s", path: "/var/snap/microk8s/common/run/containerd.sock" },
];

/// Finds the runtime of this host when no endpoint is named.
///
/// # Errors
///
/// There is none, or more than one.
pub fn discover() -> Result<Endpoint, Error> {
    choose(KNOWN.into_iter().filter(|known| is_socket(Path::new(known.path))).collect())
}

/// Chooses between the sockets that exist. It does not guess: a node with two runtimes has pods on
/// one of them, and the other one would look as if none of its containers belonged to a pod.
fn choose(existing: Vec<Known>) -> Result<Endpoint, Error> {
    match existing.as_slice() {
        [] => Err(Error::NoRuntime),
        [only] => Ok(Endpoint { path: only.path.into(), link: None }),
        _ => Err(Error::SeveralRuntimes { found: existing }),
    }
}

/// Whether a path leads to a socket.
fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_written_as_for_the_kubelet() {
        for text in ["unix:///run/x.sock", "unix:/run/x.sock", "/run/x.sock"] {
            let endpoint = Endpoint::parse(text).expect(text);
            assert_eq!(endpoint.path(), Path::new("/run/x.sock"), "{text}");
            assert_eq!(endpoint.to_string(), "unix:///run/x.sock");
        }
    }

    #[test]
    fn what_is_no_unix_socket_is_refused() {
        let long = format!("/{}", "x".repeat(200));
        for (text, why) in [
            ("tcp://127.0.0.1:1234", "only unix sockets"),
            ("npipe:////./pipe/containerd", "only unix sockets"),
            ("run/x.sock", "not absolute"),
            ("unix://", "not absolute"),
            ("", "not absolute"),
            (long.as_str(), "too long"),
            ("/run/\0x", "zero byte"),
        ] {
            let error = Endpoint::parse(text).expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn the_only_socket_is_chosen_and_otherwise_the_places_are_named() {
        assert_eq!(choose(vec![KNOWN[1]]).expect("one").path(), Path::new(KNOWN[1].path));
        let error = choose(vec![]).expect_err("none").to_string();
        assert!(KNOWN.iter().all(|known| error.contains(known.path)), "{error}");
        let error = choose(vec![KNOWN[0], KNOWN[3]]).expect_err("several").to_string();
        assert!(error.contains(KNOWN[0].path) && error.contains(KNOWN[3].path), "{error}");
        assert!(!error.contains(KNOWN[2].path), "{error}");
    }

    #[test]
    fn only_sockets_count() {
        let directory = tempfile::tempdir().expect("a directory");
        let (file, socket) = (directory.path().join("file"), directory.path().join("socket"));
        std::fs::write(&file, "").expect("a file");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        assert!(is_socket(&socket));
        assert!(
            !is_socket(&file) && !is_socket(directory.path()) && !is_socket(&directory.path().join("none"))
        );
    }
}
