//! Sandboxes.

use tonic::Status;

use super::container::kill;
use super::{Answer, AnswerInParts, by_beginning, find, found, has_labels, not_found};
use crate::messages::*;
use crate::server::settings::Settings;
use crate::server::world::{World, now};

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
        };
        Ok(PodSandboxStatusResponse { status: Some(status) })
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
            labels: config.labels.into(),
            annotations: config.annotations.into(),
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
