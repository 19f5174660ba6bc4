//! How much dead containers have written.

use std::collections::{HashMap, HashSet};

use kube_gc_node::RuntimeView;
use kube_gc_node::view::{ContainerState, Extent};

use super::NodeCollector;

impl NodeCollector {
    /// Adds what is known of the sizes of dead containers' layers. They no longer change, so the runtime is
    /// asked only when a container has ended since: a pass that finds nothing new makes no call for it.
    pub(super) async fn add_layers(&mut self, runtime: &mut RuntimeView, notes: &mut Vec<String>) {
        let mut present = 0;
        let mut new = Vec::new();
        for (index, container) in runtime.containers.iter_mut().enumerate() {
            match self.layers.get(&container.id) {
                Some(bytes) => {
                    present += 1;
                    container.layer_bytes = *bytes;
                }
                None if container.state == ContainerState::Exited => new.push(index),
                None => {}
            }
        }
        // Where a list of containers is too long, one of their sizes is, too.
        if runtime.containers_extent == Extent::Slice {
            return;
        }
        if present != self.layers.len() {
            let ids: HashSet<&str> =
                runtime.containers.iter().map(|container| container.id.as_str()).collect();
            self.layers.retain(|id, _| ids.contains(id.as_str()));
        }
        if new.is_empty() {
            return;
        }
        let sizes = self.client.layer_sizes().await.unwrap_or_else(|error| {
            notes.push(format!("it is not known how much dead containers have written: {error}"));
            HashMap::new()
        });
        for index in new {
            let container = &mut runtime.containers[index];
            container.layer_bytes = sizes.get(&container.id).copied();
            self.layers.insert(container.id.clone(), container.layer_bytes);
        }
    }
}
