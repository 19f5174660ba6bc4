//! Containers.

use tonic::Status;

use super::image::{filesystem_usage, resolve};
use super::{Answer, AnswerInParts, by_beginning, find, found, has_labels, not_found};
use crate::messages::*;
use crate::server::settings::Settings;
use crate::server::world::{ContainerRecord, World, now};

/// What a process ends with that was killed.
const KILLED: i32 = 137;

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
            attributes: Some(ContainerAttributes { id: id.clone() }),
            writable_layer: Some(filesystem_usage(settings, record.written)),
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
        };
        Ok(ContainerStatusResponse { status: Some(status) })
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
            labels: config.labels.into(),
            image_id: String::new(),
        };
        let directory = self.sandbox_config.unwrap_or_default().log_directory;
        let mut record =
            ContainerRecord::created(container, config.mounts, format!("{directory}/{}", config.log_path));
        // Nothing runs here; of these two programs it is known how they end.
        record.ends_with = match config.command.last().map(String::as_str) {
            Some("true") => Some(0),
            Some("false") => Some(1),
            _ => None,
        };
        world.insert(record);
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
pub(super) fn kill(world: &mut World, id: &str) {
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
