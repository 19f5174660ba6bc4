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

use kube_gc_cri::client::Coverage;
use kube_gc_cri::labels::{Label, LabelKey, Labels};
use kube_gc_node::view::Extent;

/// The values of the labels by which the kubelet names a pod; an empty text where there is none.
#[derive(Default)]
struct PodLabels {
    uid: String,
    namespace: String,
    name: String,
}

impl PodLabels {
    fn of(labels: Labels) -> Self {
        let mut found = Self::default();
        for Label { key, value } in labels {
            match key {
                LabelKey::PodUid => found.uid = value,
                LabelKey::PodNamespace => found.namespace = value,
                LabelKey::PodName => found.name = value,
                LabelKey::ContainerName | LabelKey::ConfigSource | LabelKey::Other(_) => {}
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
