//! From an HTTP request to what the runtime does and answers: as containerd 1.6 does.

#![allow(clippy::needless_pass_by_value, reason = "all calls have one form")]

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream;
use hyper::body::Incoming;
use prost::Message;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::world::{ContainerRecord, World};
use super::{Entry, Settings, Shared, State, fault};
use crate::messages::*;
use crate::rpc::Call;
use crate::{ApiVersion, Rpc};

/// The messages of an answer, or the failure. Only streamed lists are answered by several messages.
type Answered<C> = Result<Vec<<C as Call>::Response>, Status>;

/// Answers one HTTP request.
pub(super) async fn dispatch(shared: Arc<Shared>, request: http::Request<Incoming>) -> http::Response<Body> {
    let path = request.uri().path().to_owned();
    let served = |(_, rpc): &(ApiVersion, Rpc)| {
        let state = shared.state();
        // containerd's own calls have no version of CRI.
        let is_spoken = state.settings.versions.iter().any(|api| rpc.path(*api) == path);
        is_spoken && (!rpc.is_streamed() || state.settings.stream.is_some())
    };
    let refused = || Status::unimplemented(format!("{path} is not served")).into_http();
    let Some((api, rpc)) = parse(&path).filter(served) else { return refused() };
    let arrived = Arrived { shared, api, request };
    match rpc {
        Rpc::Version => arrived.answer(version, |_| "").await,
        Rpc::Status => arrived.answer(status, |_| "").await,
        Rpc::ListPodSandbox => arrived.answer(list_sandboxes, |_| "").await,
        Rpc::StreamPodSandboxes => arrived.answer(stream_sandboxes, |_| "").await,
        Rpc::PodSandboxStatus => arrived.answer(sandbox_status, |it| &it.pod_sandbox_id).await,
        Rpc::StopPodSandbox => arrived.answer(stop_sandbox, |it| &it.pod_sandbox_id).await,
        Rpc::RemovePodSandbox => arrived.answer(remove_sandbox, |it| &it.pod_sandbox_id).await,
        Rpc::ListContainers => arrived.answer(list_containers, |_| "").await,
        Rpc::StreamContainers => arrived.answer(stream_containers, |_| "").await,
        Rpc::ContainerStatus => arrived.answer(container_status, |it| &it.container_id).await,
        Rpc::ListContainerStats => arrived.answer(container_stats, |_| "").await,
        Rpc::StreamContainerStats => arrived.answer(stream_container_stats, |_| "").await,
        Rpc::StopContainer => arrived.answer(stop_container, |it| &it.container_id).await,
        Rpc::RemoveContainer => arrived.answer(remove_container, |it| &it.container_id).await,
        Rpc::ListImages => arrived.answer(list_images, |_| "").await,
        Rpc::StreamImages => arrived.answer(stream_images, |_| "").await,
        Rpc::ImageStatus => arrived.answer(image_status, name_of_status).await,
        Rpc::RemoveImage => arrived.answer(remove_image, name_of_image).await,
        Rpc::ImageFsInfo => arrived.answer(filesystem, |_| "").await,
        Rpc::ListNamespaces => arrived.answer(namespaces, |_| "").await,
        Rpc::ListNamespaceContainers => arrived.answer(foreign_containers, |_| "").await,
        // Pods are put into the world directly.
        Rpc::RunPodSandbox | Rpc::CreateContainer | Rpc::StartContainer => refused(),
    }
}

/// The call that a path names.
fn parse(path: &str) -> Option<(ApiVersion, Rpc)> {
    let versions = [ApiVersion::V1, ApiVersion::V1Alpha2].into_iter();
    let mut calls = versions.flat_map(|api| Rpc::ALL.iter().map(move |rpc| (api, *rpc)));
    calls.find(|(api, rpc)| rpc.path(*api) == path)
}

/// A call that has arrived.
struct Arrived {
    shared: Arc<Shared>,
    api: ApiVersion,
    request: http::Request<Incoming>,
}

impl Arrived {
    /// Answers it. `about` is the id or name that it is about; empty for lists. On the wire, a call with
    /// one answer is a stream of one message.
    async fn answer<C: Call>(
        self,
        answer: fn(C, &mut State) -> Answered<C>,
        about: fn(&C) -> &str,
    ) -> http::Response<Body> {
        let Self { shared, api, request } = self;
        let mut grpc = Grpc::new(ProstCodec::<C::Response, C>::default());
        let service = service_fn(move |request: Request<C>| {
            let shared = Arc::clone(&shared);
            async move {
                let request = request.into_inner();
                let about = about(&request).to_owned();
                let messages = carry_out::<C>(&shared, api, &about, |state| answer(request, state));
                let messages = messages.await?.into_iter().map(Ok::<_, Status>);
                Ok::<_, Status>(Response::new(stream::iter(messages)))
            }
        });
        grpc.server_streaming(service, request).await
    }
}

