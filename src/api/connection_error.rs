//! Whether a request failed because of its connection.

use std::error::Error;
use std::io::{self, ErrorKind};

use super::connection::CredentialsError;

/// Whether the connection could not be made, or broke during the request. An idle connection
/// that the server closes does not count: only the pool notices that.
pub(super) fn is_connection_error(error: &kube::Error) -> bool {
    match error {
        kube::Error::Service(cause) => !cause.is::<CredentialsError>() && is_caused_by_connection(&**cause),
        kube::Error::HyperError(cause) => is_caused_by_connection(cause),
        _ => false,
    }
}

/// The same for an error while a body is read.
pub(super) fn is_caused_by_connection(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(cause) = next {
        if cause.downcast_ref::<hyper_util::client::legacy::Error>().is_some_and(|cause| cause.is_connect())
            || cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message)
            || cause.downcast_ref::<io::Error>().is_some_and(|cause| breaks(cause.kind()))
        {
            return true;
        }
        next = cause.source();
    }
    false
}

const fn breaks(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof
            // How the kernel reports a peer that no longer answers its probes.
            | ErrorKind::TimedOut
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use crate::api::scripted::{widget, widget_json, widgets};
    use crate::api::{Api, ApiSettings, ErrorClass, LookupResult, WriteGate};

    async fn api(listener: &TcpListener) -> Api {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let config = kube::Config::new(url.parse().unwrap());
        let api = Api::connect(config, ApiSettings::default(), WriteGate::open()).unwrap();
        api.restore_fence().follow(&widgets());
        api
    }

    /// Reads a request, up to the end of its head.
    async fn read(connection: &mut TcpStream) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(connection.read_u8().await.unwrap());
        }
    }

    async fn answer(connection: &mut TcpStream) {
        let body = widget_json("");
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        connection.write_all(answer.as_bytes()).await.unwrap();
    }

    #[tokio::test]
    async fn a_connection_that_fails_or_breaks_raises_the_restore_fence() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        for says in ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"] {
            let api = api(&listener).await;
            let server = async {
                let (mut connection, _) = listener.accept().await.unwrap();
                read(&mut connection).await;
                connection.write_all(says.as_bytes()).await.unwrap();
            };
            let widget = widget();
            let (found, ()) = tokio::join!(api.look_up(&widget), server);
            assert_eq!(found.unwrap_err().class, ErrorClass::Transient);
            assert!(api.restore_fence().is_raised(), "{says:?}");
        }
        let api = api(&listener).await;
        drop(listener);
        assert_eq!(api.look_up(&widget()).await.unwrap_err().class, ErrorClass::Transient);
        assert!(api.restore_fence().is_raised());
    }

    #[test]
    fn a_peer_that_no_longer_answers_is_a_broken_connection() {
        use std::io::{Error, ErrorKind};
        for kind in [ErrorKind::TimedOut, ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable] {
            assert!(super::is_caused_by_connection(&Error::from(kind)), "{kind}");
        }
        for kind in [ErrorKind::InvalidData, ErrorKind::PermissionDenied, ErrorKind::WouldBlock] {
            assert!(!super::is_caused_by_connection(&Error::from(kind)), "{kind}");
        }
    }

    #[tokio::test]
    async fn before_anything_was_seen_the_fence_is_not_raised() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api = api(&listener).await;
        api.restore_fence().reset();
        drop(listener);
        api.look_up(&widget()).await.unwrap_err();
        assert!(!api.restore_fence().is_raised());
    }

    /// API servers close idle connections.
    #[tokio::test]
    async fn a_closed_idle_connection_does_not_raise_the_fence() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api = Arc::new(api(&listener).await);
        let widget = widget();
        for _ in 0..3 {
            let server = async {
                let (mut connection, _) = listener.accept().await.unwrap();
                read(&mut connection).await;
                answer(&mut connection).await;
                connection
            };
            let (found, mut connection) = tokio::join!(api.look_up(&widget), server);
            assert!(matches!(found, Ok(LookupResult::Found(_))));
            connection.shutdown().await.unwrap();
            // Until the client has noticed, too.
            let end = timeout(Duration::from_secs(30), connection.read(&mut [0])).await;
            assert_eq!(end.unwrap().unwrap(), 0);
        }
        assert!(!api.restore_fence().is_raised());
    }
}
