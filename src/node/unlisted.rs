//! What lists over CRI lack: what dead containers have written, what containers mount, and what other clients use.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use kube_gc_cri as cri;
use kube_gc_node::users::i1_may_mount;
use kube_gc_node::view::{ContainerState, Extent};
use kube_gc_node::{PodView, RuntimeView, Timestamp};

use super::{NodeCollector, view};

/// How many containers are asked at a time for what they mount.
const STATUSES_AT_A_TIME: usize = 8;

/// How long a runtime may take to measure what a container has written. containerd does so every ten seconds.
const MEASURED: Duration = Duration::from_secs(30);

/// What a dead container has in its own layer.
#[derive(Debug)]
pub(super) struct Layer {
    /// When it was first seen dead.
    seen: Timestamp,
    /// Nothing if the runtime does not tell.
    bytes: Option<u64>,
    /// Whether it was measured since, or will not be.
    is_final: bool,
}

impl NodeCollector {
    /// Adds what is known of the sizes of dead containers' layers. Once measured after the end, they no longer
    /// change: a pass that finds nothing new makes no call for it.
    pub(super) async fn add_layers(
        &mut self,
        runtime: &mut RuntimeView,
        now: Timestamp,
        notes: &mut Vec<String>,
    ) {
        let mut is_new = false;
        for container in &mut runtime.containers {
            if container.state == ContainerState::Exited {
                let new = Layer { seen: now, bytes: None, is_final: false };
                let layer = self.layers.entry(container.id.clone()).or_insert(new);
                container.layer_bytes = layer.bytes;
                is_new |= !layer.is_final;
            }
        }
        // Where a list of containers is too long, one of their sizes is, too.
        if runtime.containers_extent == Extent::Slice || !is_new {
            return;
        }
        let sizes = self.client.layer_sizes().await.unwrap_or_else(|error| {
            notes.push(format!("it is not known how much dead containers have written: {error}"));
            HashMap::new()
        });
        for container in &mut runtime.containers {
            let layer = self.layers.get_mut(&container.id).filter(|layer| !layer.is_final);
            let Some(layer) = layer else { continue };
            let size = sizes.get(&container.id).filter(|size| size.used_bytes.is_some());
            layer.bytes = size.and_then(|size| Some(size.used_bytes.as_ref()?.value)).or(layer.bytes);
            layer.is_final = size.is_some_and(|size| size.timestamp >= layer.seen.nanos())
                || layer.seen.is_older_than(MEASURED, now);
            container.layer_bytes = layer.bytes;
        }
    }

    /// Forgets containers that are gone.
    pub(super) fn forget_gone(&mut self, runtime: &RuntimeView) {
        if runtime.containers_extent == Extent::Whole {
            let ids: HashSet<&str> =
                runtime.containers.iter().map(|container| container.id.as_str()).collect();
            self.volumes.retain(|id, _| ids.contains(id.as_str()));
            self.layers.retain(|id, _| ids.contains(id.as_str()));
        }
    }

    /// Adds the image volumes that are known.
    pub(super) fn add_volumes(&self, runtime: &mut RuntimeView) {
        let known = runtime.containers.iter().filter_map(|container| self.volumes.get(&container.id));
        let mut volumes: HashSet<&String> = HashSet::new();
        runtime.image_volumes = known.flatten().filter(|volume| volumes.insert(volume)).cloned().collect();
    }

    /// Asks containers that may mount images, and were not asked before, which these are. Lists do not have
    /// that. Those of `gone` will be gone. A container that cannot be asked may use any image. Returns whether
    /// anything new came of it.
    pub(super) async fn learn_volumes(
        &mut self,
        runtime: &mut RuntimeView,
        pods: &PodView,
        gone: &HashSet<&str>,
    ) -> bool {
        let client = &self.client;
        let ids = i1_may_mount(runtime, pods)
            .into_iter()
            .map(|index| (index, runtime.containers[index].id.clone()));
        let unknown = ids.filter(|(_, id)| !gone.contains(id.as_str()) && !self.volumes.contains_key(id));
        let ask = unknown.map(|(index, id)| async move { (index, client.container(&id).await) });
        let answers: Vec<_> = stream::iter(ask).buffer_unordered(STATUSES_AT_A_TIME).collect().await;
        let mut is_new = false;
        for (index, answer) in answers {
            let container = &mut runtime.containers[index];
            match answer {
                Ok(status) => {
                    let volumes = status.as_ref().map(view::image_volumes).unwrap_or_default();
                    is_new |= !volumes.is_empty();
                    self.volumes.insert(container.id.clone(), volumes);
                }
                Err(error) => {
                    tracing::warn!(container = container.id, %error, "cannot ask which images a container mounts, so all images stay");
                    is_new |= !container.image_refs.is_empty();
                    container.image_refs.clear();
                }
            }
        }
        self.add_volumes(runtime);
        is_new
    }

    /// Asks which images are used by sandboxes, and by containers that were not made over CRI. Returns a note if the
    /// runtime cannot tell.
    ///
    /// # Errors
    /// It could, and did not answer: any image may be in use.
    pub(super) async fn learn_foreign(
        &self,
        runtime: &mut RuntimeView,
    ) -> Result<Option<String>, cri::Error> {
        match self.client.foreign_images().await {
            Ok(images) => runtime.foreign_images = images,
            Err(error @ cri::Error::Unimplemented { .. }) => {
                return Ok(Some(format!(
                    "containers that were not made over CRI cannot be listed, so their images count as unused: {error}"
                )));
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }
}
