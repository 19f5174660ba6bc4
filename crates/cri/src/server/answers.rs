//! What the runtime answers, and what it does to the world: as containerd 1.6 does.

use std::collections::BTreeMap;

use tonic::Status;

use super::Settings;
use super::world::{ContainerRecord, Space, World, now};
use crate::messages::*;
use crate::rpc::Call;

/// What a process ends with that was killed.
const KILLED: i32 = 137;

/// A request that the runtime can answer.
pub(super) trait Answer: Call {
    /// The id or name that the request is about; empty for lists.
    fn about(&self) -> String {
        String::new()
    }

    /// Does what is asked.
    fn answer(self, settings: &Settings, world: &mut World) -> Result<Self::Response, Status>;
}

/// A request that is answered in parts.
pub(super) trait AnswerInParts: Call {
    /// The parts, each with so many items at most.
    fn parts(self, settings: &Settings, world: &mut World, items: usize) -> Vec<Self::Response>;
}

fn has_labels(labels: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// The only id with a beginning.
fn by_beginning<T>(all: &BTreeMap<String, T>, beginning: &str) -> Option<String> {
    if beginning.is_empty() {
        return None;
    }
    let mut fitting =
        all.range(beginning.to_owned()..).map(|(id, _)| id).take_while(|id| id.starts_with(beginning));
    match (fitting.next(), fitting.next()) {
        (Some(id), None) => Some(id.clone()),
        (Some(id), Some(_)) if id == beginning => Some(id.clone()),
        _ => None,
    }
}

/// What is named, if it exists. To name nothing is an error.
fn found<T>(kind: &str, all: &BTreeMap<String, T>, id: &str) -> Result<Option<String>, Status> {
    if id.is_empty() {
        return Err(Status::unknown(format!("no {kind} is named")));
    }
    Ok(by_beginning(all, id))
}

/// What is named, or that it does not exist.
fn find<T>(kind: &str, all: &BTreeMap<String, T>, id: &str) -> Result<String, Status> {
    found(kind, all, id)?.ok_or_else(|| not_found(kind, id))
}

fn not_found(kind: &str, id: &str) -> Status {
    Status::not_found(format!("{kind} {id:?}: not found"))
}

impl Answer for VersionRequest {
    fn answer(self, settings: &Settings, _: &mut World) -> Result<VersionResponse, Status> {
        Ok(VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: "containerd".to_owned(),
            runtime_version: settings.runtime_version.clone(),
            runtime_api_version: "v1".to_owned(),
        })
    }
}

impl Answer for StatusRequest {
    fn answer(self, settings: &Settings, _: &mut World) -> Result<StatusResponse, Status> {
        let condition = |kind: &str| RuntimeCondition {
            r#type: kind.to_owned(),
            status: true,
            ..RuntimeCondition::default()
        };
        let status = RuntimeStatus { conditions: vec![condition("RuntimeReady"), condition("NetworkReady")] };
        let mut info = BTreeMap::new();
        if self.verbose {
            // A Rust string as JSON; names of images have nothing that differs.
            info.insert("config".to_owned(), format!("{{\"sandboxImage\":{:?}}}", settings.sandbox_image));
        }
        let runtime_handlers = match settings.handlers.is_empty() {
            true => Vec::new(),
            false => std::iter::once(String::new())
                .chain(settings.handlers.iter().cloned())
                .map(|name| RuntimeHandler { name, features: None })
                .collect(),
        };
        Ok(StatusResponse { status: Some(status), info, runtime_handlers, ..StatusResponse::default() })
    }
}

impl Answer for ListPodSandboxRequest {
    fn answer(self, _: &Settings, world: &mut World) -> Result<ListPodSandboxResponse, Status> {
        Ok(ListPodSandboxResponse { items: sandboxes(world, self.filter) })
    }
}

impl AnswerInParts for StreamPodSandboxesRequest {
    fn parts(self, _: &Settings, world: &mut World, items: usize) -> Vec<StreamPodSandboxesResponse> {
        let sandboxes = sandboxes(world, self.filter);
        sandboxes
            .chunks(items)
            .map(|part| StreamPodSandboxesResponse { pod_sandboxes: part.to_vec() })
            .collect()
    }
}

fn sandboxes(world: &World, filter: Option<PodSandboxFilter>) -> Vec<PodSandbox> {
    let mut filter = filter.unwrap_or_default();
    if let Some(id) = by_beginning(&world.sandboxes, &filter.id) {
        filter.id = id;
    }
    let fits = |sandbox: &&PodSandbox| {
        (filter.id.is_empty() || filter.id == sandbox.id)
            && filter.state.is_none_or(|state| state.state == sandbox.state)
            && has_labels(&sandbox.labels, &filter.label_selector)
    };
    world.sandboxes().filter(fits).cloned().collect()
}

