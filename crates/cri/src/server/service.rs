//! From an HTTP request to a call on the world, and back.

use std::sync::Arc;

use futures::stream;
use hyper::body::Incoming;
use prost::Message;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::answers::Answer;
use super::{Entry, Shared, fault};
use crate::messages::*;
use crate::{ApiVersion, Rpc};

/// Answers one HTTP request.
pub(super) async fn dispatch(shared: Arc<Shared>, request: http::Request<Incoming>) -> http::Response<Body> {
    let path = request.uri().path().to_owned();
    let served = |(api, rpc): &(ApiVersion, Rpc)| {
        shared.settings.versions.contains(api) && (!rpc.is_streamed() || shared.settings.stream.is_some())
    };
    let Some((api, rpc)) = parse(&path).filter(served) else {
        return Status::unimplemented(format!("{path} is not served")).into_http();
    };
    match rpc {
        Rpc::Version => answer::<VersionRequest>(shared, api, request).await,
        Rpc::Status => answer::<StatusRequest>(shared, api, request).await,
        Rpc::ListPodSandbox => answer::<ListPodSandboxRequest>(shared, api, request).await,
        Rpc::StreamPodSandboxes => answer::<StreamPodSandboxesRequest>(shared, api, request).await,
        Rpc::PodSandboxStatus => answer::<PodSandboxStatusRequest>(shared, api, request).await,
        Rpc::StopPodSandbox => answer::<StopPodSandboxRequest>(shared, api, request).await,
        Rpc::RemovePodSandbox => answer::<RemovePodSandboxRequest>(shared, api, request).await,
        Rpc::ListContainers => answer::<ListContainersRequest>(shared, api, request).await,
        Rpc::StreamContainers => answer::<StreamContainersRequest>(shared, api, request).await,
        Rpc::ContainerStatus => answer::<ContainerStatusRequest>(shared, api, request).await,
        Rpc::ListContainerStats => answer::<ListContainerStatsRequest>(shared, api, request).await,
        Rpc::StopContainer => answer::<StopContainerRequest>(shared, api, request).await,
        Rpc::RemoveContainer => answer::<RemoveContainerRequest>(shared, api, request).await,
        Rpc::ListImages => answer::<ListImagesRequest>(shared, api, request).await,
        Rpc::StreamImages => answer::<StreamImagesRequest>(shared, api, request).await,
        Rpc::ImageStatus => answer::<ImageStatusRequest>(shared, api, request).await,
        Rpc::RemoveImage => answer::<RemoveImageRequest>(shared, api, request).await,
        Rpc::ImageFsInfo => answer::<ImageFsInfoRequest>(shared, api, request).await,
        // Pods are put into the world directly.
        Rpc::RunPodSandbox | Rpc::CreateContainer | Rpc::StartContainer => {
            Status::unimplemented(format!("{rpc} is not served")).into_http()
        }
    }
}

/// The call that a path names.
fn parse(path: &str) -> Option<(ApiVersion, Rpc)> {
    let versions = [ApiVersion::V1, ApiVersion::V1Alpha2].into_iter();
    let mut calls = versions.flat_map(|api| Rpc::ALL.iter().map(move |rpc| (api, *rpc)));
    calls.find(|(api, rpc)| rpc.path(*api) == path)
}

/// Answers a request of one kind. On the wire, a call with one answer is a stream of one message.
async fn answer<C: Answer>(
    shared: Arc<Shared>,
    api: ApiVersion,
    request: http::Request<Incoming>,
) -> http::Response<Body> {
    let mut grpc = Grpc::new(ProstCodec::<C::Response, C>::default());
    let answer = service_fn(move |request: Request<C>| {
        let shared = Arc::clone(&shared);
        async move {
            let messages = call(&shared, api, request.into_inner()).await?;
            Ok::<_, Status>(Response::new(stream::iter(messages.into_iter().map(Ok::<_, Status>))))
        }
    });
    grpc.server_streaming(answer, request).await
}

/// Carries out a call, with the faults that there are for it, and writes it down.
async fn call<C: Answer>(shared: &Shared, api: ApiVersion, request: C) -> Result<Vec<C::Response>, Status> {
    let (rpc, about) = (C::RPC, request.about());
    let plan = {
        let mut state = shared.state();
        let state = &mut *state;
        state.journal.push(Entry { rpc, api, about: about.clone() });
        fault::before(&mut state.faults, &mut state.world, rpc, &about)
    };
    if !plan.delay.is_zero() {
        tokio::time::sleep(plan.delay).await;
    }
    if plan.hangs {
        std::future::pending::<()>().await;
    }
    if let Some((false, down)) = plan.restart {
        shared.restart(down);
        std::future::pending::<()>().await;
    }
    let outcome = {
        let mut state = shared.state();
        let state = &mut *state;
        let outcome = match plan.fails {
            Some((code, message)) => Err(Status::new(code, message)),
            None => request.answer(&shared.settings, &mut state.world),
        };
        fault::after(&mut state.faults, &mut state.world, rpc, &about);
        outcome
    };
    if let Some((true, down)) = plan.restart {
        shared.restart(down);
        std::future::pending::<()>().await;
    }
    let (messages, limit) = (outcome?, shared.settings.message_limit);
    let is_too_long = |size: &usize| *size > limit && !rpc.is_streamed();
    match messages.iter().map(Message::encoded_len).find(is_too_long) {
        Some(size) => Err(Status::resource_exhausted(format!("{size} bytes are more than {limit}"))),
        None => Ok(messages),
    }
}
