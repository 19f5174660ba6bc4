//! From an HTTP request to a call on the world, and back.

use std::sync::Arc;

use futures::stream;
use hyper::body::Incoming;
use prost::Message;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::answers::{Answer, AnswerInParts};
use super::world::World;
use super::{Entry, Settings, Shared, fault};
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
        Rpc::Version => unary::<VersionRequest>(shared, api, request).await,
        Rpc::Status => unary::<StatusRequest>(shared, api, request).await,
        Rpc::ListPodSandbox => unary::<ListPodSandboxRequest>(shared, api, request).await,
        Rpc::StreamPodSandboxes => in_parts::<StreamPodSandboxesRequest>(shared, api, request).await,
        Rpc::PodSandboxStatus => unary::<PodSandboxStatusRequest>(shared, api, request).await,
        Rpc::StopPodSandbox => unary::<StopPodSandboxRequest>(shared, api, request).await,
        Rpc::RemovePodSandbox => unary::<RemovePodSandboxRequest>(shared, api, request).await,
        Rpc::ListContainers => unary::<ListContainersRequest>(shared, api, request).await,
        Rpc::StreamContainers => in_parts::<StreamContainersRequest>(shared, api, request).await,
        Rpc::ContainerStatus => unary::<ContainerStatusRequest>(shared, api, request).await,
        Rpc::ListContainerStats => unary::<ListContainerStatsRequest>(shared, api, request).await,
        Rpc::StopContainer => unary::<StopContainerRequest>(shared, api, request).await,
        Rpc::RemoveContainer => unary::<RemoveContainerRequest>(shared, api, request).await,
        Rpc::ListImages => unary::<ListImagesRequest>(shared, api, request).await,
        Rpc::StreamImages => in_parts::<StreamImagesRequest>(shared, api, request).await,
        Rpc::ImageStatus => unary::<ImageStatusRequest>(shared, api, request).await,
        Rpc::RemoveImage => unary::<RemoveImageRequest>(shared, api, request).await,
        Rpc::ImageFsInfo => unary::<ImageFsInfoRequest>(shared, api, request).await,
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

async fn unary<C: Answer>(
    shared: Arc<Shared>,
    api: ApiVersion,
    request: http::Request<Incoming>,
) -> http::Response<Body> {
    let mut grpc = Grpc::new(ProstCodec::<C::Response, C>::default());
    let answer = service_fn(move |request: Request<C>| {
        let shared = Arc::clone(&shared);
        async move {
            let request = request.into_inner();
            let about = request.about();
            let carry_out = |settings: &Settings, world: &mut World| {
                let answer = request.answer(settings, world)?;
                let (size, limit) = (answer.encoded_len(), settings.message_limit);
                if size > limit {
                    return Err(Status::resource_exhausted(format!("{size} bytes are more than {limit}")));
                }
                Ok(answer)
            };
            call(&shared, api, C::RPC, about, carry_out).await.map(Response::new)
        }
    });
    grpc.unary(answer, request).await
}

async fn in_parts<C: AnswerInParts>(
    shared: Arc<Shared>,
    api: ApiVersion,
    request: http::Request<Incoming>,
) -> http::Response<Body> {
    let mut grpc = Grpc::new(ProstCodec::<C::Response, C>::default());
    let answer = service_fn(move |request: Request<C>| {
        let shared = Arc::clone(&shared);
        async move {
            let request = request.into_inner();
            let carry_out = |settings: &Settings, world: &mut World| {
                Ok(request.parts(settings, world, settings.stream.unwrap_or(1).max(1)))
            };
            let parts = call(&shared, api, C::RPC, String::new(), carry_out).await?;
            Ok::<_, Status>(Response::new(stream::iter(parts.into_iter().map(Ok::<_, Status>))))
        }
    });
    grpc.server_streaming(answer, request).await
}

/// Carries out a call, with the faults that there are for it, and writes it down.
async fn call<T>(
    shared: &Shared,
    api: ApiVersion,
    rpc: Rpc,
    about: String,
    carry_out: impl FnOnce(&Settings, &mut World) -> Result<T, Status>,
) -> Result<T, Status> {
    let (at, plan) = {
        let mut state = shared.state();
        let state = &mut *state;
        state.journal.push(Entry { rpc, api, about: about.clone(), outcome: None });
        (state.journal.len() - 1, fault::before(&mut state.faults, &mut state.world, rpc, &about))
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
            None => carry_out(&shared.settings, &mut state.world),
        };
        fault::after(&mut state.faults, &mut state.world, rpc, &about);
        // A test may have cleared the journal in the meantime.
        if let Some(entry) =
            state.journal.get_mut(at).filter(|entry| entry.rpc == rpc && entry.about == about)
        {
            entry.outcome = Some(outcome.as_ref().err().map_or(Code::Ok, Status::code));
        }
        outcome
    };
    if let Some((true, down)) = plan.restart {
        shared.restart(down);
        std::future::pending::<()>().await;
    }
    outcome
}
