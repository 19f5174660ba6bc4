//! What an error says if there is no response, and whether it broke the connection.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::iter::successors;

use rustix::io::Errno;

use super::connection::CredentialsError;

/// How a message begins if the connection could not be made, so that nothing was sent.
pub(super) const CANNOT_CONNECT: &str = "cannot connect";
/// Stands for an error that no cause describes.
const NO_CAUSE: &str = "the connection failed";

/// An error and its causes.
pub(super) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |&error| match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        // The source of an I/O error is that of the error in it.
        Some(inner) => Some(inner as &(dyn Error + 'static)),
        None => error.source(),
    })
}

/// An error and its causes in words, without what libraries add for programmers: they wrap each cause in
/// the name of a type or of an internal step, such as "ServiceError" or "client error (SendRequest)".
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for words in causes(error).map(plain) {
        if !words.is_empty() && !text.contains(&words) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&words);
        }
    }
    if text.is_empty() { NO_CAUSE.to_owned() } else { text }
}

/// What an error itself says, without its causes; empty for a mere wrapper.
fn plain(error: &(dyn Error + 'static)) -> String {
    if let Some(kube::Error::Service(_) | kube::Error::HyperError(_)) = error.downcast_ref() {
        return String::new();
    }
    if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
        return if error.is_connect() { CANNOT_CONNECT.to_owned() } else { String::new() };
    }
    let limit = error.downcast_ref().and_then(Errno::from_io_error) == Some(Errno::MFILE);
    let hint = if limit { "; raise the limit of open files (`ulimit -n`)" } else { "" };
    format!("{}{hint}", without_address(&error.to_string()))
}

/// Cuts off the address of a library's documentation.
fn without_address(text: &str) -> &str {
    text.split_once(": https://docs.rs/").map_or(text, |(text, _)| text)
}

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
    causes(error).any(|cause| {
        cause.downcast_ref::<hyper_util::client::legacy::Error>().is_some_and(|cause| cause.is_connect())
            || cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message)
            || cause.downcast_ref::<io::Error>().is_some_and(|cause| breaks(cause.kind()))
    })
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

    use super::*;
    use crate::testing::{widget, widget_json, widgets};
    use crate::{Api, ApiSettings, Connection, ErrorClass, LookupResult, WriteGate};

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the answer")]
    struct Reading(#[source] io::Error);

    #[test]
    fn each_cause_is_named_once_and_wrappers_are_not() {
        let reading = Reading(io::Error::other("connection reset"));
        let error = kube::Error::Service(Box::new(reading));
        assert_eq!(error_chain(&error), "cannot read the answer: connection reset");
        let text = "peer closed connection: https://docs.rs/rustls/latest/x.html";
        assert_eq!(error_chain(&io::Error::other(text)), "peer closed connection");
        let full = error_chain(&Reading(Errno::MFILE.into()));
        assert!(full.ends_with("; raise the limit of open files (`ulimit -n`)"), "{full}");
    }

    async fn api(listener: &TcpListener) -> Api {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let config = kube::Config::new(url.parse().unwrap());
        let api =
            Api::over(&Connection::new(config).unwrap(), ApiSettings::default(), WriteGate::open()).unwrap();
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
    async fn a_connection_that_fails_or_breaks_raises_the_fence_and_is_described_in_plain_words() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut errors = Vec::new();
        for says in ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"] {
            let api = api(&listener).await;
            let server = async {
                let (mut connection, _) = listener.accept().await.unwrap();
                read(&mut connection).await;
                connection.write_all(says.as_bytes()).await.unwrap();
            };
            let widget = widget();
            let (found, ()) = tokio::join!(api.look_up(&widget), server);
            errors.push(found.unwrap_err());
            assert!(api.restore_fence().is_raised(), "{says:?}");
        }
        let (follows, new) = (api(&listener).await, api(&listener).await);
        new.restore_fence().reset();
        drop(listener);
        for api in [&follows, &new] {
            let error = api.look_up(&widget()).await.unwrap_err();
            assert!(error.message.starts_with(CANNOT_CONNECT) && !error.may_have_taken_effect(), "{error}");
            errors.push(error);
        }
        assert!(follows.restore_fence().is_raised());
        assert!(!new.restore_fence().is_raised(), "it has not seen anything");
        for error in errors {
            assert_eq!(error.class, ErrorClass::Transient);
            for word in ["ServiceError", "client error", "SendRequest", "(Connect)"] {
                assert!(!error.message.contains(word), "{error}");
            }
        }
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
