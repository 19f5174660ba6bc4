//! One call: deadline, limits, and what an answer means.

use std::error::Error as _;
use std::pin::Pin;
use std::time::Duration;

use http::Uri;
use http::uri::PathAndQuery;
use prost::bytes::Bytes;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::{Code, Request, Status};

use super::raw::Raw;
use super::{Client, MESSAGE_LIMIT, Operation, probe};
use crate::error::with_causes;
use crate::rpc::Call;
use crate::{Error, Rpc};

/// HTTP needs some address; the real one is the socket.
const ADDRESS: &str = "http://localhost";

/// The answer to a call. In a box, the code that waits for it is in the program once for each type of
/// call, and not once in each place.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Gets each message of an answer, and may end the call.
type Take<'a> = &'a mut (dyn FnMut(Bytes) -> Result<(), Status> + Send);

impl Client {
    /// Makes a call with one answer, within the usual deadline.
    ///
    /// The methods of this client are better for most purposes: they check what is named.
    ///
    /// # Errors
    ///
    /// Each call can fail in each way that [`Error`] has.
    #[expect(clippy::needless_pass_by_value, reason = "callers write the request in its place")]
    pub fn call<C: Call>(&self, request: C) -> Answer<'_, C::Response> {
        self.call_within(&request, self.inner.settings.deadline)
    }

    /// Makes a call with one answer.
    pub(super) fn call_within<C: Call>(&self, request: &C, deadline: Duration) -> Answer<'_, C::Response> {
        let request = request.encode_to_vec().into();
        Box::pin(async move {
            let mut answer = None;
            let mut take = |message: Bytes| match answer.replace(decoded::<C>(message)?) {
                None => Ok(()),
                Some(_) => Err(Status::internal("the runtime sent more than one answer")),
            };
            self.exchange(C::RPC, request, deadline, &mut take).await?;
            answer.ok_or_else(|| explain(C::RPC, &Status::internal("the runtime sent no answer")))
        })
    }

    /// Makes a call whose answer comes in parts. `take` gets each part, and may end the call.
    pub(super) async fn stream<C: Call>(
        &self,
        request: C,
        mut take: impl FnMut(C::Response) -> Result<(), String> + Send,
    ) -> Result<(), Error> {
        let deadline = self.inner.settings.deadline;
        let mut take = |message: Bytes| take(decoded::<C>(message)?).map_err(Status::resource_exhausted);
        self.exchange(C::RPC, request.encode_to_vec().into(), deadline, &mut take).await
    }

    /// Makes a call, ends it at its deadline, explains its failure, and reports it. It knows no types of
    /// messages: the program has it once, and not once for each call.
    fn exchange<'a>(
        &'a self,
        rpc: Rpc,
        request: Bytes,
        deadline: Duration,
        take: Take<'a>,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            let started = Instant::now();
            let late = Error::Deadline { rpc, after: deadline };
            let ended = tokio::time::timeout(deadline, self.send(rpc, request, deadline, take)).await;
            let outcome = match ended {
                Err(_) => Err(late),
                Ok(Ok(())) => Ok(()),
                Ok(Err(Failure::Connection(error))) => Err(error),
                // The runtime, or the HTTP layer, was quicker to notice.
                Ok(Err(Failure::Status(status))) if is_late(&status) && started.elapsed() >= deadline => {
                    Err(late)
                }
                Ok(Err(Failure::Status(status))) => Err(match explain(rpc, &status) {
                    // Perhaps there is more to say about the socket.
                    disconnected @ Error::Disconnected { .. } => {
                        probe::probe(self.inner.endpoint.path()).await.err().unwrap_or(disconnected)
                    }
                    error => error,
                }),
            };
            if let Some(observer) = &self.inner.settings.observer {
                let elapsed = started.elapsed();
                observer(&Operation { rpc, outcome: outcome.as_ref().map(drop), elapsed });
            }
            outcome
        })
    }

    /// Sends a request, and hands over each message of the answer. On the wire, a call with one answer
    /// is a stream of one message.
    async fn send(
        &self,
        rpc: Rpc,
        request: Bytes,
        deadline: Duration,
        take: Take<'_>,
    ) -> Result<(), Failure> {
        let sender = self.inner.connection.sender(rpc).await.map_err(Failure::Connection)?;
        let mut grpc = Grpc::with_origin(sender, Uri::from_static(ADDRESS))
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT);
        grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let path = PathAndQuery::try_from(rpc.path(self.inner.api))
            .map_err(|error| Status::from_error(error.into()))?;
        let mut request = Request::new(request);
        // So that the runtime knows when the answer is no longer of use.
        request.set_timeout(deadline);
        let mut answer = grpc.server_streaming(request, path, Raw).await?.into_inner();
        while let Some(message) = answer.message().await? {
            take(message)?;
        }
        Ok(())
    }
}

/// Why there is no answer.
enum Failure {
    /// Nothing can be connected to.
    Connection(Error),
    /// The call has failed.
    Status(Status),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

/// Reads a message of the answer to a call.
fn decoded<C: Call>(message: Bytes) -> Result<C::Response, Status> {
    C::read_response(message).map_err(|error| Status::internal(error.to_string()))
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
        Code::Unavailable => Error::NotReady { rpc, detail },
        code => Error::Runtime { rpc, code: code.description(), detail },
    }
}

#[cfg(test)]
mod tests {
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
}
