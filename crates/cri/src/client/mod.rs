//! Calls to a container runtime: each with a deadline, each counted, each with an error that says
//! what to do.

mod call;
mod containerd;
mod list;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tonic::transport::Channel;

pub use list::{Listing, PodKey};

use crate::messages::*;
use crate::rpc::Call;
use crate::{ApiVersion, Endpoint, Error, Rpc};

/// The longest message in either direction: what runtimes and the kubelet have agreed on.
pub const MESSAGE_LIMIT: usize = 16 * 1024 * 1024;
/// The version of its interface that the kubelet states.
const KUBELET_API_VERSION: &str = "0.1.0";
/// How long the first call may take, which asks for the runtime's version.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// How long the sizes of layers may take. They are only for people, and some runtimes look through files
/// for them.
const SIZES_DEADLINE: Duration = Duration::from_secs(10);

/// How the client behaves.
#[derive(Clone)]
pub struct Settings {
    /// How long a call may take; stopping a container also has its grace period. The default is the
    /// kubelet's, 2 minutes.
    pub deadline: Duration,
    /// Told about each call; connects it to metrics.
    pub observer: Option<Observer>,
}

/// Is told about each call when it has ended: which one, whether it failed, and how long it took, until the
/// last part of a streamed list. It runs on the caller's task, so it must not block.
pub type Observer = Arc<dyn Fn(Rpc, bool, Duration) + Send + Sync>;

impl Default for Settings {
    fn default() -> Self {
        Self { deadline: Duration::from_secs(120), observer: None }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// A container runtime, ready to be called. Cheap to clone.
///
/// When the runtime restarts, the next call connects again, and [`Client::follow`] learns what it is by then.
#[derive(Clone, Debug)]
pub struct Client {
    endpoint: Endpoint,
    channel: Channel,
    /// How many connections there have been.
    connections: Arc<AtomicU64>,
    /// How many there had been when the version was asked for.
    asked: u64,
    api: ApiVersion,
    runtime: Arc<VersionResponse>,
    settings: Settings,
    /// The namespace of containerd that calls of its own API are about.
    namespace: Option<String>,
}

impl Client {
    /// Connects to a runtime and asks for its version, by CRI v1 or else v1alpha2.
    ///
    /// # Errors
    ///
    /// There is no socket, it cannot be used, or what listens is no container runtime.
    pub async fn connect(endpoint: &Endpoint, settings: Settings) -> Result<Self, Error> {
        let (channel, connections) = call::channel(endpoint.path());
        let mut client = Self {
            endpoint: endpoint.clone(),
            channel,
            connections,
            asked: 0,
            api: ApiVersion::V1,
            runtime: Arc::default(),
            settings,
            namespace: None,
        };
        client.ask_version().await?;
        Ok(client)
    }

    /// Asks for the version again if there has been a new connection since: a runtime that was upgraded in
    /// place is another one, and may no longer serve v1alpha2.
    ///
    /// # Errors
    ///
    /// As of [`Client::connect`].
    pub async fn follow(&mut self) -> Result<(), Error> {
        if self.connections() > self.asked { self.ask_version().await } else { Ok(()) }
    }

    /// How many connections there have been: after another one, the runtime may be another, too.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    async fn ask_version(&mut self) -> Result<(), Error> {
        // Read before the call, which may make the first connection, or a new one that has to be asked again.
        let connections = self.connections().max(1);
        let request = VersionRequest { version: KUBELET_API_VERSION.to_owned() };
        let deadline = self.settings.deadline.min(CONNECT_DEADLINE);
        let path = self.endpoint.path().to_owned();
        let mut refused = None;
        for api in [ApiVersion::V1, ApiVersion::V1Alpha2] {
            self.api = api;
            match self.call_within(request.clone(), deadline).await {
                Ok(runtime) => {
                    (self.runtime, self.asked) = (Arc::new(runtime), connections);
                    return Ok(());
                }
                Err(Error::Unimplemented { detail, .. }) => _ = refused.get_or_insert(detail),
                // Something closes the connection or answers in another protocol.
                Err(Error::Disconnected { detail, .. }) if self.asked == 0 => {
                    return Err(Error::NotCri { path, detail });
                }
                Err(other) => return Err(other),
            }
        }
        Err(Error::NotCri { path, detail: refused.unwrap_or_default() })
    }

    /// Makes a connection and ends it, to learn early why there is none.
    ///
    /// # Errors
    ///
    /// There is no socket, it cannot be used, or nobody listens.
    pub async fn probe(endpoint: &Endpoint) -> Result<(), Error> {
        call::probe(endpoint.path()).await
    }

    /// What the runtime said about itself when its version was last asked for.
    pub fn runtime(&self) -> &VersionResponse {
        &self.runtime
    }

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
        let request = ContainerStatusRequest { container_id, ..ContainerStatusRequest::default() };
        absent(self.call(request).await.map(|answer| answer.status))
    }

