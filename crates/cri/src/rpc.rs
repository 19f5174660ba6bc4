//! The calls: their names, requests and responses.

use std::fmt;

use prost::DecodeError;
use prost::bytes::Bytes;

use crate::messages::*;

/// Versions of CRI. Their messages are the same; only the services' names differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApiVersion {
    /// Served since Kubernetes 1.20 (containerd 1.6, CRI-O 1.20).
    V1,
    /// The only version of older runtimes; containerd 2 no longer serves it.
    V1Alpha2,
}

impl ApiVersion {
    /// The package of the services.
    #[must_use]
    pub fn package(self) -> &'static str {
        match self {
            Self::V1 => "runtime.v1",
            Self::V1Alpha2 => "runtime.v1alpha2",
        }
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "v1",
            Self::V1Alpha2 => "v1alpha2",
        })
    }
}

/// The services of CRI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// Sandboxes and containers.
    Runtime,
    /// Images.
    Image,
}

impl Service {
    /// The service's name within its package.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Runtime => "RuntimeService",
            Self::Image => "ImageService",
        }
    }
}

/// A request, and what belongs to it.
pub trait Call: prost::Message + Default + Clone + Send + Sync + 'static {
    /// What the runtime answers; for a streamed list, each part of it.
    type Response: prost::Message + Default + Send + Sync + 'static;
    /// The call.
    const RPC: Rpc;

    /// Reads the answer, or a part of it.
    ///
    /// # Errors
    ///
    /// It is no such message.
    // The code of a generic function would be compiled in the crate that makes the call, with the
    // optimization of that crate.
    fn read_response(message: Bytes) -> Result<Self::Response, DecodeError>;
}

/// Declares the calls, so that the list of names and the types cannot differ.
macro_rules! calls {
    ($($(#[doc = $doc:literal])* $name:ident: $service:ident, $operation:literal, $request:ty => $response:ty;)*) => {
        /// A call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rpc {
            $($(#[doc = $doc])* $name,)*
        }

        impl Rpc {
            /// All calls.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The call's name within its service.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The service that has the call.
            #[must_use]
            pub fn service(self) -> Service {
                match self {
                    $(Self::$name => Service::$service,)*
                }
            }

            /// The kubelet's name of the call in metrics, `operation_type`.
            #[must_use]
            pub fn operation(self) -> &'static str {
                match self {
                    $(Self::$name => $operation,)*
                }
            }

            /// The names of the request and of the response in the definition.
            #[must_use]
            pub fn messages(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$name => (stringify!($request), stringify!($response)),)*
                }
            }
        }

        $(impl Call for $request {
            type Response = $response;
            const RPC: Rpc = Rpc::$name;

            fn read_response(message: Bytes) -> Result<$response, DecodeError> {
                prost::Message::decode(message)
            }
        })*
    };
}

calls! {
    /// The runtime's name and version.
    Version: Runtime, "version", VersionRequest => VersionResponse;
    /// The runtime's status and configuration.
    Status: Runtime, "status", StatusRequest => StatusResponse;
    /// A list of sandboxes.
    ListPodSandbox: Runtime, "list_podsandbox", ListPodSandboxRequest => ListPodSandboxResponse;
    /// A list of sandboxes in parts.
    StreamPodSandboxes: Runtime, "stream_podsandboxes", StreamPodSandboxesRequest => StreamPodSandboxesResponse;
    /// One sandbox.
    PodSandboxStatus: Runtime, "podsandbox_status", PodSandboxStatusRequest => PodSandboxStatusResponse;
    /// Creates and starts a sandbox.
    RunPodSandbox: Runtime, "run_podsandbox", RunPodSandboxRequest => RunPodSandboxResponse;
    /// Stops a sandbox.
    StopPodSandbox: Runtime, "stop_podsandbox", StopPodSandboxRequest => StopPodSandboxResponse;
    /// Removes a sandbox.
    RemovePodSandbox: Runtime, "remove_podsandbox", RemovePodSandboxRequest => RemovePodSandboxResponse;
    /// A list of containers.
    ListContainers: Runtime, "list_containers", ListContainersRequest => ListContainersResponse;
    /// A list of containers in parts.
    StreamContainers: Runtime, "stream_containers", StreamContainersRequest => StreamContainersResponse;
    /// One container.
    ContainerStatus: Runtime, "container_status", ContainerStatusRequest => ContainerStatusResponse;
    /// What containers use, each of them.
    ListContainerStats: Runtime, "list_container_stats", ListContainerStatsRequest => ListContainerStatsResponse;
    /// Creates a container.
    CreateContainer: Runtime, "create_container", CreateContainerRequest => CreateContainerResponse;
    /// Starts a container.
    StartContainer: Runtime, "start_container", StartContainerRequest => StartContainerResponse;
    /// Stops a container.
    StopContainer: Runtime, "stop_container", StopContainerRequest => StopContainerResponse;
    /// Removes a container.
    RemoveContainer: Runtime, "remove_container", RemoveContainerRequest => RemoveContainerResponse;
    /// A list of images.
    ListImages: Image, "list_images", ListImagesRequest => ListImagesResponse;
    /// A list of images in parts.
    StreamImages: Image, "stream_images", StreamImagesRequest => StreamImagesResponse;
    /// One image.
    ImageStatus: Image, "image_status", ImageStatusRequest => ImageStatusResponse;
    /// Removes an image.
    RemoveImage: Image, "remove_image", RemoveImageRequest => RemoveImageResponse;
    /// Where images are stored.
    ImageFsInfo: Image, "image_fs_info", ImageFsInfoRequest => ImageFsInfoResponse;
}

impl Rpc {
    /// The path of the HTTP request.
    #[must_use]
    pub fn path(self, version: ApiVersion) -> String {
        format!("/{}.{}/{}", version.package(), self.service().name(), self.name())
    }

    /// Whether the answer is a list, which may be too long for one message.
    #[must_use]
    pub fn is_list(self) -> bool {
        matches!(
            self,
            Self::ListPodSandbox | Self::ListContainers | Self::ListContainerStats | Self::ListImages
        ) || self.is_streamed()
    }

    /// Whether the answer comes in parts.
    #[must_use]
    pub fn is_streamed(self) -> bool {
        matches!(self, Self::StreamPodSandboxes | Self::StreamContainers | Self::StreamImages)
    }
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_version_service_and_call() {
        assert_eq!(Rpc::ListContainers.path(ApiVersion::V1), "/runtime.v1.RuntimeService/ListContainers");
        assert_eq!(Rpc::RemoveImage.path(ApiVersion::V1Alpha2), "/runtime.v1alpha2.ImageService/RemoveImage");
    }
}
