//! Images and the file system that they fill.

use std::collections::BTreeMap;

/// Names an image.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ImageSpec {
    /// An id, a tag or a digest.
    #[prost(string, tag = "1")]
    pub image: String,
    /// What the runtime needs to tell apart variants of the image.
    #[prost(btree_map = "string, string", tag = "2")]
    pub annotations: BTreeMap<String, String>,
    /// The image as the pod's specification names it.
    #[prost(string, tag = "18")]
    pub user_specified_image: String,
    /// Which of the runtime's handlers has the image; empty for the default one.
    #[prost(string, tag = "19")]
    pub runtime_handler: String,
    /// The digest of an image volume's image.
    #[prost(string, tag = "20")]
    pub image_ref: String,
}

/// Selects images.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ImageFilter {
    /// One image.
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
}

/// Asks for a list of images.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListImagesRequest {
    /// Which images; containerd ignores it.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<ImageFilter>,
}

/// An image.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Image {
    /// What the other calls name the image by.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The image's names with tags.
    #[prost(string, repeated, tag = "2")]
    pub repo_tags: Vec<String>,
    /// The image's names with digests; none for an image that was loaded from a file.
    #[prost(string, repeated, tag = "3")]
    pub repo_digests: Vec<String>,
    /// The size in bytes, shared layers included. Runtimes differ in whether it is compressed, so it
    /// is no more than an estimate of what a removal frees.
    #[prost(uint64, tag = "4")]
    pub size: u64,
    /// The image's annotations and runtime handler.
    #[prost(message, optional, tag = "7")]
    pub spec: Option<ImageSpec>,
    /// Whether the runtime wants the image to stay.
    #[prost(bool, tag = "8")]
    pub pinned: bool,
}

/// A list of images.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListImagesResponse {
    /// The images.
    #[prost(message, repeated, tag = "1")]
    pub images: Vec<Image>,
}

/// Asks for a list of images in parts.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StreamImagesRequest {
    /// Which images; all of them without a filter.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<ImageFilter>,
}

/// One part of a list of images.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StreamImagesResponse {
    /// The images of this part.
    #[prost(message, repeated, tag = "1")]
    pub images: Vec<Image>,
}

/// Asks for one image.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ImageStatusRequest {
    /// Which image.
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
}

/// One image.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ImageStatusResponse {
    /// The image; nothing if the runtime does not have it.
    #[prost(message, optional, tag = "1")]
    pub image: Option<Image>,
}

/// Removes an image by all of its names. **The runtime does not ask whether a container uses it.**
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RemoveImageRequest {
    /// Which image.
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
}

/// The image is gone, or was before.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RemoveImageResponse {}

/// Asks where images are stored.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ImageFsInfoRequest {}

/// A number that may be missing.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct UInt64Value {
    /// The number.
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

/// Names a file system.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FilesystemIdentifier {
    /// A directory on the file system, on the host's paths.
    #[prost(string, tag = "1")]
    pub mountpoint: String,
}

/// A file system that the runtime uses.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FilesystemUsage {
    /// When the runtime measured, in nanoseconds since 1970.
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    /// The file system.
    #[prost(message, optional, tag = "2")]
    pub fs_id: Option<FilesystemIdentifier>,
    /// The bytes that the runtime uses.
    #[prost(message, optional, tag = "3")]
    pub used_bytes: Option<UInt64Value>,
    /// The inodes that the runtime uses.
    #[prost(message, optional, tag = "4")]
    pub inodes_used: Option<UInt64Value>,
}

/// Where images are stored.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ImageFsInfoResponse {
    /// The file systems of images.
    #[prost(message, repeated, tag = "1")]
    pub image_filesystems: Vec<FilesystemUsage>,
    /// The file systems of containers, where these are not the same.
    #[prost(message, repeated, tag = "2")]
    pub container_filesystems: Vec<FilesystemUsage>,
}
