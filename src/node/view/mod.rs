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

use kube_gc_cri::client::Coverage;
use kube_gc_node::view::Extent;

/// The label with the name of the pod.
const POD_NAME: &str = "io.kubernetes.pod.name";

/// Takes a label; an empty text if there is none.
fn label(labels: &mut BTreeMap<String, String>, key: &str) -> String {
    labels.remove(key).unwrap_or_default()
}

/// Whether a list has everything.
#[must_use]
pub fn extent(coverage: Coverage) -> Extent {
    if coverage.is_whole() { Extent::Whole } else { Extent::Slice }
}
