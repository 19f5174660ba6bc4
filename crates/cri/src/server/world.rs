//! What the runtime has: sandboxes, containers, images and a disk.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

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
    pub(super) started_at: i64,
    pub(super) finished_at: i64,
    pub(super) exit_code: i32,
    pub(super) mounts: Vec<Mount>,
    pub(super) log_path: String,
    /// Ends at once when it is started, with this code.
    pub(super) ends_with: Option<i32>,
    pub(super) written: Space,
    pub(super) layers: Vec<Layer>,
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
        self.disk.hold(&new.layers);
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
        let (started_at, finished_at) = match new.state {
            ContainerState::ContainerCreated => (0, 0),
            ContainerState::ContainerRunning | ContainerState::ContainerUnknown => (new.created_at, 0),
            ContainerState::ContainerExited => (new.created_at, new.created_at),
        };
        let mounts = new.image_volumes.into_iter().map(mount).collect();
        self.insert(ContainerRecord {
            container,
            started_at,
            finished_at,
            mounts,
            log_path: new.log_path,
            written: new.written,
            ..ContainerRecord::default()
        });
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

    /// Adds a container, which has its image's layers from then on.
    pub(super) fn insert(&mut self, mut record: ContainerRecord) {
        if let Some(image) = self.images.get(&record.container.image_ref) {
            record.layers = image.layers.clone();
        }
        self.disk.hold(&record.layers);
        self.disk.write(record.written);
        self.containers.insert(record.container.id.clone(), record);
    }

    /// Sets a container's state, whatever it was.
    pub fn set_state(&mut self, container: &str, state: ContainerState) {
        let now = now();
        let Some(record) = self.containers.get_mut(container) else { return };
        record.container.set_state(state);
        match state {
            ContainerState::ContainerRunning => (record.started_at, record.finished_at) = (now, 0),
            ContainerState::ContainerExited => record.finished_at = now,
            ContainerState::ContainerCreated | ContainerState::ContainerUnknown => {}
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
        if let Some(record) = self.containers.remove(id) {
            self.disk.release(&record.layers);
            self.disk.erase(record.written);
        }
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
        if let Some(record) = self.images.remove(id) {
            self.disk.release(&record.layers);
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

/// The time in nanoseconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
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
    /// Layers by digest, and how many images and containers have them.
    layers: BTreeMap<String, (Space, usize)>,
    written: Space,
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

    fn minus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            inodes: self.inodes.saturating_sub(other.inodes),
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
        Self {
            capacity,
            inodes,
            other: Space::default(),
            delay: Duration::ZERO,
            layers: BTreeMap::new(),
            written: Space::default(),
            leaving: Vec::new(),
        }
    }

    /// How full the disk is now.
    pub fn usage(&self) -> DiskUsage {
        let used = self.other.plus(self.used());
        DiskUsage {
            capacity: self.capacity,
            available: self.capacity.saturating_sub(used.bytes),
            inodes: self.inodes,
            inodes_available: self.inodes.saturating_sub(used.inodes),
        }
    }

    /// What the runtime uses, what it has not freed yet included.
    pub(super) fn used(&self) -> Space {
        let now = Instant::now();
        let layers = self.layers.values().map(|(space, _)| *space);
        let leaving = self.leaving.iter().filter(|(until, _)| *until > now).map(|(_, space)| *space);
        layers.chain(leaving).fold(self.written, Space::plus)
    }

    /// Someone more has these layers.
    pub(super) fn hold(&mut self, layers: &[Layer]) {
        for layer in layers {
            let space = Space { bytes: layer.bytes, inodes: layer.inodes };
            self.layers.entry(layer.digest.clone()).or_insert((space, 0)).1 += 1;
        }
    }

    /// Someone less has these layers; those that nobody has any more go.
    pub(super) fn release(&mut self, layers: &[Layer]) {
        for layer in layers {
            if let Some((space, holders)) = self.layers.get_mut(&layer.digest) {
                *holders -= 1;
                if *holders == 0 {
                    let space = *space;
                    self.layers.remove(&layer.digest);
                    self.leave(space);
                }
            }
        }
    }

    /// A container writes.
    pub(super) fn write(&mut self, space: Space) {
        self.written = self.written.plus(space);
    }

    /// What a container has written goes.
    pub(super) fn erase(&mut self, space: Space) {
        self.written = self.written.minus(space);
        self.leave(space);
    }

    fn leave(&mut self, space: Space) {
        let now = Instant::now();
        self.leaving.retain(|(until, _)| *until > now);
        if !self.delay.is_zero() {
            self.leaving.push((now + self.delay, space));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(digest: &str, bytes: u64) -> Layer {
        Layer { digest: digest.to_owned(), bytes, inodes: 1 }
    }

    #[tokio::test(start_paused = true)]
    async fn a_shared_layer_is_stored_once_and_freed_with_its_last_holder() {
        let mut disk = Disk::new(100, 100);
        disk.other = Space { bytes: 10, inodes: 0 };
        disk.hold(&[layer("base", 20), layer("a", 5)]);
        disk.hold(&[layer("base", 20), layer("b", 7)]);
        assert_eq!(disk.usage().available, 58);
        assert_eq!(disk.usage().inodes_available, 97);
        disk.release(&[layer("base", 20), layer("a", 5)]);
        assert_eq!(disk.usage().available, 63);
        disk.delay = Duration::from_secs(2);
        disk.release(&[layer("base", 20), layer("b", 7)]);
        assert_eq!(disk.usage().available, 63);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(disk.usage().available, 90);
    }
}
