//! One call: connection, deadline, limits, and what an answer means.

use std::error::Error as _;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::transport::{self, Channel};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::{Client, MESSAGE_LIMIT};
use crate::error::with_causes;
use crate::rpc::Call;
use crate::{Error, Rpc};

/// HTTP needs some address; the real one is the socket.
const ADDRESS: &str = "http://localhost";
/// The header that names a namespace of containerd.
const NAMESPACE: &str = "containerd-namespace";
/// How much of a list may be under way; with HTTP/2's own 64 KiB, a list of megabytes would wait
/// for hundreds of acknowledgements.
const WINDOW: u32 = 1024 * 1024;

/// What sends calls over a socket, and how often it has connected. It connects when a call needs it, and again
/// after a connection has ended.
pub(super) fn channel(path: &Path) -> (Channel, Arc<AtomicU64>) {
    let path = path.to_owned();
    let connections = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&connections);
    let connect = service_fn(move |_: Uri| {
        let (path, counted) = (path.clone(), Arc::clone(&counted));
        async move {
            let stream = UnixStream::connect(path).await?;
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, io::Error>(TokioIo::new(stream))
        }
    });
    let channel = transport::Endpoint::from_static(ADDRESS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .connect_with_connector_lazy(connect);
    (channel, connections)
}

impl Client {
    /// Makes a call with one answer, within the usual deadline.
    ///
    /// The methods of this client are better for most purposes: they check what is named.
    ///
    /// # Errors
    ///
    /// Each call can fail in each way that [`Error`] has.
    pub async fn call<C: Call>(&self, request: C) -> Result<C::Response, Error> {
        self.call_within(request, self.settings.deadline).await
    }

    /// Makes a call with one answer.
    pub(super) async fn call_within<C: Call>(
        &self,
        request: C,
        deadline: Duration,
    ) -> Result<C::Response, Error> {
        let mut answer = None;
        let take = |message| match answer.replace(message) {
            None => Ok(()),
            Some(_) => Err(Status::internal("the runtime sent more than one answer")),
        };
        self.exchange(request, deadline, take).await?;
        answer.ok_or_else(|| explain(C::RPC, &Status::internal("the runtime sent no answer")))
    }

    /// Makes a call whose answer comes in parts. `take` gets each part, and may end the call.
    pub(super) async fn stream<C: Call>(
        &self,
        request: C,
        mut take: impl FnMut(C::Response) -> Result<(), String>,
    ) -> Result<(), Error> {
        let take = |message| take(message).map_err(Status::resource_exhausted);
        self.exchange(request, self.settings.deadline, take).await
    }

    /// Makes a call, ends it at its deadline, explains its failure, and reports it.
    async fn exchange<C: Call>(
        &self,
        request: C,
        deadline: Duration,
        take: impl FnMut(C::Response) -> Result<(), Status>,
    ) -> Result<(), Error> {
        let (rpc, started) = (C::RPC, Instant::now());
        let late = Error::Deadline { rpc, after: deadline };
        let outcome = match tokio::time::timeout(deadline, self.send(request, deadline, take)).await {
            Err(_) => Err(late),
            Ok(Ok(())) => Ok(()),
            // The runtime, or the HTTP layer, was quicker to notice.
            Ok(Err(status)) if is_late(&status) && started.elapsed() >= deadline => Err(late),
            Ok(Err(status)) => Err(match explain(rpc, &status) {
                // Perhaps there is more to say about the socket.
                disconnected @ Error::Disconnected { .. } => {
                    probe(self.endpoint.path()).await.err().unwrap_or(disconnected)
                }
                error => error,
            }),
        };
        if let Some(observer) = &self.settings.observer {
            observer(rpc, outcome.is_err(), started.elapsed());
        }
        outcome
    }

    /// Sends a request, and hands over each message of the answer. On the wire, a call with one answer
    /// is a stream of one message.
    async fn send<C: Call>(
        &self,
        request: C,
        deadline: Duration,
        mut take: impl FnMut(C::Response) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let failed = |error: transport::Error| Status::from_error(error.into());
        let mut grpc = Grpc::new(self.channel.clone())
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT);
        grpc.ready().await.map_err(failed)?;
        let path = PathAndQuery::try_from(C::RPC.path(self.api))
            .map_err(|error| Status::from_error(error.into()))?;
        let mut request = Request::new(request);
        // So that the runtime knows when the answer is no longer of use.
        request.set_timeout(deadline);
        if let Some(namespace) = &self.namespace {
            let value = namespace.parse().map_err(|_| Status::invalid_argument("no name of a namespace"))?;
            request.metadata_mut().insert(NAMESPACE, value);
        }
        let codec = ProstCodec::<C, C::Response>::default();
        let mut answer = grpc.server_streaming(request, path, codec).await?.into_inner();
        while let Some(message) = answer.message().await? {
            take(message)?;
        }
        Ok(())
    }
}

/// Whether a status says that the time is over.
fn is_late(status: &Status) -> bool {
    matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled)
}

/// Says what a status means for a call.
fn explain(rpc: Rpc, status: &Status) -> Error {
    let detail = status.message().to_owned();
    // A status with a cause was made here, because the connection failed.
    if let Some(cause) = status.source() {
        return Error::Disconnected { rpc, detail: format!("{detail}: {}", with_causes(cause)) };
    }
    match status.code() {
        // The runtime's limit, or this client's.
        Code::ResourceExhausted | Code::OutOfRange if rpc.is_list() => Error::TooLarge { rpc, detail },
        Code::NotFound => Error::NotFound { rpc, detail },
        Code::Unimplemented => Error::Unimplemented { rpc, detail },
        // Or the runtime has waited in vain for a part of its own, which may go on.
        Code::Unavailable | Code::DeadlineExceeded => Error::NotReady { rpc, detail },
        code => Error::Runtime { rpc, code: code.description(), detail },
    }
}

/// Makes a connection once, to learn why it cannot be made.
pub(super) async fn probe(path: &Path) -> Result<(), Error> {
    UnixStream::connect(path).await.map(drop).map_err(|error| explain_socket(path, &error))
}

/// Says why there is no connection to a socket.
fn explain_socket(path: &Path, error: &io::Error) -> Error {
    let path = path.to_owned();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Error::NoSocket { path },
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

    #[test]
    fn a_list_that_is_too_large_is_told_from_a_runtime_that_is_short_of_something() {
        let exhausted = Status::resource_exhausted("trying to send message larger than max");
        assert!(matches!(explain(Rpc::ListContainers, &exhausted), Error::TooLarge { .. }));
        assert!(matches!(explain(Rpc::RemoveImage, &exhausted), Error::Runtime { .. }));
        let ours = Status::out_of_range("decoded message length too large");
        assert!(matches!(explain(Rpc::StreamImages, &ours), Error::TooLarge { .. }));
    }

    #[test]
    fn what_the_connection_failed_of_is_said() {
        let status = Status::from_error(Box::new(std::io::Error::other("broken pipe")));
        let Error::Disconnected { detail, .. } = explain(Rpc::Status, &status) else { panic!("{status:?}") };
        assert!(detail.contains("broken pipe"), "{detail}");
    }

    #[tokio::test]
    async fn each_reason_for_no_connection_has_its_own_error() {
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
        assert_eq!(explain_socket(&at("live"), &denied), Error::NoPermission { path: at("live") });
    }
}
