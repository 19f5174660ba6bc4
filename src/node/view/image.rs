//! Images.

use kube_gc_cri::messages;
use kube_gc_node::view::Image;

/// An image of a list.
#[must_use]
pub fn image(listed: messages::Image) -> Image {
    let messages::Image { id, repo_tags, repo_digests, size: bytes, spec, pinned } = listed;
    let runtime_handler = spec.map(|spec| spec.runtime_handler).filter(|handler| !handler.is_empty());
    Image { id, repo_tags, repo_digests, bytes, pinned, runtime_handler }
}