impl Answer for PodSandboxStatusRequest {
    fn about(&self) -> String {
        self.pod_sandbox_id.clone()
    }

    fn answer(self, _: &Settings, world: &mut World) -> Result<PodSandboxStatusResponse, Status> {
        let id = find("sandbox", &world.sandboxes, &self.pod_sandbox_id)?;
        let Some(sandbox) = world.sandboxes.get(&id).cloned() else { return Err(not_found("sandbox", &id)) };
        let status = PodSandboxStatus {
            id: sandbox.id,
            metadata: sandbox.metadata,
            state: sandbox.state,
            created_at: sandbox.created_at,
            labels: sandbox.labels,
            annotations: sandbox.annotations,
            runtime_handler: sandbox.runtime_handler,
            ..PodSandboxStatus::default()
        };
        Ok(PodSandboxStatusResponse { status: Some(status), ..PodSandboxStatusResponse::default() })
    }
}

impl Answer for RunPodSandboxRequest {
    fn answer(self, _: &Settings, world: &mut World) -> Result<RunPodSandboxResponse, Status> {
        let config = self.config.unwrap_or_default();
        if world.sandboxes().any(|sandbox| sandbox.metadata == config.metadata) {
            return Err(Status::unknown("there is a sandbox of this name and attempt"));
        }
        let id = world.next_id();
        let sandbox = PodSandbox {
            id: id.clone(),
            metadata: config.metadata,
            state: PodSandboxState::SandboxReady as i32,
            created_at: now(),
            labels: config.labels,
            annotations: config.annotations,
            runtime_handler: String::new(),
        };
        world.sandboxes.insert(id.clone(), sandbox);
        Ok(RunPodSandboxResponse { pod_sandbox_id: id })
    }
}

impl Answer for StopPodSandboxRequest {
    fn about(&self) -> String {
        self.pod_sandbox_id.clone()
    }

    fn answer(self, _: &Settings, world: &mut World) -> Result<StopPodSandboxResponse, Status> {
        let id = find("sandbox", &world.sandboxes, &self.pod_sandbox_id)?;
        stop(world, &id);
        Ok(StopPodSandboxResponse {})
    }
}

impl Answer for RemovePodSandboxRequest {
    fn about(&self) -> String {
        self.pod_sandbox_id.clone()
    }

    fn answer(self, _: &Settings, world: &mut World) -> Result<RemovePodSandboxResponse, Status> {
        if let Some(id) = found("sandbox", &world.sandboxes, &self.pod_sandbox_id)? {
            stop(world, &id);
            world.remove_sandbox(&id);
        }
        Ok(RemovePodSandboxResponse {})
    }
}

/// Stops a sandbox and kills its containers.
fn stop(world: &mut World, sandbox: &str) {
    let containers: Vec<String> = world
        .containers()
        .filter(|container| container.pod_sandbox_id == sandbox)
        .map(|c| c.id.clone())
        .collect();
    for container in containers {
        kill(world, &container);
    }
    world.set_ready(sandbox, false);
}

impl Answer for ListContainersRequest {
    fn answer(self, settings: &Settings, world: &mut World) -> Result<ListContainersResponse, Status> {
        Ok(ListContainersResponse { containers: containers(settings, world, self.filter) })
    }
}

impl AnswerInParts for StreamContainersRequest {
    fn parts(self, settings: &Settings, world: &mut World, items: usize) -> Vec<StreamContainersResponse> {
        let containers = containers(settings, world, self.filter);
        containers.chunks(items).map(|part| StreamContainersResponse { containers: part.to_vec() }).collect()
    }
}

fn containers(settings: &Settings, world: &World, filter: Option<ContainerFilter>) -> Vec<Container> {
    let mut filter = filter.unwrap_or_default();
    if let Some(id) = by_beginning(&world.containers, &filter.id) {
        filter.id = id;
    }
    if let Some(id) = by_beginning(&world.sandboxes, &filter.pod_sandbox_id) {
        filter.pod_sandbox_id = id;
    }
    let fits = |container: &&Container| {
        (filter.id.is_empty() || filter.id == container.id)
            && (filter.pod_sandbox_id.is_empty() || filter.pod_sandbox_id == container.pod_sandbox_id)
            && filter.state.is_none_or(|state| state.state == container.state)
            && has_labels(&container.labels, &filter.label_selector)
    };
    let shown = |container: &Container| {
        let mut container = container.clone();
        if settings.image_ids {
            container.image_id.clone_from(&container.image_ref);
        }
        container
    };
    world.containers().filter(fits).map(shown).collect()
}

