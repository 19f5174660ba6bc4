//! The calls that node collection makes.

use std::collections::HashMap;
use std::time::Duration;

use super::Client;
use crate::Error;
use crate::messages::*;
use crate::rpc::Call;

/// How long the sizes of layers may take. They are only for people, and some runtimes look through files
/// for them.
const SIZES_DEADLINE: Duration = Duration::from_secs(10);

impl Client {
    /// The runtime's status, with its configuration.
    ///
    /// # Errors
    ///
    /// The runtime failed or did not answer; so for all calls here.
    pub async fn status(&self) -> Result<StatusResponse, Error> {
        self.call(StatusRequest { verbose: true }).await
    }

    /// One container's status, or `None` if the runtime does not have it.
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn container(&self, id: &str) -> Result<Option<ContainerStatus>, Error> {
        let container_id = named::<ContainerStatusRequest>(id)?;
        absent(self.call(ContainerStatusRequest { container_id }).await.map(|answer| answer.status))
    }

    /// How many bytes containers have in their own layers, by their ids, as far as the runtime tells.
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn layer_sizes(&self) -> Result<HashMap<String, u64>, Error> {
        let deadline = self.inner.settings.deadline.min(SIZES_DEADLINE);
        let answer = self.call_within(&ListContainerStatsRequest {}, deadline).await?;
        let sizes = answer.stats.into_iter().filter_map(|stats| {
            let bytes = stats.writable_layer?.used_bytes?.value;
            Some((stats.attributes?.id, bytes))
        });
        Ok(sizes.collect())
    }

    /// Stops a container, and waits until it has ended. Succeeds if it had before, or does not exist.
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), Error> {
        let container_id = named::<StopContainerRequest>(id)?;
        let timeout = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        let deadline = self.inner.settings.deadline.saturating_add(grace);
        gone(self.call_within(&StopContainerRequest { container_id, timeout }, deadline).await)
    }

    /// Removes a container. Succeeds if it does not exist.
    ///
    /// **The runtime kills a container that runs.** Look at it right before.
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn remove_container(&self, id: &str) -> Result<(), Error> {
        let container_id = named::<RemoveContainerRequest>(id)?;
        gone(self.call(RemoveContainerRequest { container_id }).await)
    }

    /// One sandbox's status, or `None` if the runtime does not have it.
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn sandbox(&self, id: &str) -> Result<Option<PodSandboxStatus>, Error> {
        let pod_sandbox_id = named::<PodSandboxStatusRequest>(id)?;
        absent(self.call(PodSandboxStatusRequest { pod_sandbox_id }).await.map(|answer| answer.status))
    }

    /// Stops a sandbox. Succeeds if it was stopped before, or does not exist.
    ///
    /// **The runtime kills all containers in it.** Look at them right before.
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn stop_sandbox(&self, id: &str) -> Result<(), Error> {
        let pod_sandbox_id = named::<StopPodSandboxRequest>(id)?;
        gone(self.call(StopPodSandboxRequest { pod_sandbox_id }).await)
    }

    /// Removes a sandbox. Succeeds if it does not exist.
    ///
    /// **The runtime kills and removes all containers in it.** Look at them right before.
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn remove_sandbox(&self, id: &str) -> Result<(), Error> {
        let pod_sandbox_id = named::<RemovePodSandboxRequest>(id)?;
        gone(self.call(RemovePodSandboxRequest { pod_sandbox_id }).await)
    }

    /// An image by its id, tag or digest, or `None` if the runtime does not have it.
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn image(&self, image: &str) -> Result<Option<Image>, Error> {
        let image = named::<ImageStatusRequest>(image)?;
        let image = Some(ImageSpec { image, ..ImageSpec::default() });
        absent(self.call(ImageStatusRequest { image }).await.map(|answer| answer.image))
    }

    /// Removes an image with all its names. Succeeds if it does not exist.
    ///
    /// **The runtime does not ask whether a container uses it, or whether it is pinned.**
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn remove_image(&self, image: ImageSpec) -> Result<(), Error> {
        named::<RemoveImageRequest>(&image.image)?;
        gone(self.call(RemoveImageRequest { image: Some(image) }).await)
    }

    /// Where images and containers are stored, and how much of it the runtime uses.
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn image_filesystems(&self) -> Result<ImageFsInfoResponse, Error> {
        self.call(ImageFsInfoRequest {}).await
    }
}

/// Refuses to name nothing.
fn named<C: Call>(name: &str) -> Result<String, Error> {
    if name.is_empty() {
        return Err(Error::NothingNamed { rpc: C::RPC });
    }
    Ok(name.to_owned())
}

/// What does not exist is no error where the question is whether it does.
fn absent<T>(answer: Result<Option<T>, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(Error::NotFound { .. }) => Ok(None),
        answer => answer,
    }
}

/// What does not exist needs no removal.
fn gone<T>(answer: Result<T, Error>) -> Result<(), Error> {
    match answer {
        Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
