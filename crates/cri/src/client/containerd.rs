//! containerd's own API, on the same socket: containers that lists over CRI lack, made by `ctr` or `nerdctl`, and what
//! sandboxes are made of.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Client;
use crate::messages::*;
use crate::{Error, Rpc};

/// Leaves out the containers that CRI lists with their images. Sandboxes are listed without: containerd 2 does not tell
/// otherwise which image they use.
const WITHOUT_IMAGE: &str = "labels.\"io.cri-containerd.kind\"!=container";
/// The most namespaces, and the most bytes of images' names, that are believed.
const MOST_NAMESPACES: usize = 1000;
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// How long each call may take.
const DEADLINE: Duration = Duration::from_secs(10);

impl Client {
    /// The images of sandboxes, and of containers that other clients of containerd have made, in all its namespaces.
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
            let request = ListNamespaceContainersRequest { filters: vec![WITHOUT_IMAGE.to_owned()] };
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
