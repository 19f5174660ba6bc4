//! What lists over CRI lack: what dead containers have written, what containers mount, what other clients use, and the
//! labels of images.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use kube_gc_core::text::word;
use kube_gc_cri as cri;
use kube_gc_node::users::i1_may_mount;
use kube_gc_node::view::{ContainerState, Extent};
use kube_gc_node::{Plan, PodView, Rule, RuntimeView, Timestamp};

use super::report::Says;
use super::{NodeCollector, Note, view};

/// How many containers are asked at a time for what they mount, or images for their labels.
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
        notes: &mut Vec<Note>,
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
            notes.push(note!("it is not known how much dead containers have written: {error}"));
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

    /// Learns what lists over CRI lack of the users of images. Returns what cannot be known.
    ///
    /// # Errors
    /// The runtime could tell it, and did not answer: any image may be in use.
    pub(super) async fn learn_users(
        &mut self,
        runtime: &mut RuntimeView,
        pods: &PodView,
    ) -> Result<Vec<Note>, cri::Error> {
        // By now, it may be one that mounts images.
        self.client.follow().await?;
        let mut notes = self.learn_volumes(runtime, pods).await;
        let listed = runtime.containers.iter().map(|container| container.id.as_str()).collect();
        match self.client.foreign_images(&listed).await {
            Ok(images) => runtime.foreign_images = images,
            Err(error @ cri::Error::Unimplemented { .. }) => notes.push(
                note!(
                    "containers that CRI does not list cannot be listed, so their images count as unused: {error}"
                )
                .saying(Says::Hint),
            ),
            Err(error) => return Err(error),
        }
        Ok(notes)
    }

    /// Asks containers that may mount images, and were not asked before, which these are. A container that cannot be
    /// asked may use any image.
    async fn learn_volumes(&mut self, runtime: &mut RuntimeView, pods: &PodView) -> Vec<Note> {
        let client = &self.client;
        let may_mount =
            if client.runtime().mounts_images() { i1_may_mount(runtime, pods) } else { Vec::new() };
        let ids = may_mount.into_iter().map(|index| (index, runtime.containers[index].id.clone()));
        let unknown = ids.filter(|(_, id)| !self.volumes.contains_key(id));
        let ask = unknown.map(|(index, id)| async move { (index, client.container(&id).await) });
        let mut notes = Vec::new();
        for (index, answer) in answers(ask.collect()).await {
            let container = &mut runtime.containers[index];
            match answer {
                Ok(status) => {
                    let volumes = status.as_ref().map(view::image_volumes).unwrap_or_default();
                    self.volumes.insert(container.id.clone(), volumes);
                }
                Err(error) => {
                    let id = word(&container.id);
                    notes.push(note!(
                        "container {id} cannot be asked which images it mounts, so all images stay: {error}"
                    ));
                    container.image_refs.clear();
                }
            }
        }
        let known = runtime.containers.iter().filter_map(|container| self.volumes.get(&container.id));
        let volumes: BTreeSet<&String> = known.flatten().collect();
        runtime.image_volumes = volumes.into_iter().cloned().collect();
        notes
    }

    /// Asks for the labels of images that a plan keeps only because it does not know them. Returns a note if some are
    /// not told.
    pub(super) async fn learn_labels(&self, runtime: &mut RuntimeView, without: &Plan) -> Option<Note> {
        let wanted = without.entries.iter().filter(|entry| entry.rule == Rule::Label);
        let wanted: HashSet<&str> = wanted.map(|entry| entry.id.as_str()).collect();
        let images = runtime.images.iter_mut().filter(|image| wanted.contains(image.id.as_str()));
        let ask = images.map(|image| async {
            let spec = view::image_spec(&image.id, image.runtime_handler.as_deref());
            let answer = self.client.image_labels(spec).await;
            (image, answer)
        });
        let mut problem = None;
        for (image, answer) in answers(ask.collect()).await {
            match answer {
                Ok(labels) => {
                    let has = self.rules.labels.iter().filter(|label| label.is_in(&labels));
                    image.labels = Some(has.cloned().collect());
                }
                Err(error) => problem = Some(error),
            }
        }
        problem.map(|why| note!("images stay whose labels the container runtime does not tell: {why}"))
    }
}

/// What comes of these calls, a few at a time, until one is not answered: the others would take as long.
async fn answers<K, T>(
    calls: Vec<impl Future<Output = (K, Result<T, cri::Error>)>>,
) -> Vec<(K, Result<T, cri::Error>)> {
    let mut coming = stream::iter(calls).buffer_unordered(STATUSES_AT_A_TIME);
    let mut answers = Vec::new();
    while let Some((about, answer)) = coming.next().await {
        let is_end = answer.as_ref().is_err_and(cri::Error::is_unanswered);
        answers.push((about, answer));
        if is_end {
            break;
        }
    }
    answers
}
