//! containerd's own API, on the same socket: containers that were not made over CRI, by `ctr` or `nerdctl`.
//!
//! The field numbers are those of containerd's `api/services/namespaces/v1` and `api/services/containers/v1`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Client;
use crate::{Error, Rpc};

/// Leaves out what the CRI plugin has made: containers and sandboxes, which CRI lists.
const NOT_BY_CRI: &str =
    "labels.\"io.cri-containerd.kind\"!=container,labels.\"io.cri-containerd.kind\"!=sandbox";
/// The most namespaces, and the most bytes of images' names, that are believed.
const MOST_NAMESPACES: usize = 1000;
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// How long each call may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Asks for all namespaces.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ListNamespacesRequest {}

/// All namespaces.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ListNamespacesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) namespaces: Vec<ForeignNamespace>,
}

/// A namespace of containerd.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ForeignNamespace {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// Asks for the containers of a namespace, which a header names, one after the other.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ListNamespaceContainersRequest {
    #[prost(string, repeated, tag = "1")]
    pub(crate) filters: Vec<String>,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ListNamespaceContainersResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) container: Option<ForeignContainer>,
}

/// What is used of a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ForeignContainer {
    #[prost(string, tag = "3")]
    pub(crate) image: String,
}

impl Client {
    /// The images that containers name which other clients of containerd have made, in all of its namespaces.
    ///
    /// # Errors
    ///
    /// It is no containerd, or does not answer.
    pub async fn foreign_images(&self) -> Result<Vec<String>, Error> {
        let name = &self.runtime.runtime_name;
        if name != "containerd" {
            let detail = format!("{name} is not containerd");
            return Err(Error::Unimplemented { rpc: Rpc::ListNamespaces, detail });
        }
        let mut client = self.clone();
        client.settings.deadline = client.settings.deadline.min(DEADLINE);
        let namespaces = client.call(ListNamespacesRequest {}).await?.namespaces;
        if namespaces.len() > MOST_NAMESPACES {
            let detail = format!("more than {MOST_NAMESPACES} namespaces");
            return Err(Error::TooLarge { rpc: Rpc::ListNamespaces, detail });
        }
        let (mut images, mut bytes) = (BTreeSet::new(), 0_usize);
        for ForeignNamespace { name } in namespaces {
            client.namespace = Some(name);
            let request = ListNamespaceContainersRequest { filters: vec![NOT_BY_CRI.to_owned()] };
            let keep = |message: ListNamespaceContainersResponse| {
                let image = message.container.unwrap_or_default().image;
                bytes = bytes.saturating_add(image.len());
                images.insert(image);
                if bytes > MOST_BYTES { Err(format!("more than {MOST_BYTES} bytes")) } else { Ok(()) }
            };
            client.stream(request, keep).await?;
        }
        // Some containers are not made from an image.
        images.remove("");
        Ok(images.into_iter().collect())
    }
}