impl Answer for ListContainerStatsRequest {
    fn answer(self, settings: &Settings, world: &mut World) -> Result<ListContainerStatsResponse, Status> {
        let stats = world.containers.iter().map(|(id, record)| ContainerStats {
            attributes: Some(ContainerAttributes { id: id.clone(), ..ContainerAttributes::default() }),
            writable_layer: Some(filesystem_usage(settings, record.written)),
            ..ContainerStats::default()
        });
        Ok(ListContainerStatsResponse { stats: stats.collect() })
    }
}

impl Answer for ContainerStatusRequest {
    fn about(&self) -> String {
        self.container_id.clone()
    }

    fn answer(self, _: &Settings, world: &mut World) -> Result<ContainerStatusResponse, Status> {
        let id = find("container", &world.containers, &self.container_id)?;
        let Some(record) = world.containers.get(&id) else { return Err(not_found("container", &id)) };
        let container = record.container.clone();
        let reason = match (container.state(), record.exit_code) {
            (ContainerState::ContainerExited, 0) => "Completed",
            (ContainerState::ContainerExited, _) => "Error",
            _ => "",
        };
        // By a name for people while the image is there.
        let named = world.images.get(&container.image_ref).map(|image| &image.image);
        let image = named.and_then(|image| image.repo_tags.first()).map(|tag| spec(tag)).or(container.image);
        let digest = named.and_then(|image| image.repo_digests.first()).cloned();
        let status = ContainerStatus {
            id,
            metadata: container.metadata,
            state: container.state,
            created_at: container.created_at,
            started_at: record.started_at,
            finished_at: record.finished_at,
            exit_code: record.exit_code,
            image,
            image_ref: digest.unwrap_or(container.image_ref),
            reason: reason.to_owned(),
            labels: container.labels,
            mounts: record.mounts.clone(),
            log_path: record.log_path.clone(),
            ..ContainerStatus::default()
        };
        Ok(ContainerStatusResponse { status: Some(status), ..ContainerStatusResponse::default() })
    }
}

impl Answer for CreateContainerRequest {
    fn answer(self, _: &Settings, world: &mut World) -> Result<CreateContainerResponse, Status> {
        let sandbox = find("sandbox", &world.sandboxes, &self.pod_sandbox_id)?;
        let config = self.config.unwrap_or_default();
        let named = config.image.clone().unwrap_or_default();
        let Some(image_ref) = resolve(world, &named.image)? else {
            return Err(not_found("image", &named.image));
        };
        let is_taken = |container: &Container| {
            container.pod_sandbox_id == sandbox && container.metadata == config.metadata
        };
        if world.containers().any(is_taken) {
            return Err(Status::unknown("there is a container of this name and attempt"));
        }
        let id = world.next_id();
        let container = Container {
            id: id.clone(),
            pod_sandbox_id: sandbox,
            metadata: config.metadata,
            image: Some(named),
            image_ref,
            state: ContainerState::ContainerCreated as i32,
            created_at: now(),
            labels: config.labels,
            ..Container::default()
        };
        let directory = self.sandbox_config.unwrap_or_default().log_directory;
        world.insert(ContainerRecord {
            container,
            mounts: config.mounts,
            log_path: format!("{directory}/{}", config.log_path),
            // Nothing runs here; of these two programs it is known how they end.
            ends_with: match config.command.last().map(String::as_str) {
                Some("true") => Some(0),
                Some("false") => Some(1),
                _ => None,
            },
            ..ContainerRecord::default()
        });
        Ok(CreateContainerResponse { container_id: id })
    }
}

impl Answer for StartContainerRequest {
    fn about(&self) -> String {
        self.container_id.clone()
    }

    fn answer(self, _: &Settings, world: &mut World) -> Result<StartContainerResponse, Status> {
        let id = find("container", &world.containers, &self.container_id)?;
        let Some(record) = world.containers.get_mut(&id) else { return Err(not_found("container", &id)) };
        if record.container.state() != ContainerState::ContainerCreated {
            return Err(Status::unknown("the container was started before"));
        }
        let is_ready = |sandbox: &PodSandbox| sandbox.state() == PodSandboxState::SandboxReady;
        if !world.sandboxes.get(&record.container.pod_sandbox_id).is_some_and(is_ready) {
            return Err(Status::unknown("the sandbox does not run"));
        }
        let ends_with = record.ends_with;
        world.set_state(&id, ContainerState::ContainerRunning);
        if let Some(code) = ends_with {
            end(world, &id, code);
        }
        Ok(StartContainerResponse {})
    }
}

