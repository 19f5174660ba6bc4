//! A disk of limited size, filled by layers.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

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
    #[must_use]
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
    #[must_use]
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
