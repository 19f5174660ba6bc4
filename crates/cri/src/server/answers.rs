//! What the runtime answers, and what it does to the world: as containerd 1.6 does.

use std::collections::BTreeMap;

use tonic::Status;

use super::Settings;
use super::world::{Space, World};
use crate::messages::*;
use crate::rpc::Call;

/// The messages of an answer, or the failure.
type Answered<C> = Result<Vec<<C as Call>::Response>, Status>;

/// A request that the runtime can answer.
pub(super) trait Answer: Call {
    /// The id or name that the request is about; empty for lists.
    fn about(&self) -> String {
        String::new()
    }

    /// Does what is asked. Only streamed lists are answered by several messages.
    fn answer(self, settings: &Settings, world: &mut World) -> Answered<Self>;
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
    all.get(id).ok_or_else(|| not_found(kind, id))
}

fn not_found(kind: &str, id: &str) -> Status {
    Status::not_found(format!("{kind} {id:?}: not found"))
}

impl Answer for VersionRequest {
    fn answer(self, settings: &Settings, _: &mut World) -> Answered<Self> {
        Ok(vec![VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: "containerd".to_owned(),
            runtime_version: settings.runtime_version.clone(),
            runtime_api_version: "v1".to_owned(),
        }])
    }
}

impl Answer for StatusRequest {
    fn answer(self, settings: &Settings, _: &mut World) -> Answered<Self> {
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
        Ok(vec![StatusResponse { status: Some(status), info, runtime_handlers, ..StatusResponse::default() }])
    }
}

impl Answer for ListPodSandboxRequest {
    fn answer(self, _: &Settings, world: &mut World) -> Answered<Self> {
        Ok(vec![ListPodSandboxResponse { items: sandboxes(world, self.filter) }])
    }
}

impl Answer for StreamPodSandboxesRequest {
    fn answer(self, settings: &Settings, world: &mut World) -> Answered<Self> {
        Ok(in_parts(settings, &sandboxes(world, self.filter), |pod_sandboxes| StreamPodSandboxesResponse {
            pod_sandboxes,
        }))
    }
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

impl Answer for PodSandboxStatusRequest {
    fn about(&self) -> String {
        self.pod_sandbox_id.clone()
    }

    fn answer(self, _: &Settings, world: &mut World) -> Answered<Self> {
        let sandbox = find("sandbox", &world.sandboxes, &self.pod_sandbox_id)?.clone();
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
        Ok(vec![PodSandboxStatusResponse { status: Some(status), ..PodSandboxStatusResponse::default() }])
    }
}

impl Answer for StopPodSandboxRequest {
    fn about(&self) -> String {
        self.pod_sandbox_id.clone()
    }

    fn answer(self, _: &Settings, world: &mut World) -> Answered<Self> {
        find("sandbox", &world.sandboxes, &self.pod_sandbox_id)?;
        stop(world, &self.pod_sandbox_id);
        Ok(vec![StopPodSandboxResponse {}])
    }
}

impl Answer for RemovePodSandboxRequest {
    fn about(&self) -> String {
        self.pod_sandbox_id.clone()
    }

    fn answer(self, _: &Settings, world: &mut World) -> Answered<Self> {
        stop(world, &self.pod_sandbox_id);
        world.remove_sandbox(&self.pod_sandbox_id);
        Ok(vec![RemovePodSandboxResponse {}])
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
    fn answer(self, settings: &Settings, world: &mut World) -> Answered<Self> {
        Ok(vec![ListContainersResponse { containers: containers(settings, world, self.filter) }])
    }
}

impl Answer for StreamContainersRequest {
    fn answer(self, settings: &Settings, world: &mut World) -> Answered<Self> {
        Ok(in_parts(settings, &containers(settings, world, self.filter), |containers| {
            StreamContainersResponse { containers }
        }))
    }
}

fn containers(settings: &Settings, world: &World, filter: Option<ContainerFilter>) -> Vec<Container> {
    let filter = filter.unwrap_or_default();
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
    fn answer(self, settings: &Settings, world: &mut World) -> Answered<Self> {
        let stats = world.containers.iter().map(|(id, record)| ContainerStats {
            attributes: Some(ContainerAttributes { id: id.clone(), ..ContainerAttributes::default() }),
            writable_layer: Some(filesystem_usage(settings, record.written)),
            ..ContainerStats::default()
        });
        Ok(vec![ListContainerStatsResponse { stats: stats.collect() }])
    }
}

impl Answer for ContainerStatusRequest {
    fn about(&self) -> String {
        self.container_id.clone()
    }