impl Answer for StopContainerRequest {
    fn about(&self) -> String {
        self.container_id.clone()
    }

    fn answer(self, _: &Settings, world: &mut World) -> Result<StopContainerResponse, Status> {
        let id = find("container", &world.containers, &self.container_id)?;
        kill(world, &id);
        Ok(StopContainerResponse {})
    }
}

impl Answer for RemoveContainerRequest {
    fn about(&self) -> String {
        self.container_id.clone()
    }

    fn answer(self, _: &Settings, world: &mut World) -> Result<RemoveContainerResponse, Status> {
        if let Some(id) = found("container", &world.containers, &self.container_id)? {
            kill(world, &id);
            world.remove_container(&id);
        }
        Ok(RemoveContainerResponse {})
    }
}

/// Kills a container, if there is something to kill.
fn kill(world: &mut World, id: &str) {
    let state = world.containers.get(id).map(|record| record.container.state());
    if matches!(state, Some(ContainerState::ContainerRunning | ContainerState::ContainerUnknown)) {
        end(world, id, KILLED);
    }
}

/// A container ends.
fn end(world: &mut World, id: &str, code: i32) {
    world.set_state(id, ContainerState::ContainerExited);
    if let Some(record) = world.containers.get_mut(id) {
        record.exit_code = code;
    }
}

fn spec(image: &str) -> ImageSpec {
    ImageSpec { image: image.to_owned(), ..ImageSpec::default() }
}

// It has a filter, which containerd ignores.
impl Answer for ListImagesRequest {
    fn answer(self, _: &Settings, world: &mut World) -> Result<ListImagesResponse, Status> {
        Ok(ListImagesResponse { images: world.images().cloned().collect() })
    }
}

impl AnswerInParts for StreamImagesRequest {
    fn parts(self, _: &Settings, world: &mut World, items: usize) -> Vec<StreamImagesResponse> {
        let images: Vec<Image> = world.images().cloned().collect();
        images.chunks(items).map(|part| StreamImagesResponse { images: part.to_vec() }).collect()
    }
}

impl Answer for ImageStatusRequest {
    fn about(&self) -> String {
        self.image.as_ref().map(|image| image.image.clone()).unwrap_or_default()
    }

    fn answer(self, _: &Settings, world: &mut World) -> Result<ImageStatusResponse, Status> {
        let id = resolve(world, &self.about())?;
        let record = id.and_then(|id| world.images.get(&id));
        Ok(ImageStatusResponse {
            image: record.map(|record| record.image.clone()),
            ..ImageStatusResponse::default()
        })
    }
}

impl Answer for RemoveImageRequest {
    /// The image, and the runtime handler if one is named.
    fn about(&self) -> String {
        let Some(ImageSpec { image, runtime_handler, .. }) = &self.image else { return String::new() };
        if runtime_handler.is_empty() { image.clone() } else { format!("{image},{runtime_handler}") }
    }

    fn answer(self, _: &Settings, world: &mut World) -> Result<RemoveImageResponse, Status> {
        let image = self.image.unwrap_or_default().image;
        if let Some(id) = resolve(world, &image)? {
            world.remove_image(&id);
        }
        Ok(RemoveImageResponse {})
    }
}

impl Answer for ImageFsInfoRequest {
    fn answer(self, settings: &Settings, world: &mut World) -> Result<ImageFsInfoResponse, Status> {
        let usage = filesystem_usage(settings, world.disk.used());
        Ok(ImageFsInfoResponse { image_filesystems: vec![usage], container_filesystems: Vec::new() })
    }
}

/// So much of the file system of the images and containers.
fn filesystem_usage(settings: &Settings, used: Space) -> FilesystemUsage {
    FilesystemUsage {
        timestamp: now(),
        fs_id: Some(FilesystemIdentifier { mountpoint: settings.mountpoint.clone() }),
        used_bytes: Some(UInt64Value { value: used.bytes }),
        inodes_used: Some(UInt64Value { value: used.inodes }),
    }
}

/// The id of an image, by its id or the beginning of it, its tag or its digest.
fn resolve(world: &World, name: &str) -> Result<Option<String>, Status> {
    if name.is_empty() {
        return Err(Status::unknown("no image is named"));
    }
    let is_named = |image: &Image| {
        let mut names = image.repo_tags.iter().chain(&image.repo_digests);
        names.any(|known| known == name)
    };
    if let Some(image) = world.images().find(|image| is_named(image)) {
        return Ok(Some(image.id.clone()));
    }
    let beginning = if name.starts_with("sha256:") { name.to_owned() } else { format!("sha256:{name}") };
    Ok(by_beginning(&world.images, &beginning))
}
