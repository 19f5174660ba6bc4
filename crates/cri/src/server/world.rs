//! What the runtime has: sandboxes, containers, images and a disk.

use std::collections::BTreeMap;

use crate::messages::*;

/// What the runtime has. Everything can be looked at and changed at any time.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// The size in bytes of the disk of images and containers.
    pub capacity: u64,
    /// The bytes of it that are taken by something else.
    pub other: u64,
    /// The images of running containers that CRI does not list.
    pub foreign: Vec<String>,
    /// The image that containerd's own record of each sandbox names.
    pub pause: String,
    /// When the sizes of layers were measured, in nanoseconds since 1970; nothing stands for the end of time.
    pub measured_at: Option<i64>,
    pub(super) containers: BTreeMap<String, ContainerRecord>,
    pub(super) sandboxes: BTreeMap<String, PodSandbox>,
    pub(super) images: BTreeMap<String, ImageRecord>,
    pub(super) created: u64,
}

/// A container, and what its status adds.
#[derive(Clone, Debug, Default)]
pub(super) struct ContainerRecord {
    pub(super) container: Container,
    pub(super) mounts: Vec<Mount>,
    pub(super) log_path: String,
    pub(super) written: u64,
    layers: Vec<Layer>,
}

/// An image and its layers.
#[derive(Clone, Debug)]
pub(super) struct ImageRecord {
    pub(super) image: Image,
    pub(super) info: Option<String>,
    layers: Vec<Layer>,
}

/// An image to add.
#[derive(Clone, Debug, Default)]
pub struct NewImage {
    /// Names with tags.
    pub tags: Vec<String>,
    /// Names with digests.
    pub digests: Vec<String>,
    /// The layers.
    pub layers: Vec<Layer>,
    /// Whether the runtime wants it to stay.
    pub pinned: bool,
    /// The runtime handler that it was pulled for.
    pub handler: String,
    /// What its verbose status adds; nothing as of an old runtime.
    pub info: Option<String>,
}

/// A sandbox to add.
#[derive(Clone, Debug, Default)]
pub struct NewSandbox {
    /// The pod.
    pub pod: PodSandboxMetadata,
    /// Whether it has been stopped.
    pub stopped: bool,
    /// When it was created, in nanoseconds since 1970.
    pub created_at: i64,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// A container to add.
#[derive(Clone, Debug, Default)]
pub struct NewContainer {
    /// The id of its sandbox, whose pod's labels it gets.
    pub sandbox: String,
    /// Its name in the pod.
    pub name: String,
    /// How often it was created before.
    pub attempt: u32,
    /// The id of its image.
    pub image: String,
    /// Its state.
    pub state: ContainerState,
    /// When it was created, in nanoseconds since 1970.
    pub created_at: i64,
    /// The ids of images that it has mounted as volumes.
    pub image_volumes: Vec<String>,
    /// The path of its log.
    pub log_path: String,
    /// How many bytes it has written.
    pub written: u64,
}

impl NewSandbox {
    /// A ready sandbox of a pod.
    pub fn of(namespace: &str, name: &str, uid: &str) -> Self {
        let (namespace, name, uid) = (namespace.to_owned(), name.to_owned(), uid.to_owned());
        let pod = PodSandboxMetadata { name, uid, namespace, attempt: 0 };
        Self { pod, created_at: 1, ..Self::default() }
    }
}

impl World {
    /// An empty world with a disk of so many bytes.
    pub fn new(capacity: u64) -> Self {
        Self { capacity, ..Self::default() }
    }

    /// Adds an image, and returns its id.
    pub fn add_image(&mut self, new: NewImage) -> String {
        let id = format!("sha256:{}", self.next_id());
        let size = new.layers.iter().map(|layer| layer.bytes).sum();
        let spec = (!new.handler.is_empty())
            .then(|| ImageSpec { runtime_handler: new.handler, ..ImageSpec::default() });
        let image = Image {
            id: id.clone(),
            repo_tags: new.tags,
            repo_digests: new.digests,
            size,
            spec,
            pinned: new.pinned,
            ..Image::default()
        };
        self.images.insert(id.clone(), ImageRecord { image, info: new.info, layers: new.layers });
        id
    }

    /// Adds a sandbox, and returns its id.
    pub fn add_sandbox(&mut self, new: NewSandbox) -> String {
        let id = self.next_id();
        let state =
            if new.stopped { PodSandboxState::SandboxNotready } else { PodSandboxState::SandboxReady };
        let labels = pod_labels(&new.pod);
        let sandbox = PodSandbox {
            id: id.clone(),
            metadata: Some(new.pod),
            state: state as i32,
            created_at: new.created_at,
            labels,
            annotations: new.annotations,
            ..PodSandbox::default()
        };
        self.sandboxes.insert(id.clone(), sandbox);
        id
    }