    fn answer(self, _: &Settings, world: &mut World) -> Answered<Self> {
        let record = find("container", &world.containers, &self.container_id)?;
        let container = record.container.clone();
        // By a name for people while the image is there.
        let named = world.images.get(&container.image_ref).map(|image| &image.image);
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
}

impl Answer for StopContainerRequest {
    fn about(&self) -> String {
        self.container_id.clone()
    }

    fn answer(self, _: &Settings, world: &mut World) -> Answered<Self> {
        find("container", &world.containers, &self.container_id)?;
        kill(world, &self.container_id);
        Ok(vec![StopContainerResponse {}])
    }
}

impl Answer for RemoveContainerRequest {
    fn about(&self) -> String {
        self.container_id.clone()
    }

    fn answer(self, _: &Settings, world: &mut World) -> Answered<Self> {
        kill(world, &self.container_id);
        world.remove_container(&self.container_id);
        Ok(vec![RemoveContainerResponse {}])
    }
}

/// Kills a container, if there is something to kill.
fn kill(world: &mut World, id: &str) {
    let state = world.containers.get(id).map(|record| record.container.state());
    if matches!(state, Some(ContainerState::ContainerRunning | ContainerState::ContainerUnknown)) {
        world.set_state(id, ContainerState::ContainerExited);
    }
}

// It has a filter, which containerd ignores.
impl Answer for ListImagesRequest {
    fn answer(self, _: &Settings, world: &mut World) -> Answered<Self> {
        Ok(vec![ListImagesResponse { images: world.images().cloned().collect() }])
    }
}

impl Answer for StreamImagesRequest {
    fn answer(self, settings: &Settings, world: &mut World) -> Answered<Self> {
        Ok(in_parts(settings, &world.images().cloned().collect::<Vec<_>>(), |images| StreamImagesResponse {
            images,
        }))
    }
}

impl Answer for ImageStatusRequest {
    fn about(&self) -> String {
        self.image.as_ref().map(|image| image.image.clone()).unwrap_or_default()
    }

    fn answer(self, _: &Settings, world: &mut World) -> Answered<Self> {
        let image = resolve(world, &self.about()).cloned();
        Ok(vec![ImageStatusResponse { image, ..ImageStatusResponse::default() }])
    }
}

impl Answer for RemoveImageRequest {
    /// The image, and the runtime handler if one is named.
    fn about(&self) -> String {
        let Some(ImageSpec { image, runtime_handler, .. }) = &self.image else { return String::new() };
        if runtime_handler.is_empty() { image.clone() } else { format!("{image},{runtime_handler}") }
    }

    fn answer(self, _: &Settings, world: &mut World) -> Answered<Self> {
        let image = self.image.unwrap_or_default().image;
        if let Some(id) = resolve(world, &image).map(|image| image.id.clone()) {
            world.remove_image(&id);
        }
        Ok(vec![RemoveImageResponse {}])
    }
}

impl Answer for ImageFsInfoRequest {
    fn answer(self, settings: &Settings, world: &mut World) -> Answered<Self> {
        let usage = filesystem_usage(settings, world.used());
        Ok(vec![ImageFsInfoResponse { image_filesystems: vec![usage], container_filesystems: Vec::new() }])
    }
}

/// So much of the file system of the images and containers.
fn filesystem_usage(settings: &Settings, used: Space) -> FilesystemUsage {
    FilesystemUsage {
        fs_id: Some(FilesystemIdentifier { mountpoint: settings.mountpoint.clone() }),
        used_bytes: Some(UInt64Value { value: used.bytes }),
        inodes_used: Some(UInt64Value { value: used.inodes }),
        ..FilesystemUsage::default()
    }
}

/// An image by its id, its tag or its digest.
fn resolve<'a>(world: &'a World, name: &str) -> Option<&'a Image> {
    world.images().find(|image| {
        let mut names = image.repo_tags.iter().chain(&image.repo_digests).chain([&image.id]);
        names.any(|known| known == name)
    })
}
