//! Why there is no connection to the socket.

use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use tokio::net::UnixStream;

use crate::Error;

/// Makes a connection once, to learn why it cannot be made.
pub(super) async fn probe(path: &Path) -> Result<(), Error> {
    UnixStream::connect(path).await.map(drop).map_err(|error| explain(path, &error))
}

/// Says why there is no connection.
pub(super) fn explain(path: &Path, error: &io::Error) -> Error {
    let path = path.to_owned();
    match error.kind() {
        ErrorKind::NotFound => Error::NoSocket { path },
        ErrorKind::NotADirectory => Error::NoSocket { path },
        ErrorKind::PermissionDenied => Error::NoPermission { path },
        // The system says the same of a file and of a socket that was left behind.
        ErrorKind::ConnectionRefused => match std::fs::metadata(&path) {
            Ok(metadata) if !metadata.file_type().is_socket() => Error::NotASocket { path },
            _ => Error::NotListening { path },
        },
        _ => Error::Connect { path, detail: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn each_reason_has_its_own_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "").expect("a file");
        let stale = UnixListener::bind(at("stale")).expect("a socket");
        drop(stale);
        let _live = UnixListener::bind(at("live")).expect("a socket");

        assert_eq!(probe(&at("live")).await, Ok(()));
        assert_eq!(probe(&at("none")).await, Err(Error::NoSocket { path: at("none") }));
        assert_eq!(probe(&at("file/none")).await, Err(Error::NoSocket { path: at("file/none") }));
        assert_eq!(probe(&at("file")).await, Err(Error::NotASocket { path: at("file") }));
        assert_eq!(probe(directory.path()).await, Err(Error::NotASocket { path: directory.path().into() }));
        assert_eq!(probe(&at("stale")).await, Err(Error::NotListening { path: at("stale") }));
        let denied = io::Error::from(ErrorKind::PermissionDenied);
        assert_eq!(explain(&at("live"), &denied), Error::NoPermission { path: at("live") });
    }
}