    /// What containers have in their own layers, by their ids, as far as the runtime tells. The timestamp is that
    /// of the measurement; containerd makes one every ten seconds.
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn layer_sizes(&self) -> Result<HashMap<String, FilesystemUsage>, Error> {
        let deadline = self.settings.deadline.min(SIZES_DEADLINE);
        let answer = self.call_within(ListContainerStatsRequest::default(), deadline).await;
        let (list, parts) = (answer.map(|answer| answer.stats), StreamContainerStatsRequest::default());
        let id: fn(&ContainerStats) -> &str = |stats| stats.attributes.as_ref().map_or("", |it| &it.id);
        let stats = self.or_in_parts(list, parts, |part| part.container_stats, id).await?.into_iter();
        Ok(stats.filter_map(|stats| Some((stats.attributes?.id, stats.writable_layer?))).collect())
    }

    /// Stops a container, and waits until it has ended. Succeeds if it had before, or does not exist.
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), Error> {
        let container_id = named::<StopContainerRequest>(id)?;
        let timeout = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        let deadline = self.settings.deadline.saturating_add(grace);
        gone(self.call_within(StopContainerRequest { container_id, timeout }, deadline).await)
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
        let request = PodSandboxStatusRequest { pod_sandbox_id, ..PodSandboxStatusRequest::default() };
        absent(self.call(request).await.map(|answer| answer.status))
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

    /// The status of an image, which its id names, or `None` if the runtime does not have it.
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn image(&self, image: ImageSpec) -> Result<Option<Image>, Error> {
        absent(self.image_status(image, false).await.map(|answer| answer.image))
    }

    /// The labels of an image, which its id names.
    ///
    /// # Errors
    ///
    /// As above.
    pub async fn image_labels(&self, image: ImageSpec) -> Result<BTreeMap<String, String>, Error> {
        let (rpc, answer) = (Rpc::ImageStatus, self.image_status(image, true).await?);
        if answer.info.values().any(|info| info.len() > LONGEST_INFO) {
            return Err(Error::TooLarge { rpc, detail: format!("more than {LONGEST_INFO} bytes") });
        }
        let detail =
            || "the verbose status has no labels, or not as containerd and CRI-O tell them".to_owned();
        answer.labels().ok_or_else(|| Error::Unimplemented { rpc, detail: detail() })
    }

    /// What is said of another image is no answer.
    async fn image_status(&self, image: ImageSpec, verbose: bool) -> Result<ImageStatusResponse, Error> {
        let id = named::<ImageStatusRequest>(&image.image)?;
        let answer = self.call(ImageStatusRequest { image: Some(image), verbose }).await?;
        let other = answer.image.as_ref().filter(|found| found.id != id);
        let detail = other.map(|other| format!("asked for image {id}, it answers about {}", other.id));
        let error = |detail| Error::Runtime { rpc: Rpc::ImageStatus, code: "another image", detail };
        detail.map_or(Ok(answer), |detail| Err(error(detail)))
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

/// What does not exist needs no removal, nor does what somebody else removes just now. containerd says the latter
/// without a code of its own.
fn gone<T>(answer: Result<T, Error>) -> Result<(), Error> {
    match answer {
        Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
        Err(Error::Runtime { detail, .. }) if detail.contains("already in removing state") => Ok(()),
        Err(error) => Err(error),
    }
}
