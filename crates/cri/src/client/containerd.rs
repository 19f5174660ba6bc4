//! containerd's own API, on the same socket: containers that lists over CRI lack, made by `ctr` or `nerdctl` or not
//! loaded at its start, and what sandboxes are made of.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use super::Client;
use crate::messages::*;
use crate::{Error, Rpc};

/// Where containerd has what is made over CRI.
const CRI_NAMESPACE: &str = "k8s.io";
/// The most namespaces, and the most bytes of images' names, that are believed.
const MOST_NAMESPACES: usize = 1000;
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// How long each call may take.
const DEADLINE: Duration = Duration::from_secs(10);

impl Client {
    /// The images of sandboxes, of which containerd 2 does not tell otherwise what they use, and of containers in all
    /// namespaces of containerd but those of CRI that are listed with these ids.
    ///
    /// # Errors
    ///
    /// It is no containerd, or does not answer.
    pub async fn foreign_images(&self, listed: &HashSet<&str>) -> Result<Vec<String>, Error> {
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
            let is_cri = name == CRI_NAMESPACE;
            client.namespace = Some(name);
            let keep = |message: ListNamespaceContainersResponse| {
                let ForeignContainer { id, image } = message.container.unwrap_or_default();
                if is_cri && listed.contains(id.as_str()) {
                    return Ok(());
                }
                bytes = bytes.saturating_add(image.len());
                images.insert(image);
                if bytes > MOST_BYTES { Err(format!("more than {MOST_BYTES} bytes")) } else { Ok(()) }
            };
            client.stream(ListNamespaceContainersRequest {}, keep).await?;
        }
        // Some containers are not made from an image.
        images.remove("");
        Ok(images.into_iter().collect())
    }
}
