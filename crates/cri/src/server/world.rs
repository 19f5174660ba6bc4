//! What the runtime has: sandboxes, containers, images and a disk.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::messages::*;

/// What the runtime has. Everything can be looked at and changed at any time.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// The disk of images and containers.
    pub disk: Disk,
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
    pub(super) written: Space,
    layers: Vec<Layer>,
}

/// An image and its layers.
#[derive(Clone, Debug)]
pub(super) struct ImageRecord {
    pub(super) image: Image,
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
    /// The runtime handler that runs it.
    pub handler: String,
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
    /// What it has written.
    pub written: Space,
}

impl World {
    /// An empty world with a disk.
    pub fn new(disk: Disk) -> Self {
        Self { disk, ..Self::default() }
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
        self.images.insert(id.clone(), ImageRecord { image, layers: new.layers });
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
            runtime_handler: new.handler,
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
        let pod = PodSandboxMetadata {
            name: "web".to_owned(),
            uid: "0b7b9c1e-3a52-4a44-9d8e-0d5b1a3a8f10".to_owned(),
            namespace: "default".to_owned(),
            attempt: 0,
        };
        let sandbox = self.add_sandbox(NewSandbox { pod, created_at: 1, ..NewSandbox::default() });
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

    /// Removes a container, whatever its state is.
    pub fn remove_container(&mut self, id: &str) {
        self.free(|world| _ = world.containers.remove(id));
    }

    /// Removes a sandbox with its containers.
    pub fn remove_sandbox(&mut self, id: &str) {
        let containers: Vec<String> = self
            .containers()
            .filter(|container| container.pod_sandbox_id == id)
            .map(|c| c.id.clone())
            .collect();
        for container in containers {
            self.remove_container(&container);
        }
        self.sandboxes.remove(id);
    }

    /// Removes an image. Containers keep its layers.
    pub fn remove_image(&mut self, id: &str) {
        self.free(|world| _ = world.images.remove(id));
    }

    /// Removes something. What it had is free after the disk's delay.
    fn free(&mut self, remove: impl FnOnce(&mut Self)) {
        let before = self.held();
        remove(self);
        let (now, after) = (Instant::now(), self.held());
        self.disk.leaving.retain(|(until, _)| *until > now);
        if !self.disk.delay.is_zero() {
            let freed = Space {
                bytes: before.bytes.saturating_sub(after.bytes),
                inodes: before.inodes.saturating_sub(after.inodes),
            };
            self.disk.leaving.push((now + self.disk.delay, freed));
        }
    }

    /// What images and containers have. A layer of several counts once.
    fn held(&self) -> Space {
        let of_containers = self.containers.values().flat_map(|record| &record.layers);
        let layers = self.images.values().flat_map(|record| &record.layers).chain(of_containers);
        let layers: BTreeMap<&str, Space> = layers
            .map(|layer| (layer.digest.as_str(), Space { bytes: layer.bytes, inodes: layer.inodes }))
            .collect();
        let written = self.containers.values().map(|record| record.written);
        layers.into_values().chain(written).fold(Space::default(), Space::plus)
    }

    /// What the runtime uses, what it has not freed yet included.
    pub(super) fn used(&self) -> Space {
        let now = Instant::now();
        let leaving = self.disk.leaving.iter().filter(|(until, _)| *until > now).map(|(_, space)| *space);
        leaving.fold(self.held(), Space::plus)
    }

    /// How full the disk is now: what `statvfs` would say.
    pub fn usage(&self) -> DiskUsage {
        let used = self.disk.other.plus(self.used());
        DiskUsage {
            capacity: self.disk.capacity,
            available: self.disk.capacity.saturating_sub(used.bytes),
            inodes: self.disk.inodes,
            inodes_available: self.disk.inodes.saturating_sub(used.inodes),
        }
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
    /// How many inodes it takes.
    pub inodes: u64,
}

/// How full a disk is, as `statvfs` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskUsage {
    /// The size in bytes.
    pub capacity: u64,
    /// What is left of it.
    pub available: u64,
    /// The number of inodes.
    pub inodes: u64,
    /// What is left of them.
    pub inodes_available: u64,
}

/// A disk.
#[derive(Clone, Debug)]
pub struct Disk {
    /// The size in bytes.
    pub capacity: u64,
    /// The number of inodes.
    pub inodes: u64,
    /// What is taken by something else than the runtime.
    pub other: Space,
    /// How long it takes until what was removed is free.
    pub delay: Duration,
    /// What was removed, and when it is free.
    leaving: Vec<(Instant, Space)>,
}

/// Bytes and inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes.
    pub bytes: u64,
    /// Inodes.
    pub inodes: u64,
}

impl Space {
    fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }
}

impl Default for Disk {
    fn default() -> Self {
        Self::new(100 << 30, 10_000_000)
    }
}

impl Disk {
    /// An empty disk.
    pub fn new(capacity: u64, inodes: u64) -> Self {
        Self { capacity, inodes, other: Space::default(), delay: Duration::ZERO, leaving: Vec::new() }
    }
}
