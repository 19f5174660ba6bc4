//! The calls: their names, requests and responses.

use std::fmt;

use crate::messages::*;

/// Versions of CRI. Their messages are the same; only the services' names differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApiVersion {
    /// Served since Kubernetes 1.20 (containerd 1.6, CRI-O 1.20).
    V1,
    /// The only version of older runtimes; containerd 2 no longer serves it.
    V1Alpha2,
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "v1",
            Self::V1Alpha2 => "v1alpha2",
        })
    }
}

/// A request, and what belongs to it.
pub trait Call: prost::Message + Default + Clone + 'static {
    /// What the runtime answers; for a streamed list, each part of it.
    type Response: prost::Message + Default + 'static;
    /// The call.
    const RPC: Rpc;
}

/// Declares the calls, so that the list of names and the types cannot differ.
macro_rules! calls {
    ($($name:ident: $service:literal, $operation:literal, $request:ty => $response:ty;)*) => {
        /// A call, by its name in the definition.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "the definition says what each of them does")]
        pub enum Rpc {
            $($name,)*
        }

        impl Rpc {
            /// All calls.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The service that has the call; for a call that is not of CRI, its whole path.
            fn service(self) -> &'static str {
                match self {
                    $(Self::$name => $service,)*
                }
            }

            /// The kubelet's name of the call in metrics, `operation_type`.
            pub fn operation(self) -> &'static str {
                match self {
                    $(Self::$name => $operation,)*
                }
            }
        }

        $(impl Call for $request {
            type Response = $response;
            const RPC: Rpc = Rpc::$name;
        })*
    };
}

calls! {
    Version: "Runtime", "version", VersionRequest => VersionResponse;
    Status: "Runtime", "status", StatusRequest => StatusResponse;
    ListPodSandbox: "Runtime", "list_podsandbox", ListPodSandboxRequest => ListPodSandboxResponse;
    StreamPodSandboxes: "Runtime", "stream_podsandboxes", StreamPodSandboxesRequest => StreamPodSandboxesResponse;
    PodSandboxStatus: "Runtime", "podsandbox_status", PodSandboxStatusRequest => PodSandboxStatusResponse;
    RunPodSandbox: "Runtime", "run_podsandbox", RunPodSandboxRequest => RunPodSandboxResponse;
    StopPodSandbox: "Runtime", "stop_podsandbox", StopPodSandboxRequest => StopPodSandboxResponse;
    RemovePodSandbox: "Runtime", "remove_podsandbox", RemovePodSandboxRequest => RemovePodSandboxResponse;
    ListContainers: "Runtime", "list_containers", ListContainersRequest => ListContainersResponse;
    StreamContainers: "Runtime", "stream_containers", StreamContainersRequest => StreamContainersResponse;
    ContainerStatus: "Runtime", "container_status", ContainerStatusRequest => ContainerStatusResponse;
    ListContainerStats: "Runtime", "list_container_stats", ListContainerStatsRequest => ListContainerStatsResponse;
    StreamContainerStats: "Runtime", "stream_container_stats", StreamContainerStatsRequest => StreamContainerStatsResponse;
    CreateContainer: "Runtime", "create_container", CreateContainerRequest => CreateContainerResponse;
    StartContainer: "Runtime", "start_container", StartContainerRequest => StartContainerResponse;
    StopContainer: "Runtime", "stop_container", StopContainerRequest => StopContainerResponse;
    RemoveContainer: "Runtime", "remove_container", RemoveContainerRequest => RemoveContainerResponse;
    ListImages: "Image", "list_images", ListImagesRequest => ListImagesResponse;
    StreamImages: "Image", "stream_images", StreamImagesRequest => StreamImagesResponse;
    ImageStatus: "Image", "image_status", ImageStatusRequest => ImageStatusResponse;
    RemoveImage: "Image", "remove_image", RemoveImageRequest => RemoveImageResponse;
    ImageFsInfo: "Image", "image_fs_info", ImageFsInfoRequest => ImageFsInfoResponse;
    ListNamespaces: "containerd.services.namespaces.v1.Namespaces/List", "list_namespaces",
        ListNamespacesRequest => ListNamespacesResponse;
    ListNamespaceContainers: "containerd.services.containers.v1.Containers/ListStream",
        "list_namespace_containers", ListNamespaceContainersRequest => ListNamespaceContainersResponse;
}

impl Rpc {
    /// The path of the HTTP request.
    pub fn path(self, version: ApiVersion) -> String {
        let service = self.service();
        if self.is_cri() {
            format!("/runtime.{version}.{service}Service/{self}")
        } else {
            format!("/{service}")
        }
    }

    /// Whether the call is one of CRI, and not of containerd's own API.
    pub fn is_cri(self) -> bool {
        !self.service().contains('/')
    }

    /// Whether the answer is a list, which may be too long for one message.
    pub fn is_list(self) -> bool {
        matches!(
            self,
            Self::ListPodSandbox | Self::ListContainers | Self::ListContainerStats | Self::ListImages
        ) || self.is_streamed()
    }

    /// Whether the answer comes in parts.
    pub fn is_streamed(self) -> bool {
        self.operation().starts_with("stream_")
    }
}

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
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

    /// The generated messages cannot differ from the definition. The table of calls could.
    #[test]
    fn every_call_is_one_of_the_definition() {
        let definition = include_str!("../proto/api.proto");
        for rpc in Rpc::ALL.iter().filter(|rpc| rpc.is_cri()) {
            let (_, service) =
                definition.split_once(&format!("service {}Service {{", rpc.service())).unwrap();
            let (service, _) = service.split_once("\n}").unwrap();
            let (_, call) = service.split_once(&format!("rpc {rpc}(")).unwrap();
            let (call, _) = call.split_once("{}").unwrap();
            let streamed = if rpc.is_streamed() { "stream " } else { "" };
            assert_eq!(call.trim_end(), format!("{rpc}Request) returns ({streamed}{rpc}Response)"));
        }
    }
}