/// Carries out a call, with the faults that there are for it, and writes it down.
async fn carry_out<C: Call>(
    shared: &Shared,
    api: ApiVersion,
    about: &str,
    answer: impl FnOnce(&mut State) -> Answered<C>,
) -> Answered<C> {
    let plan = {
        let mut state = shared.state();
        let state = &mut *state;
        state.journal.push(Entry { rpc: C::RPC, api, about: about.to_owned() });
        fault::before(&mut state.faults, &mut state.world, C::RPC, about)
    };
    if plan.hangs {
        std::future::pending::<()>().await;
    }
    let is_done = plan.restart.is_none_or(|(done, _)| done);
    let outcome = match plan.fails {
        Some(status) => Err(status),
        None if is_done => answer(&mut shared.state()),
        None => Ok(Vec::new()),
    };
    if let Some((_, down)) = plan.restart {
        shared.end_connections(Some(down));
        std::future::pending::<()>().await;
    }
    let (messages, limit) = (outcome?, shared.state().settings.message_limit);
    let is_too_long = |size: &usize| *size > limit && !C::RPC.is_streamed();
    match messages.iter().map(Message::encoded_len).find(is_too_long) {
        Some(size) => Err(Status::resource_exhausted(format!("{size} bytes are more than {limit}"))),
        None => Ok(messages),
    }
}

fn has_labels(labels: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// A list in messages that each have so many items at most.
fn in_parts<T: Clone, M>(settings: &Settings, items: &[T], message: impl Fn(Vec<T>) -> M) -> Vec<M> {
    let parts = items.chunks(settings.stream.unwrap_or(1).max(1));
    parts.map(|part| message(part.to_vec())).collect()
}

/// What has this id, or that it does not exist.
fn find<'a, T>(kind: &str, all: &'a BTreeMap<String, T>, id: &str) -> Result<&'a T, Status> {
    all.get(id).ok_or_else(|| Status::not_found(format!("{kind} {id:?}: not found")))
}

/// containerd 2 no longer serves v1alpha2.
fn version(_: VersionRequest, state: &mut State) -> Answered<VersionRequest> {
    let is_old = state.settings.versions.contains(&ApiVersion::V1Alpha2);
    Ok(vec![VersionResponse {
        version: "0.1.0".to_owned(),
        runtime_name: "containerd".to_owned(),
        runtime_version: if is_old { "1.6.20" } else { "2.1.0" }.to_owned(),
        runtime_api_version: "v1".to_owned(),
    }])
}

fn status(_: StatusRequest, state: &mut State) -> Answered<StatusRequest> {
    // A Rust string as JSON; names of images have nothing that differs.
    let config = format!("{{\"sandboxImage\":{:?}}}", state.settings.sandbox_image);
    Ok(vec![StatusResponse { info: [("config".to_owned(), config)].into(), ..StatusResponse::default() }])
}

fn list_sandboxes(request: ListPodSandboxRequest, state: &mut State) -> Answered<ListPodSandboxRequest> {
    Ok(vec![ListPodSandboxResponse { items: sandboxes(&state.world, request.filter) }])
}

fn stream_sandboxes(
    request: StreamPodSandboxesRequest,
    state: &mut State,
) -> Answered<StreamPodSandboxesRequest> {
    let message = |pod_sandboxes| StreamPodSandboxesResponse { pod_sandboxes };
    Ok(in_parts(&state.settings, &sandboxes(&state.world, request.filter), message))
}

fn sandboxes(world: &World, filter: Option<PodSandboxFilter>) -> Vec<PodSandbox> {
    let filter = filter.unwrap_or_default();
    let fits = |sandbox: &&PodSandbox| {
        (filter.id.is_empty() || filter.id == sandbox.id)
            && filter.state.is_none_or(|state| state.state == sandbox.state)
            && has_labels(&sandbox.labels, &filter.label_selector)
    };
    world.sandboxes().filter(fits).cloned().collect()
}

fn sandbox_status(request: PodSandboxStatusRequest, state: &mut State) -> Answered<PodSandboxStatusRequest> {
    let sandbox = find("sandbox", &state.world.sandboxes, &request.pod_sandbox_id)?.clone();
    let status = PodSandboxStatus {
        id: sandbox.id,
        metadata: sandbox.metadata,
        state: sandbox.state,
        created_at: sandbox.created_at,
        labels: sandbox.labels,
        annotations: sandbox.annotations,
        ..PodSandboxStatus::default()
    };
    Ok(vec![PodSandboxStatusResponse { status: Some(status), ..PodSandboxStatusResponse::default() }])
}

