//! How the server behaves.

use crate::ApiVersion;
use crate::client::MESSAGE_LIMIT;

/// How the server differs from containerd 1.6.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The versions of CRI that are served.
    pub versions: Vec<ApiVersion>,
    /// The version of containerd that the server states. From 2.1 on, containers may mount images.
    pub runtime_version: String,
    /// The longest message that is sent.
    pub message_limit: usize,
    /// How many items a part of a streamed list has; without it, streamed lists are not served.
    pub stream: Option<usize>,
    /// Whether a container in a list has an `image_id`, as with runtimes since Kubernetes 1.30.
    pub image_ids: bool,
    /// The image of sandboxes, which the verbose status names.
    pub sandbox_image: String,
    /// The runtime's handlers, apart from the default one.
    pub handlers: Vec<String>,
    /// Where the file system of the images is mounted.
    pub mountpoint: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            versions: vec![ApiVersion::V1, ApiVersion::V1Alpha2],
            runtime_version: "1.6.20".to_owned(),
            message_limit: MESSAGE_LIMIT,
            stream: None,
            image_ids: false,
            sandbox_image: "registry.k8s.io/pause:3.6".to_owned(),
            handlers: Vec::new(),
            mountpoint: "/var/lib/containerd".to_owned(),
        }
    }
}
