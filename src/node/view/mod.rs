//! What a container runtime says, as the plain data that the rules take.
//!
//! Nothing is judged here. A value that this program does not know becomes the one with which an
//! item stays: a state that is newer than this program counts as running.

mod container;
mod image;
mod sandbox;

pub use container::{container, container_status, image_volumes};
pub use image::image;
pub use sandbox::{sandbox, sandbox_status};

use std::collections::BTreeMap;

use kube_gc_cri::client::{Coverage, POD_NAMESPACE, POD_UID};
use kube_gc_node::view::Extent;

/// The label with the name of the pod.
const POD_NAME: &str = "io.kubernetes.pod.name";

/// The values of the labels by which the kubelet names a pod; an empty text where there is none.
#[derive(Default)]
struct PodLabels {
    uid: String,
    namespace: String,
    name: String,
}

impl PodLabels {
    fn of(labels: BTreeMap<String, String>) -> Self {
        let mut found = Self::default();
        for (key, value) in labels {
            match key.as_str() {
                POD_UID => found.uid = value,
                POD_NAMESPACE => found.namespace = value,
                POD_NAME => found.name = value,
                _ => {}
            }
        }
        found
    }
}

/// Whether a list has everything.
#[must_use]
pub fn extent(coverage: Coverage) -> Extent {
    if coverage.is_whole() { Extent::Whole } else { Extent::Slice }
}