fn stop_sandbox(request: StopPodSandboxRequest, state: &mut State) -> Answered<StopPodSandboxRequest> {
    find("sandbox", &state.world.sandboxes, &request.pod_sandbox_id)?;
    stop(&mut state.world, &request.pod_sandbox_id);
    Ok(vec![StopPodSandboxResponse {}])
}

fn remove_sandbox(request: RemovePodSandboxRequest, state: &mut State) -> Answered<RemovePodSandboxRequest> {
    stop(&mut state.world, &request.pod_sandbox_id);
    state.world.remove_sandbox(&request.pod_sandbox_id);
    Ok(vec![RemovePodSandboxResponse {}])
}

/// Stops a sandbox and kills its containers.
fn stop(world: &mut World, sandbox: &str) {
    let of_it = world.containers().filter(|container| container.pod_sandbox_id == sandbox);
    let ids: Vec<String> = of_it.map(|container| container.id.clone()).collect();
    ids.iter().for_each(|id| kill(world, id));
    world.set_ready(sandbox, false);
}

fn list_containers(request: ListContainersRequest, state: &mut State) -> Answered<ListContainersRequest> {
    Ok(vec![ListContainersResponse { containers: containers(&state.world, request.filter) }])
}

fn stream_containers(
    request: StreamContainersRequest,
    state: &mut State,
) -> Answered<StreamContainersRequest> {
    let message = |containers| StreamContainersResponse { containers };
    Ok(in_parts(&state.settings, &containers(&state.world, request.filter), message))
}

fn containers(world: &World, filter: Option<ContainerFilter>) -> Vec<Container> {
    let filter = filter.unwrap_or_default();
    let fits = |container: &&Container| {
        (filter.id.is_empty() || filter.id == container.id)
            && (filter.pod_sandbox_id.is_empty() || filter.pod_sandbox_id == container.pod_sandbox_id)
            && filter.state.is_none_or(|state| state.state == container.state)
            && has_labels(&container.labels, &filter.label_selector)
    };
    world.containers().filter(fits).cloned().collect()
}

fn container_stats(_: ListContainerStatsRequest, state: &mut State) -> Answered<ListContainerStatsRequest> {
    Ok(vec![ListContainerStatsResponse { stats: stats(state) }])
}

fn stream_container_stats(
    _: StreamContainerStatsRequest,
    state: &mut State,
) -> Answered<StreamContainerStatsRequest> {
    let message = |container_stats| StreamContainerStatsResponse { container_stats };
    Ok(in_parts(&state.settings, &stats(state), message))
}

fn stats(state: &State) -> Vec<ContainerStats> {
    let of_one = |(id, record): (&String, &ContainerRecord)| ContainerStats {
        attributes: Some(ContainerAttributes { id: id.clone(), ..ContainerAttributes::default() }),
        writable_layer: Some(FilesystemUsage {
            timestamp: state.world.measured_at.unwrap_or(i64::MAX),
            ..filesystem_usage(&state.settings, record.written)
        }),
        ..ContainerStats::default()
    };
    state.world.containers.iter().map(of_one).collect()
}

/// As the kubelet, a caller may name a container by the beginning of its id.
fn container_status(request: ContainerStatusRequest, state: &mut State) -> Answered<ContainerStatusRequest> {
    let beginning = state.world.containers.range(request.container_id.clone()..).next();
    let found = beginning.map(|(id, _)| id.clone()).filter(|id| id.starts_with(&request.container_id));
    let record = find("container", &state.world.containers, &found.unwrap_or(request.container_id))?;
    let container = record.container.clone();
    // By a name for people while the image is there.
    let named = state.world.images.get(&container.image_ref).map(|image| &image.image);
    let image = named
        .and_then(|image| image.repo_tags.first())
        .map(|image| ImageSpec { image: image.clone(), ..ImageSpec::default() })
        .or(container.image);
    let digest = named.and_then(|image| image.repo_digests.first()).cloned();
    let status = ContainerStatus {
        id: container.id,
        metadata: container.metadata,
        state: container.state,
        created_at: container.created_at,
        image,
        image_ref: digest.unwrap_or(container.image_ref),
        labels: container.labels,
        mounts: record.mounts.clone(),
        log_path: record.log_path.clone(),
        ..ContainerStatus::default()
    };
    Ok(vec![ContainerStatusResponse { status: Some(status), ..ContainerStatusResponse::default() }])
}

fn stop_container(request: StopContainerRequest, state: &mut State) -> Answered<StopContainerRequest> {
    find("container", &state.world.containers, &request.container_id)?;
    kill(&mut state.world, &request.container_id);
    Ok(vec![StopContainerResponse {}])
}