    /// Adds a container, and returns its id. Its sandbox and image need not exist.
    pub fn add_container(&mut self, new: NewContainer) -> String {
        let id = self.next_id();
        let mut labels =
            self.sandboxes.get(&new.sandbox).map(|sandbox| sandbox.labels.clone()).unwrap_or_default();
        labels.insert(CONTAINER_NAME.to_owned(), new.name.clone());
        let mount = |image: String| Mount {
            container_path: format!("/volumes/{image}"),
            image: Some(ImageSpec { image, ..ImageSpec::default() }),
            ..Mount::default()
        };
        let container = Container {
            id: id.clone(),
            pod_sandbox_id: new.sandbox,
            metadata: Some(ContainerMetadata { name: new.name, attempt: new.attempt }),
            image: Some(ImageSpec { image: new.image.clone(), ..ImageSpec::default() }),
            image_ref: new.image.clone(),
            state: new.state as i32,
            created_at: new.created_at,
            labels,
            ..Container::default()
        };
        // From then on, a container has its image's layers.
        let layers = self.images.get(&new.image).map(|image| image.layers.clone()).unwrap_or_default();
        let mounts = new.image_volumes.into_iter().map(mount).collect();
        let (log_path, written) = (new.log_path, new.written);
        self.containers.insert(id.clone(), ContainerRecord { container, mounts, log_path, written, layers });
        id
    }

    /// Adds the pod `default/web` with a container that has ended so many times, without a log. Returns
    /// the ids, the oldest first.
    pub fn add_crashed(&mut self, image: &str, times: u32) -> Vec<String> {
        let sandbox = NewSandbox::of("default", "web", "0b7b9c1e-3a52-4a44-9d8e-0d5b1a3a8f10");
        let sandbox = self.add_sandbox(sandbox);
        let ended = |attempt: u32| NewContainer {
            sandbox: sandbox.clone(),
            name: "app".to_owned(),
            attempt,
            image: image.to_owned(),
            state: ContainerState::ContainerExited,
            created_at: 1 + i64::from(attempt),
            ..NewContainer::default()
        };
        (0..times).map(|attempt| self.add_container(ended(attempt))).collect()
    }

    /// Sets a container's state, whatever it was.
    pub fn set_state(&mut self, container: &str, state: ContainerState) {
        if let Some(record) = self.containers.get_mut(container) {
            record.container.set_state(state);
        }
    }

    /// Makes a sandbox ready, or not.
    pub fn set_ready(&mut self, sandbox: &str, is_ready: bool) {
        let state = if is_ready { PodSandboxState::SandboxReady } else { PodSandboxState::SandboxNotready };
        if let Some(sandbox) = self.sandboxes.get_mut(sandbox) {
            sandbox.set_state(state);
        }
    }

    /// All containers, by id.
    pub fn containers(&self) -> impl Iterator<Item = &Container> {
        self.containers.values().map(|record| &record.container)
    }

    /// All sandboxes, by id.
    pub fn sandboxes(&self) -> impl Iterator<Item = &PodSandbox> {
        self.sandboxes.values()
    }

    /// All images, by id.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.images.values().map(|record| &record.image)
    }

    /// Sets how many bytes a container has written.
    pub fn set_written(&mut self, container: &str, bytes: u64) {
        if let Some(record) = self.containers.get_mut(container) {
            record.written = bytes;
        }
    }

    /// Removes a container, whatever its state is.
    pub fn remove_container(&mut self, id: &str) {
        self.containers.remove(id);
    }

    /// Removes a sandbox with its containers.
    pub fn remove_sandbox(&mut self, id: &str) {
        self.containers.retain(|_, record| record.container.pod_sandbox_id != id);
        self.sandboxes.remove(id);
    }

    /// Gives an image one more name.
    pub fn add_tag(&mut self, id: &str, tag: &str) {
        if let Some(record) = self.images.get_mut(id) {
            record.image.repo_tags.push(tag.to_owned());
        }
    }

    /// Removes an image. Containers keep its layers.
    pub fn remove_image(&mut self, id: &str) {
        self.images.remove(id);
    }

    /// How many bytes images and containers have. A layer of several counts once.
    pub(super) fn used(&self) -> u64 {
        let of_containers = self.containers.values().flat_map(|record| &record.layers);
        let layers = self.images.values().flat_map(|record| &record.layers).chain(of_containers);
        let layers: BTreeMap<&str, u64> = layers.map(|layer| (layer.digest.as_str(), layer.bytes)).collect();
        layers.into_values().chain(self.containers.values().map(|record| record.written)).sum()
    }

    /// How many bytes of the disk are free.
    pub fn available(&self) -> u64 {
        self.capacity.saturating_sub(self.other + self.used())
    }

    /// A new id, which looks as those of containerd do: any beginning tells it from most others.
    pub(super) fn next_id(&mut self) -> String {
        self.created += 1;
        let mut random = fastrand::Rng::with_seed(self.created);
        format!("{:032x}{:032x}", random.u128(..), random.u128(..))
    }
}

/// The labels that the kubelet gives to what belongs to a pod.
fn pod_labels(pod: &PodSandboxMetadata) -> BTreeMap<String, String> {
    let PodSandboxMetadata { name, namespace, uid, .. } = pod;
    let labels = [(POD_NAME, name), (POD_NAMESPACE, namespace), (POD_UID, uid)];
    labels.map(|(key, value)| (key.to_owned(), value.clone())).into()
}

/// A layer of an image. Images with the same layer share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// What the layer is known by.
    pub digest: String,
    /// Its size.
    pub bytes: u64,
}
