//! One call: deadline, limits, and what an answer means.

use std::error::Error as _;
use std::time::Duration;

use http::uri::PathAndQuery;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::{Client, MESSAGE_LIMIT, Operation, probe};
use crate::rpc::Call;
use crate::{Error, Rpc};

impl Client {
    /// Makes a call with one answer, within the usual deadline.
    ///
    /// The methods of this client are better for most purposes: they check what is named.
    ///
    /// # Errors
    ///
    /// Each call can fail in each way that [`Error`] has.
    pub async fn call<C: Call>(&self, request: C) -> Result<C::Response, Error> {
        self.call_within(request, self.inner.settings.deadline).await
    }

    /// Makes a call with one answer.
    pub(super) async fn call_within<C: Call>(
        &self,
        request: C,
        deadline: Duration,
    ) -> Result<C::Response, Error> {
        let started = Instant::now();
        let answer = async {
            let (mut grpc, path) = self.ready::<C>().await?;
            let codec = ProstCodec::<C, C::Response>::default();
            let answer = grpc.unary(with_deadline(request, deadline), path, codec).await?;
            Ok(answer.into_inner())
        };
        self.conclude::<C, _>(started, deadline, answer).await
    }

    /// Makes a call whose answer comes in parts. `take` gets each part, and may end the call.
    pub(super) async fn stream<C: Call>(
        &self,
        request: C,
        mut take: impl FnMut(C::Response) -> Result<(), String>,
    ) -> Result<(), Error> {
        let started = Instant::now();
        let deadline = self.inner.settings.deadline;
        let parts = async {
            let (mut grpc, path) = self.ready::<C>().await?;
            let codec = ProstCodec::<C, C::Response>::default();
            let answer = grpc.server_streaming(with_deadline(request, deadline), path, codec).await?;
            let mut parts = answer.into_inner();
            while let Some(part) = parts.message().await? {
                take(part).map_err(Status::resource_exhausted)?;
            }
            Ok(())
        };
        self.conclude::<C, _>(started, deadline, parts).await
    }

    /// Waits for a connection.
    async fn ready<C: Call>(&self) -> Result<(Grpc<Channel>, PathAndQuery), Status> {
        let mut grpc = Grpc::new(self.inner.channel.clone())
            .max_decoding_message_size(MESSAGE_LIMIT)
            .max_encoding_message_size(MESSAGE_LIMIT);
        grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let path = PathAndQuery::try_from(C::RPC.path(self.inner.api))
            .map_err(|error| Status::from_error(error.into()))?;
        Ok((grpc, path))
    }

    /// Ends a call at its deadline, explains its failure, and reports it.
    async fn conclude<C: Call, T>(
        &self,
        started: Instant,
        deadline: Duration,
        answer: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Error> {
        let late = Error::Deadline { rpc: C::RPC, after: deadline };
        let outcome = match tokio::time::timeout(deadline, Box::pin(answer)).await {
            Err(_) => Err(late),
            Ok(Ok(answer)) => Ok(answer),
            // The runtime, or the HTTP layer, was quicker to notice.
            Ok(Err(status)) if is_late(&status) && started.elapsed() >= deadline => Err(late),
            Ok(Err(status)) => Err(match explain(C::RPC, &status) {
                // Perhaps there is more to say about the socket.
                disconnected @ Error::Disconnected { .. } => {
                    probe::probe(self.inner.endpoint.path()).await.err().unwrap_or(disconnected)
                }
                error => error,
            }),
        };
        if let Some(observer) = &self.inner.settings.observer {
            let elapsed = started.elapsed();
            observer(&Operation { rpc: C::RPC, outcome: outcome.as_ref().map(drop), elapsed });
        }
        outcome
    }
}

/// Tells the runtime when the answer is no longer of use.
fn with_deadline<C>(request: C, deadline: Duration) -> Request<C> {
    let mut request = Request::new(request);
    request.set_timeout(deadline);
    request
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
        let mut detail = detail;
        let mut cause = Some(cause);
        while let Some(error) = cause {
            detail = format!("{detail}: {error}");
            cause = error.source();
        }
        return Error::Disconnected { rpc, detail };
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