fn remove_container(request: RemoveContainerRequest, state: &mut State) -> Answered<RemoveContainerRequest> {
    kill(&mut state.world, &request.container_id);
    state.world.remove_container(&request.container_id);
    Ok(vec![RemoveContainerResponse {}])
}

/// Kills a container, if there is something to kill.
fn kill(world: &mut World, id: &str) {
    let state = world.containers.get(id).map(|record| record.container.state());
    if matches!(state, Some(ContainerState::ContainerRunning | ContainerState::ContainerUnknown)) {
        world.set_state(id, ContainerState::ContainerExited);
    }
}

// It has a filter, which containerd ignores.
fn list_images(_: ListImagesRequest, state: &mut State) -> Answered<ListImagesRequest> {
    Ok(vec![ListImagesResponse { images: state.world.images().cloned().collect() }])
}

fn stream_images(_: StreamImagesRequest, state: &mut State) -> Answered<StreamImagesRequest> {
    let images: Vec<Image> = state.world.images().cloned().collect();
    Ok(in_parts(&state.settings, &images, |images| StreamImagesResponse { images }))
}

/// Removes an image by its id, its tag or its digest, with the runtime handler that it was pulled for.
/// A kubelet asks for the image of sandboxes.
fn image_status(request: ImageStatusRequest, state: &mut State) -> Answered<ImageStatusRequest> {
    let spec = request.image.unwrap_or_default();
    let record = state.world.images.values().find(|record| goes_by(&record.image, &spec.image));
    let info = record.and_then(|record| record.info.clone()).filter(|_| request.verbose);
    let info = info.map(|info| ("info".to_owned(), info)).into_iter().collect();
    Ok(vec![ImageStatusResponse { image: record.map(|record| record.image.clone()), info }])
}

/// Whether this is an image's id, its tag or its digest.
fn goes_by(image: &Image, name: &str) -> bool {
    let mut names = image.repo_tags.iter().chain(&image.repo_digests).chain([&image.id]);
    names.any(|known| known == name)
}

fn remove_image(request: RemoveImageRequest, state: &mut State) -> Answered<RemoveImageRequest> {
    let spec = request.image.unwrap_or_default();
    let is_it = |image: &&Image| {
        let handler = image.spec.as_ref().map(|spec| spec.runtime_handler.as_str()).unwrap_or_default();
        goes_by(image, &spec.image) && handler == spec.runtime_handler
    };
    let found = state.world.images().find(is_it).map(|image| image.id.clone());
    found.iter().for_each(|id| state.world.remove_image(id));
    Ok(vec![RemoveImageResponse {}])
}

fn name_of_status(request: &ImageStatusRequest) -> &str {
    request.image.as_ref().map_or("", |spec| &spec.image)
}

fn name_of_image(request: &RemoveImageRequest) -> &str {
    request.image.as_ref().map_or("", |spec| &spec.image)
}

fn filesystem(_: ImageFsInfoRequest, state: &mut State) -> Answered<ImageFsInfoRequest> {
    let image_filesystems = vec![filesystem_usage(&state.settings, state.world.used())];
    Ok(vec![ImageFsInfoResponse { image_filesystems, ..ImageFsInfoResponse::default() }])
}

fn namespaces(_: ListNamespacesRequest, _: &mut State) -> Answered<ListNamespacesRequest> {
    let namespaces = vec![ForeignNamespace { name: "k8s.io".to_owned() }];
    Ok(vec![ListNamespacesResponse { namespaces }])
}

fn foreign_containers(
    _: ListNamespaceContainersRequest,
    state: &mut State,
) -> Answered<ListNamespaceContainersRequest> {
    let World { foreign, sandboxes, pause, containers, .. } = &state.world;
    let with_no_id = foreign.iter().map(|image| (String::new(), image));
    let of_sandboxes = sandboxes.keys().map(|id| (id.clone(), pause));
    let of_cri = containers.iter().map(|(id, record)| (id.clone(), &record.container.image_ref));
    let all = with_no_id.chain(of_sandboxes).chain(of_cri);
    let container = |(id, image): (String, &String)| Some(ForeignContainer { id, image: image.clone() });
    Ok(all.map(|it| ListNamespaceContainersResponse { container: container(it) }).collect())
}

/// So much of the file system of the images and containers.
fn filesystem_usage(settings: &Settings, used: u64) -> FilesystemUsage {
    FilesystemUsage {
        fs_id: Some(FilesystemIdentifier { mountpoint: settings.mountpoint.clone() }),
        used_bytes: Some(UInt64Value { value: used }),
        ..FilesystemUsage::default()
    }
}
