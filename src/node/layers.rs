//! How much dead containers have written.

use std::collections::{HashMap, HashSet};

use kube_gc_node::RuntimeView;
use kube_gc_node::view::{Container, ContainerState, Extent};

use super::NodeCollector;

impl NodeCollector {
    /// Adds what is known of the sizes of dead containers' layers. They no longer change, so the runtime is
    /// asked only when a container has ended since: a pass that finds nothing new makes no call for it.
    pub(super) async fn add_layers(&mut self, runtime: &mut RuntimeView, notes: &mut Vec<String>) {
        let is_whole = runtime.containers_extent == Extent::Whole;
        // Where a list of containers is too long, one of their sizes is, too.
        if is_whole && dead(runtime).any(|container| !self.layers.contains_key(&container.id)) {
            let sizes = self.client.layer_sizes().await.unwrap_or_else(|error| {
                notes.push(format!("it is not known how much dead containers have written: {error}"));
                HashMap::new()
            });
            for container in dead(runtime) {
                let size = sizes.get(&container.id).copied();
                self.layers.entry(container.id.clone()).or_insert(size);
            }
        }
        if self.layers.is_empty() {
            return;
        }
        let mut present = 0;
        for container in &mut runtime.containers {
            let known = self.layers.get(&container.id);
            present += usize::from(known.is_some());
            container.layer_bytes = known.copied().flatten();
        }
        if is_whole && present != self.layers.len() {
            let ids: HashSet<&str> =
                runtime.containers.iter().map(|container| container.id.as_str()).collect();
            self.layers.retain(|id, _| ids.contains(id.as_str()));
        }
    }
}

/// The containers that have ended for good.
fn dead(runtime: &RuntimeView) -> impl Iterator<Item = &Container> {
    runtime.containers.iter().filter(|container| container.state == ContainerState::Exited)
}
